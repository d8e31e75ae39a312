"""`submit: {trace: FILE}`: the workloads of a trace, submitted when the trace says.

The plan holds the file's name, its fingerprint and what findings need to know; the million rows are read by whoever runs the trial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.model.plan import Amounts, PodShape, Trial, Workload
from seatrial.scenario.actions.planning import Planning, WrittenPhase
from seatrial.scenario.actions.submit_workloads import LONGEST_WORKLOAD_NAME, ShapeDemand, Submit, all_taints
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.queue_fields import EACH
from seatrial.scenario.trace_fields import trace_options
from seatrial.traces.options import GPU_MODEL, TraceOptions

if TYPE_CHECKING:
    from seatrial.model.load import Load
    from seatrial.traces.arrivals import Arrivals, Asked


@dataclass(frozen=True, slots=True)
class ReplayedTrace(Submit):
    """`shape` of the phase is what all its shapes share; those of the trace are in `own_shapes`."""

    path: str = ""
    options: TraceOptions = field(default_factory=TraceOptions)
    fingerprint: tuple[int, int] = (0, 0)
    own_shapes: tuple[PodShape, ...] = ()
    gangs: tuple[bool, ...] = ()  # per shape
    jobs_of: tuple[int, ...] = ()  # per shape: how many jobs, and the largest of them
    largest_of: tuple[int, ...] = ()
    queues_of: tuple[tuple[str, int, int], ...] = ()  # shape and queue: the largest job
    pods_in_all: int = 0
    smallest: int = 1
    per_queue_counts: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def pods(self) -> int:
        return self.pods_in_all

    @property
    def shapes(self) -> tuple[PodShape, ...]:
        return self.own_shapes

    @property
    def findings(self) -> tuple[str, ...]:
        return self.notes

    def pods_in(self, trial: Trial) -> int:  # noqa: ARG002
        return self.pods_in_all

    def sizes_in(self, trial: Trial) -> list[int]:  # noqa: ARG002
        return sorted({self.smallest, max(self.largest_of)})

    def demands(self, trial: Trial) -> Iterator[ShapeDemand]:  # noqa: ARG002
        queues: dict[int, list[tuple[str, int]]] = {}
        for queue, place, largest in self.queues_of:
            queues.setdefault(place, []).append((queue, largest))
        for number, shape in enumerate(self.own_shapes):
            yield ShapeDemand(
                shape, shape.requests, self.gangs[number], self.jobs_of[number], self.largest_of[number],
                tuple(queues.get(number, ())),
            )  # fmt: skip

    def queue_counts(self) -> Mapping[str, int]:
        return dict(self.per_queue_counts)

    def described(self) -> dict[str, Any]:
        options = self.options
        return {
            "duration_ns": None,
            "trace": {"file": Path(self.path).name, "speed": options.speed, "jobs": self.count, "notes": list(self.notes)},
            "shapes": {
                shape.name: {"requests": dict(shape.requests), "affinity": [[k, list(v)] for k, v in shape.affinity],
                             "priority": shape.priority, "gang": gang}
                for shape, gang in zip(self.own_shapes, self.gangs, strict=True)
            },
        }  # fmt: skip

    def load(self, *seeds: int) -> Load:  # noqa: ARG002
        """All its workloads and their due times. A file that has changed since the plan is refused."""
        import numpy as np

        from seatrial.model.load import Load
        from seatrial.traces.arrivals import arrivals

        of = arrivals(Path(self.path), self.options, self.fingerprint)
        pods, durations, shapes = of.pods.tolist(), of.durations.tolist(), of.shape.tolist()
        queues, classes = of.queue.tolist(), of.class_of.tolist()
        waits = np.where(of.waits >= 0, of.waits / of.speed, -1).astype(np.int64).tolist()

        def item(index: int) -> Workload:
            number = shapes[index]
            return Workload(
                f"{self.name}-{index}", self.name, index, pods[index], self.own_shapes[number], durations[index],
                self.gangs[number], None, self.overlay,
                queue=of.queues[queues[index]] if queues[index] >= 0 else "",
                class_name=self.class_name or (of.classes[classes[index]] if classes[index] >= 0 else ""),
                checkpoint=self.checkpoint, trace_wait=waits[index],
            )  # fmt: skip

        loop = (of.after, of.think) if self.options.think else (None, None)
        return Load(self.name, of.count, self.pace, of.due, item, *loop)


def plan_replay(planning: Planning, phase: WrittenPhase) -> Submit:
    """The plan of a submit with a trace. What is wrong with the trace is a mistake at the field that it is about."""
    from seatrial.traces.arrivals import arrivals
    from seatrial.traces.problem import TraceProblem
    from seatrial.traces.reading import fingerprint

    fields = phase.fields
    names = tuple(queue.name for queue in planning.fleet.queues)
    if fields.queue == EACH:
        what = "`queue: each` would submit the trace once per queue"
        planning.wrong((*phase.path, "queue"), what, "name a queue, or write map: {queue: {by: user, to: {'*': each}}}")
    options = trace_options(fields, names, fields.queue if fields.queue in names else "", fields.gang)
    path = (Path(planning.source.file).parent / fields.trace).absolute()
    try:
        print_ = fingerprint(path)
        return _planned(planning, phase, path, options, print_, arrivals(path, options, print_))
    except TraceProblem as problem:
        remedy = remedy_for(problem.name, problem.known) if problem.known else problem.remedy
        inside = tuple(problem.option.split(".")) if problem.option else ("trace",)
        planning.wrong((*phase.path, *inside), problem.message, remedy)
        return Submit(phase.name, 1, (1,), False, PodShape({}), 0, queue=names[0] if names else "")


def _planned(
    planning: Planning, phase: WrittenPhase, path: Path, options: TraceOptions, print_: tuple[int, int], of: Arrivals
) -> ReplayedTrace:
    import numpy as np

    fields = phase.fields
    if len(f"{phase.name}-{of.count - 1}") > LONGEST_WORKLOAD_NAME:
        planning.wrong(
            (*phase.path, "name"), "workloads would have names longer than a Job may have", "write a shorter one"
        )
    more, modelled = (
        {resource: amount for resource, amount in fields.requests.items() if amount},
        _models_known(planning),
    )
    priority = planning.fleet.priorities.get(fields.priority, fields.priority)
    shared = PodShape(
        more,
        dict(fields.selector),
        tuple((label, tuple(values)) for label, values in fields.affinity.items()),
        all_taints(planning) if fields.tolerations is None else tuple(fields.tolerations),
        priority,
        fields.spread,
    )
    shapes = tuple(_shape(f"{phase.name}#{n}", asked, shared, modelled) for n, asked in enumerate(of.asked))
    jobs = np.bincount(of.shape, minlength=len(shapes))
    largest = np.zeros(len(shapes), dtype=np.int64)
    np.maximum.at(largest, of.shape, of.pods)
    per_queue = Counter(of.queue[of.queue >= 0].tolist())
    notes = list(of.notes)
    if not modelled and any(asked.models for asked in of.asked):
        notes.append(f"no node has the label {GPU_MODEL}: GPU models of jobs are ignored")
    if any(asked.gang for asked in of.asked) and any(group.existing for group in planning.groups.values()):
        notes.append("on existing nodes no application plays gangs: write gang: false")
    return ReplayedTrace(
        phase.name, of.count, (1,), False, shared, 0, any(asked.gang for asked in of.asked), overlay=fields.overlay or None,
        queue=options.fixed_queue, class_name=fields.label or "", checkpoint=fields.checkpoint or 0, path=str(path),
        options=options, fingerprint=print_, own_shapes=shapes, gangs=tuple(asked.gang for asked in of.asked),
        jobs_of=tuple(jobs.tolist()), largest_of=tuple(largest.tolist()), queues_of=_largest_per_queue(of),
        pods_in_all=int(of.pods.sum()), smallest=int(of.pods.min()),
        per_queue_counts=tuple((of.queues[place], count) for place, count in sorted(per_queue.items())), notes=tuple(notes),
    )  # fmt: skip


def _models_known(planning: Planning) -> bool:
    return any(GPU_MODEL in group.labels or group.existing for group in planning.groups.values())


def _shape(name: str, asked: Asked, shared: PodShape, modelled: bool) -> PodShape:
    """The shape of a job; resources in the trace override the submit's `requests`."""
    from seatrial.traces.node_lists import model_label

    requests: Amounts = {**shared.requests, **asked.requests}
    models = ((GPU_MODEL, tuple(map(model_label, asked.models))),) if asked.models and modelled else ()
    return PodShape(
        requests, shared.selector, (*shared.affinity, *models), shared.tolerations, asked.priority or shared.priority,
        shared.spread, name=name,
    )  # fmt: skip


def _largest_per_queue(of: Arrivals) -> tuple[tuple[str, int, int], ...]:
    import numpy as np

    known = of.queue >= 0
    keys = of.queue[known] * len(of.asked) + of.shape[known]
    places, inverse = np.unique(keys, return_inverse=True)
    largest = np.zeros(len(places), dtype=np.int64)
    np.maximum.at(largest, inverse, of.pods[known])
    return tuple(
        (of.queues[place // len(of.asked)], place % len(of.asked), most)
        for place, most in zip(places.tolist(), largest.tolist(), strict=True)
    )
