"""What `seatrial submit` sends: a Job as YAML, in which the options replace the fields they name.

Every other field goes to the server as it is written, so a template is also the way to what has no option. Beside the Job a
template may hold a PersistentVolumeClaim, which `--pvc` makes for every workload. Built-in ones are in `templates/`.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.model.errors import Mistake, ScenarioProblem, UsageProblem
from seatrial.model.labels import DURATION_ANNOTATION
from seatrial.model.plan import Pace, PodShape, Submit
from seatrial.model.units import SECOND, parse_duration, parse_quantity
from seatrial.scenario import reading
from seatrial.scenario.places import Path as Way
from seatrial.scenario.places import Source
from seatrial.scenario.scalars import spell

FOLDER = Path(__file__).with_name("templates")
KINDS = ("training", "distributed", "interactive")
GPU = "nvidia.com/gpu"
DURATION = 10 * SECOND  # of a template that says nothing

_CONTAINERS: Way = ("spec", "template", "spec", "containers")
_DURATION: Way = ("spec", "template", "metadata", "annotations", DURATION_ANNOTATION)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says of the workloads; None is what the template has."""

    kind: str = "training"
    count: int = 1
    parallel: int = 8
    delay_s: float = 0.0
    workers: int | None = None
    gpus: int | None = None
    pvc: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    text: str
    job: Source
    claim: Source | None = None


_FIELD = re.compile(r"\b(?:spec|metadata)(?:\.[\w-]+|\[\d+\])+")
_PART = re.compile(r"[\w-]+")


def blame(template: Template, kind: str, code: int, said: str) -> ScenarioProblem | None:
    """What the server says of an object made from the template, with its place; None if that may not be the template's fault."""
    source = template.claim if kind == "PersistentVolumeClaim" and template.claim else template.job
    signs = ("decoding error", "cannot be handled as") if code == 400 else (" is invalid: ",)
    if not any(sign in said for sign in signs):  # a webhook or a policy: it may let others pass
        return None
    ways = [tuple(int(part) if part.isdigit() else part for part in _PART.findall(way)) for way in _FIELD.findall(said)]
    remedy = "`kubectl explain job.spec.template.spec` lists the fields" if code == 400 else "write what it asks for"
    return ScenarioProblem([source.mistake(way, f"the API server says: {said}", remedy) for way in ways[:1] or [()]])


def built_in(kind: str) -> Path:
    return FOLDER / f"{kind}.yaml"


def read_template(file: Path | None, kind: str) -> Template:
    """A template of the user's, or the built-in one of that kind of workload."""
    path = file or built_in(kind)
    try:
        with path.open("rb") as stream:
            text = reading.decode(stream.read(reading.LARGEST_FILE + 1), str(path))
    except OSError as error:
        raise UsageProblem(
            f"{path}: {(error.strerror or str(error)).lower()}",
            "name a file that you can read; `seatrial templates --write DIR` makes some to begin with",
        ) from None
    return template_of(text, str(path))


def template_of(text: str, file: str) -> Template:
    jobs: list[Source] = []
    claims: list[Source] = []
    for source in reading.parse_all(text, file):
        kind = source.data.get("kind")
        if kind == "Job" and source.data.get("apiVersion", "batch/v1") == "batch/v1":
            jobs.append(source)
        elif kind == "PersistentVolumeClaim" and source.data.get("apiVersion", "v1") == "v1":
            claims.append(source)
        else:
            what = f"{source.data.get('apiVersion')} {kind} is nothing that a template holds"
            remedy = "write a batch/v1 Job, and beside it at most a v1 PersistentVolumeClaim"
            raise ScenarioProblem([source.mistake(("kind",), what, remedy)])
    if len(jobs) != 1 or len(claims) > 1:
        what = f"a template holds one Job and at most one claim; this has {len(jobs)} and {len(claims)}"
        raise ScenarioProblem([Mistake(file, 1, 1, what, "`seatrial templates --write DIR` makes some to begin with")])
    return Template(text, jobs[0], claims[0] if claims else None)


def submit_of(template: Template, options: Options) -> Submit:
    """The phase that the template and the options make; everything that is wrong with both, at once."""
    made = _Made(template, options)
    submit = made.submit()
    if made.mistakes:
        raise ScenarioProblem(made.mistakes)
    return submit


class _Made:
    def __init__(self, template: Template, options: Options) -> None:
        self.template, self.options = template, options
        self.source = template.job
        self.job: dict[str, Any] = copy.deepcopy(template.job.data)
        self.mistakes: list[Mistake] = []

    def submit(self) -> Submit:
        options = self.options
        for name in ("name", "generateName", "namespace"):
            if name in self.get(("metadata",), dict, {}):
                remedy = "leave it out; --project names the namespace, and every workload has a name of its own"
                self.wrong(("metadata", name), f"{name} is not the template's to say", remedy)
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

    def wrong(self, way: Way, what: str, remedy: str) -> None:
        self.mistakes.append(self.source.mistake(way, what, remedy))

    def get(self, way: Way, shape: type, default: Any) -> Any:
        """What stands there, if it and all around it are what they must be."""
        value: Any = self.job
        for end, part in enumerate(way):
            if not isinstance(value, dict) and not (isinstance(value, list) and isinstance(part, int)):
                self.wrong(way[:end], f"{spell(value)} is no mapping", "look at the indentation")
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
        """In the first container: GPUs have the same request and limit, or none."""
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
        """As many as there are to complete; all at the same time if they are a gang."""
        spec = self.get(("spec",), dict, {})
        if self.options.workers is not None:
            spec["parallelism"] = spec["completions"] = self.options.workers + 1
        parallel = self.get(("spec", "parallelism"), int, 1)
        pods: int = self.get(("spec", "completions"), int, parallel)
        for name, value in (("parallelism", parallel), ("completions", pods)):
            if value < 1:
                self.wrong(("spec", name), f"{value} is no number of pods", "write 1 or more")
        if self.options.kind == "distributed" and (parallel != pods or pods < 2):
            remedy = "write the same number, 2 or more, for parallelism and completions, or give --num-workers"
            self.wrong(("spec", "completions"), "launcher and workers start together, and are at least two", remedy)
        return pods

    def requests(self) -> dict[str, int]:
        """What one pod asks for in all its containers: requests, or limits where there is none."""
        amounts: dict[str, int] = {}
        for number in range(len(self.get(_CONTAINERS, list, []))):
            way = (*_CONTAINERS, number, "resources")
            requests, limits = (self.amounts((*way, part)) for part in ("requests", "limits"))
            for name, amount in (limits | requests).items():
                amounts[name] = amounts.get(name, 0) + amount
        return {name: amount for name, amount in amounts.items() if amount}

    def amounts(self, way: Way) -> dict[str, int]:
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
                self.wrong(_DURATION, "an interactive workload stays until it is deleted", "leave its duration out")
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
                self.template.claim.mistake(("spec",), "the claim has no spec", "say what it asks for")
            )
            return None
        return spec
