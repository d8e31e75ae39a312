"""`seatrial sample`: observes the workloads of a study in their cluster, once or until they end, as often as one likes.

The study says where its workloads were sent. Each sample writes its own segment, which is merged with the others, so it can run
beside a submission, beside another sample, and after a run that was killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from seatrial import stacks
from seatrial.analysis.stage_times import Lifecycle, lifecycle
from seatrial.analysis.studies import Study
from seatrial.clusters.access.target_access import access_of
from seatrial.kube import Access, ApiProblem, Client, Lost, Unreachable
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.plan import Target
from seatrial.observe import time_sources
from seatrial.observe.sampling import SampleProgress, Sampler, SampleTarget
from seatrial.record import merging
from seatrial.record.files import write_json
from seatrial.record.inventory import inventory
from seatrial.record.layout import TRIAL
from seatrial.record.trial_record import RUNNING, TrialRecord
from seatrial.study.interruption import interruption
from seatrial.study.sample_validity import judge_sampled
from seatrial.study.study_directory import disk_problems

Told = Callable[[str, SampleProgress], None]


@dataclass
class Sampled:
    """The sampled trials, and notes on the others."""

    trials: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    over: bool = True
    interrupted: bool = False


def sample(out: Path, *, follow: bool, project: str, told: Told) -> Sampled:
    """Samples every trial of the study that has objects in a cluster; with `follow` until all workloads have ended."""
    study = Study.open(out)
    _refuse_other_project(study, project)
    trials, notes = _to_look_at(study)
    result = Sampled([trial.name for trial in trials], notes)
    with disk_problems(out):
        for trial in trials:
            wanted, access = _wanted(trial), _access(study, trial)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                result.notes += runner.run(_look(trial, wanted, access, follow, told, result))
            finish(trial.directory)
    return result


def _refuse_other_project(study: Study, project: str) -> None:
    if not project:
        return
    scenario = study.document.get("scenario") or {}
    mine = {str(scenario.get("project") or "")}
    mine |= {str((trial.document.get("target") or {}).get("namespace") or "") for trial in study.trials}
    if project not in mine:
        known = ", ".join(sorted(mine - {""})) or "none"
        raise UsageProblem(f"{study.out} has no workloads in project '{project}'", f"it has: {known}")


def _to_look_at(study: Study) -> tuple[list[TrialRecord], list[str]]:
    trials, notes = [], []
    for trial in study.trials:
        target = trial.document.get("target") or {}
        if not target.get("study"):
            notes.append(f"{trial.name} has no objects in a cluster: there is nothing to sample")
        elif target.get("removed"):
            notes.append(f"{trial.name}: its objects were removed from the cluster; earlier observations are kept")
        elif not trial.document.get("wall_epoch_ns"):
            notes.append(f"{trial.name} had not begun, or is of an earlier version of seatrial: no common clock")
        else:
            trials.append(trial)
    if not trials and not any("removed" in note for note in notes):
        raise UsageProblem(
            "; ".join(notes) or f"{study.out} has no trial yet",
            "sample what `seatrial submit` or `seatrial run --on kubeconfig` sent to a cluster",
        )
    return trials, notes


def _access(study: Study, trial: TrialRecord) -> Access:
    recorded = {**(study.document.get("target") or {}), **(trial.document.get("target") or {})}
    cluster, context, kubeconfig, server = (
        str(recorded.get(key) or "") for key in ("cluster", "context", "kubeconfig", "server")
    )
    return access_of(Target(cluster=cluster, context=context, kubeconfig=kubeconfig), server)


def _wanted(trial: TrialRecord) -> SampleTarget:
    document = trial.document
    target = document["target"]
    real = stacks.find(trial.stack).real
    counts = [phase.get("count") for phase in trial.phases.values()]
    return SampleTarget(
        trial.directory, trial.stages, real.watches(), real.creates.plural, str(target["study"]),
        str(target.get("watched", target.get("namespace") or f"seatrial-{target['study']}")), int(document["wall_epoch_ns"]),
        sum(count for count in counts if isinstance(count, int)),
        frozenset(name for name, phase in trial.phases.items() if phase.get("interactive")),
    )  # fmt: skip


async def _look(
    trial: TrialRecord, wanted: SampleTarget, access: Access, follow: bool, told: Told, result: Sampled
) -> list[str]:
    async with Client(access) as client:
        await client.probe()
        sampler = Sampler(wanted, client, lambda standing: told(trial.name, standing))
        _recall(sampler, lifecycle(trial))
        interruption.cancels(asyncio.current_task())
        try:
            await (sampler.on() if follow else sampler.once())
        except asyncio.CancelledError:
            result.interrupted = True
        except (ApiProblem, Lost, Unreachable) as problem:
            raise SetupProblem(f"{problem.message}; observations until then are kept", problem.remedy) from problem
        finally:
            interruption.cancels(None)
        result.over = result.over and sampler.over()
    return sampler.notes


def _recall(sampler: Sampler, seen: Lifecycle) -> None:
    """Tells the sampler what earlier processes observed: those objects may be gone."""
    sampler.read_lines()
    names = [stage.name for stage in seen.trial.stages if stage.name in seen.workloads.columns]
    for name in names:
        for number in seen.workloads.filter(seen.workloads[name].is_not_null())["number"].to_list():
            sampler.knows(number, name)


def finish(directory: Path) -> None:
    """Updates trial.json, and seals segments without a writer."""
    trial = TrialRecord.open(directory)
    bounds = _bounds(trial)
    document = {**trial.document, "sources": bounds}
    document.pop("files", None)
    if trial.document.get("outcome", RUNNING) == RUNNING:
        document |= judge_sampled(TrialRecord(directory, document))
    write_json(directory / TRIAL, document)
    if merging.seal(directory, trial.stages, [int(bound["error_ns"]) for bound in bounds]) is not None:
        write_json(directory / TRIAL, {**document, "files": inventory(directory)})


def _bounds(trial: TrialRecord) -> Sequence[dict[str, Any]]:
    """The sources of the trial, with those added that it does not list yet."""
    known = list(trial.document.get("sources") or ())
    return [*known, *time_sources.table()[len(known) :]]
