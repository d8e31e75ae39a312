"""A submission and its files: `study.json` has all that a later process needs to continue it."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.model.errors import SeatrialError, SetupProblem, UsageProblem
from seatrial.model.interfaces import Stack
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import ClientSettings, Pace, PodShape, Scalar, Setup, Target, Trial, Workload, to_json
from seatrial.model.settings import own
from seatrial.record.layout import STUDY, TRIALS
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.study import study_directory
from seatrial.study.trial_document import description

NAME = "submit"


@dataclass(frozen=True, slots=True)
class Submission:
    """The submission in study.json."""

    out: Path
    study: str
    namespace: str
    own_namespace: bool
    submit: Submit
    stack: str
    settings: Mapping[str, Mapping[str, Scalar]]
    target: Target
    epoch_ns: int
    project: str = ""

    @property
    def trial(self) -> Trial:
        """Its only trial."""
        on = "local" if self.target.cluster else "kubeconfig"
        setup = Setup(self.stack, self.stack, (), ClientSettings(self.rate), self.settings)
        return Trial(1, NAME, on, setup, {}, 1, 1, ((self.submit,),), target=self.target)

    @property
    def rate(self) -> float | None:
        """Workloads per second; None: as fast as possible."""
        return float(own(self.settings, "submit", "rate")) or None

    @property
    def directory(self) -> Path:
        """The directory of its trial."""
        return self.out / TRIALS / self.trial.name

    @property
    def labels(self) -> dict[str, str]:
        """The labels of everything it creates."""
        return {STUDY_LABEL: self.study}

    def workload(self, index: int) -> Workload:
        """A workload whose name is unique, and the same in every process."""
        sizes = self.submit.sizes
        assert isinstance(sizes, tuple)  # a template has one size
        return self.submit.workload(index, sizes[0], f"{self.submit.name}-{self.study}")


Blames = Callable[[str, int, str], SeatrialError | None]  # kind, code and words of the server → where in the template


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """The options of the command line."""

    submit: Submit
    target: Target
    stack: str
    project: str
    settings: Mapping[str, Mapping[str, Scalar]]
    asked: Mapping[str, Any]
    template: str
    blames: Blames


def trial_json(made: Submission, stack: Stack) -> dict[str, Any]:
    """trial.json of a new submission."""
    target = {key: value for key, value in to_json(made.target).items() if value}
    own_marks = {
        "study": made.study,
        "namespace": made.namespace,
        "own_namespace": made.own_namespace,
        "removed": False,
    }
    return {
        **description(made.trial, stack),
        "target": {**target, **own_marks},
        "wall_epoch_ns": made.epoch_ns,
        "outcome": "running",
    }


def study_json(made: Submission, request: SubmissionRequest) -> dict[str, Any]:
    """study.json of a new submission."""
    recorded = {
        "study": made.study, "namespace": made.namespace, "own_namespace": made.own_namespace, "stack": made.stack,
        "project": made.project, "wall_epoch_ns": made.epoch_ns, "settings": to_json(made.settings),
        "template": request.template, "submit": to_json(made.submit),
    }  # fmt: skip
    document = study_directory.study_document(NAME, recorded, [made.trial], dict(request.asked))
    return {**document, "run": run_of(made, "running")}


def run_of(made: Submission, state: str) -> dict[str, Any]:
    """`run` of study.json, which differs between two runs of the same study."""
    started = datetime.datetime.fromtimestamp(made.epoch_ns / 1e9, datetime.UTC).isoformat(timespec="seconds")
    wall = {"wall_s": round((time.time_ns() - made.epoch_ns) / 1e9, 3)} if state != "running" else {}
    return {"started": started, **study_directory.surroundings(), **wall, "state": state}


def refuse_occupied(out: Path) -> None:
    """Raises if `out` holds a study."""
    if not (out / STUDY).exists():
        return
    try:
        recorded(out)
    except SeatrialError:
        raise UsageProblem(f"{out} holds another study already", "give another -o") from None
    raise UsageProblem(
        f"{out} holds a submission already", f"continue it: seatrial submit -o {out} --resume; or give another -o"
    )


def recorded(out: Path) -> dict[str, Any]:
    """study.json of a submission; raises if `out` holds none."""
    path = out / STUDY
    if not path.is_file():
        raise UsageProblem(f"{out} holds no study to continue", "omit --resume to begin one")
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise SetupProblem(f"{path} is not JSON: {error}", "it is damaged: submit into another OUT") from error
    if document.get("name") != NAME:
        raise UsageProblem(
            f"{out} holds a study of '{document.get('name')}', not one that `seatrial submit` made", "give another -o"
        )
    return document


def refuse_other_options(
    out: Path, document: Mapping[str, Any], given: Mapping[str, Any], template: str | None
) -> None:
    """Raises if options differ from those that the submission began with."""
    asked = document["asked"]
    other = [
        f"{name} was {'not given' if asked.get(name) is None else asked[name]}, not {value}"
        for name, value in given.items()
        if value is not None and value != asked.get(name) and name != "--template"
    ]
    if template is not None and template != document["scenario"]["template"]:
        other.append("the template has changed")
    if other:
        raise UsageProblem(
            f"{out} was begun with other options: {'; '.join(other)}",
            f"continue as it was begun: seatrial submit -o {out} --resume; or give another -o",
        )


def submission_of(out: Path, document: Mapping[str, Any]) -> Submission:
    """The submission that study.json describes."""
    said = document["scenario"]
    fields = {key: value for key, value in said["submit"].items() if key != "action"}
    fields |= {
        "sizes": tuple(fields["sizes"]),
        "shape": PodShape(fields["shape"]["requests"]),
        "pace": Pace(**fields["pace"]),
    }
    return Submission(
        out, said["study"], said["namespace"], said["own_namespace"], Submit(**fields), said["stack"], said["settings"],
        Target(**document["target"]), said["wall_epoch_ns"], said["project"],
    )  # fmt: skip
