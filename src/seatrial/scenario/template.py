"""Templates of `seatrial submit`: a Job as YAML in which options replace fields.

All other fields are sent as written, so a template can set what has no option. Beside the Job a template may hold a
PersistentVolumeClaim, which `--pvc` creates for every workload. Built-in templates are in `templates/`.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.model.errors import Mistake, ScenarioProblem, UsageProblem
from seatrial.model.labels import DURATION_ANNOTATION
from seatrial.model.plan import Pace, PodShape
from seatrial.model.units import SECOND, parse_duration, parse_quantity
from seatrial.scenario import yaml_reader
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.source import KeyPath, Source
from seatrial.scenario.yaml_scalars import spell

FOLDER = Path(__file__).with_name("templates")
KINDS = ("training", "distributed", "interactive")
GPU = "nvidia.com/gpu"
DURATION = 10 * SECOND  # of a template without one

_CONTAINERS: KeyPath = ("spec", "template", "spec", "containers")
_DURATION: KeyPath = ("spec", "template", "metadata", "annotations", DURATION_ANNOTATION)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command line; None: as the template has it."""

    kind: str = "training"
    count: int = 1
    parallel: int = 8
    delay_s: float = 0.0
    workers: int | None = None
    gpus: int | None = None
    pvc: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """A template's text, its Job and its claim."""

    text: str
    job: Source
    claim: Source | None = None


_FIELD = re.compile(r"\b(?:spec|metadata)(?:\.[\w-]+|\[\d+\])+")
_PART = re.compile(r"[\w-]+")


def blame(template: Template, kind: str, code: int, said: str) -> ScenarioProblem | None:
    """The server's refusal as a mistake of the template, with its place; None if the template may not be the cause."""
    source = template.claim if kind == "PersistentVolumeClaim" and template.claim else template.job
    signs = ("decoding error", "cannot be handled as") if code == 400 else (" is invalid: ",)
    if not any(sign in said for sign in signs):  # a webhook or a policy: it may accept others
        return None
    ways = [tuple(int(part) if part.isdigit() else part for part in _PART.findall(way)) for way in _FIELD.findall(said)]
    remedy = (
        "`kubectl explain job.spec.template.spec` lists the fields" if code == 400 else "write what the server expects"
    )
    return ScenarioProblem([source.mistake(way, f"the API server says: {said}", remedy) for way in ways[:1] or [()]])


def built_in(kind: str) -> Path:
    """The file of a built-in template."""
    return FOLDER / f"{kind}.yaml"


def read_template(file: Path | None, kind: str) -> Template:
    """A template of the user's, or the built-in one of that kind of workload."""
    path = file or built_in(kind)
    try:
        with path.open("rb") as stream:
            text = yaml_reader.decode(stream.read(yaml_reader.LARGEST_FILE + 1), str(path))
    except OSError as error:
        raise UsageProblem(
            f"{path}: {(error.strerror or str(error)).lower()}",
            "name a file that you can read; `seatrial templates --write DIR` makes some to begin with",
        ) from None
    return template_of(text, str(path))


def template_of(text: str, file: str) -> Template:
    """The template in a text; `file` is the name that mistakes give."""
    jobs: list[Source] = []
    claims: list[Source] = []
    for source in yaml_reader.parse_all(text, file):
        kind = source.data.get("kind")
        if kind == "Job" and source.data.get("apiVersion", "batch/v1") == "batch/v1":
            jobs.append(source)
        elif kind == "PersistentVolumeClaim" and source.data.get("apiVersion", "v1") == "v1":
            claims.append(source)
        else:
            what = f"{source.data.get('apiVersion')} {kind} does not belong in a template"
            remedy = "write a batch/v1 Job, and beside it at most a v1 PersistentVolumeClaim"
            raise ScenarioProblem([source.mistake(("kind",), what, remedy)])
    if len(jobs) != 1 or len(claims) > 1:
        what = f"a template holds one Job and at most one claim; this has {len(jobs)} and {len(claims)}"
        raise ScenarioProblem([Mistake(file, 1, 1, what, "`seatrial templates --write DIR` makes some to begin with")])
    return Template(text, jobs[0], claims[0] if claims else None)


def submit_of(template: Template, options: Options) -> Submit:
    """The submit phase of a template and options. All mistakes are reported together."""
    made = _FromTemplate(template, options)
    submit = made.submit()
    if made.mistakes:
        raise ScenarioProblem(made.mistakes)
    return submit


class _FromTemplate:
    def __init__(self, template: Template, options: Options) -> None:
        self.template, self.options = template, options
        self.source = template.job
        self.job: dict[str, Any] = copy.deepcopy(template.job.data)
        self.mistakes: list[Mistake] = []

    def submit(self) -> Submit:
        options = self.options
        for name in ("name", "generateName", "namespace"):
            if name in self.get(("metadata",), dict, {}):
                remedy = "remove it; --project names the namespace, and every workload has a name of its own"
                self.wrong(("metadata", name), f"{name} cannot be set by a template", remedy)
        if self.get(_CONTAINERS, list, []):
            self.set_gpus()
        elif not self.mistakes:
            remedy = "add `spec.template.spec.containers`; `seatrial templates --write DIR` makes an example"
            why = (
                " for -g to set"
                if options.gpus is not None
                else " for --pvc to mount its claim in"
                if options.pvc
                else ""
            )
            self.wrong(_CONTAINERS, f"there is no container{why}", remedy)
        pods = self.pods()
        return Submit(
            name=options.kind,
            count=options.count,
            sizes=(pods,),
            shuffled=False,
            shape=PodShape(self.requests()),
            duration=self.duration(),
            gang=options.kind == "distributed",
            pace=Pace("rounds", size=options.parallel, every=int(options.delay_s * SECOND)),
            overlay=self.job,
            interactive=options.kind == "interactive",
            claim=self.claim(),
        )

    def wrong(self, way: KeyPath, what: str, remedy: str) -> None:
        self.mistakes.append(self.source.mistake(way, what, remedy))

    def get(self, way: KeyPath, shape: type, default: Any) -> Any:
        """The value there, if it and all around it have the right type."""
        value: Any = self.job
        for end, part in enumerate(way):
            if not isinstance(value, dict) and not (isinstance(value, list) and isinstance(part, int)):
                self.wrong(way[:end], f"{spell(value)} is not a mapping", "look at the indentation")
                return default
            value = value[int(part)] if isinstance(value, list) else value.get(part)
            if value is None:
                return default
        if not isinstance(value, shape) or isinstance(value, bool):
            words = {list: "a list", dict: "a mapping", int: "a whole number", str: "text"}
            self.wrong(way, f"{spell(value)} is not {words[shape]}", f"write {words[shape]} for {way[-1]}")
            return default
        return value

    def set_gpus(self) -> None:
        """In the first container, as request and as limit."""
        if self.options.gpus is None:
            return
        container = self.job["spec"]["template"]["spec"]["containers"][0]
        if not isinstance(container, dict):
            self.wrong((*_CONTAINERS, 0), "a container is a mapping", "write `- name: main` and what it runs")
            return
        resources = container.setdefault("resources", {})
        for part in ("requests", "limits"):
            amounts = resources.setdefault(part, {}) if isinstance(resources, dict) else None
            if not isinstance(amounts, dict):
                self.wrong((*_CONTAINERS, 0, "resources"), f"-g cannot set {GPU} here", "write a mapping of amounts")
                return
            amounts.pop(GPU, None)
            if self.options.gpus:
                amounts[GPU] = self.options.gpus

    def pods(self) -> int:
        """The Job's completions; for a gang, all run at the same time."""
        spec = self.get(("spec",), dict, {})
        if self.options.workers is not None:
            spec["parallelism"] = spec["completions"] = self.options.workers + 1
        parallel = self.get(("spec", "parallelism"), int, 1)
        pods: int = self.get(("spec", "completions"), int, parallel)
        for name, value in (("parallelism", parallel), ("completions", pods)):
            if value < 1:
                self.wrong(("spec", name), f"{value} is not a number of pods", "write 1 or more")
        if self.options.kind == "distributed" and (parallel != pods or pods < 2):
            remedy = "write the same number, 2 or more, for parallelism and completions, or give --num-workers"
            self.wrong(("spec", "completions"), "launcher and workers start together, and are at least two", remedy)
        return pods

    def requests(self) -> dict[str, int]:
        """Of all containers of a pod: requests, or limits where a request is missing."""
        amounts: dict[str, int] = {}
        for number in range(len(self.get(_CONTAINERS, list, []))):
            way = (*_CONTAINERS, number, "resources")
            requests, limits = (self.amounts((*way, part)) for part in ("requests", "limits"))
            for name, amount in (limits | requests).items():
                amounts[name] = amounts.get(name, 0) + amount
        return {name: amount for name, amount in amounts.items() if amount}

    def amounts(self, way: KeyPath) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, text in self.get(way, dict, {}).items():
            try:
                found[name] = parse_quantity(text, name)
            except ValueError as error:
                what, _, remedy = str(error).partition("; ")
                self.wrong((*way, name), what, remedy)
        return found

    def duration(self) -> int:
        text = self.get(_DURATION, str, "")
        if self.options.kind == "interactive":
            if text:
                self.wrong(_DURATION, "an interactive workload stays until it is deleted", "remove its duration")
            return 0
        try:
            return parse_duration(text) if text else DURATION
        except ValueError as error:
            self.wrong(_DURATION, str(error).partition(";")[0], "write it like 10s, 1m30s or 250ms")
            return DURATION

    def claim(self) -> dict[str, Any] | None:
        if not self.options.pvc:
            return None
        if self.template.claim is None:
            what = "--pvc needs a claim, and the template has none"
            remedy = "add a PersistentVolumeClaim after a line `---`; `seatrial templates --write DIR` makes an example"
            self.mistakes.append(Mistake(self.source.file, 1, 1, what, remedy))
            return None
        spec = self.template.claim.data.get("spec")
        if not isinstance(spec, dict):
            self.mistakes.append(
                self.template.claim.mistake(("spec",), "the claim has no spec", "add a spec, or omit --pvc")
            )
            return None
        return spec
