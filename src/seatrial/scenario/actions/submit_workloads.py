"""`submit`: workloads, how many, how large, for how long, and at what pace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, runtime_checkable

from pydantic import Field

from seatrial.model.distributions import Distribution
from seatrial.model.interfaces import RunningTrial, Tally
from seatrial.model.plan import Amounts, Pace, Phase, PodShape, Toleration, Trial, Workload
from seatrial.model.units import SECOND
from seatrial.scenario.actions.change_nodes import NodesFields
from seatrial.scenario.actions.planning import Kind, Planning, WrittenPhase
from seatrial.scenario.distribution_fields import DurationDrawn, PodsDrawn, drawn_durations, drawn_pods
from seatrial.scenario.field_types import (
    LONGEST_DURATION,
    AmountMap,
    Count,
    Duration,
    Flag,
    LabelKey,
    LabelText,
    LastingDuration,
    ObjectName,
    Rate,
    TolerationText,
    choice,
)
from seatrial.scenario.fields import FieldMistake, alone, contradictory
from seatrial.scenario.manifests import OverlayMap
from seatrial.scenario.queue_fields import EACH, ClassName, PriorityOrName, QueueReference
from seatrial.scenario.source import KeyPath
from seatrial.scenario.trace_fields import TraceFields

if TYPE_CHECKING:
    from seatrial.model.load import Load  # numpy: a command that only submits starts without it

LONGEST_WORKLOAD_NAME = 55  # of the 63 of a Job: an Indexed one adds a pod's index
MOST_PODS = 2**31 - 1  # pods of a trial are numbered in 32 bits


class SubmitFields(TraceFields):
    """Workloads to submit."""

    name: ObjectName | None = Field(
        None, description="Name of the phase; workloads are called NAME-0, NAME-1 and so on."
    )
    count: Count | None = Field(None, description="Number of workloads.")
    pods: PodsDrawn | None = Field(
        None, description="Pods of each workload (1 if not given): a number, 1..8, or a distribution."
    )
    sizes: list[Count] | None = Field(
        None, min_length=1, description="Pods of the workloads, in turn: a mix instead of `pods`."
    )
    each: Count | None = Field(None, description="Workloads per size, instead of `count`.")
    order: Annotated[str, choice("order", ("given", "shuffled"))] = Field(
        "given", description="Whether sizes come as listed or shuffled."
    )
    duration: DurationDrawn | None = Field(None, description="How long each pod runs: 10s, 5s..15s, or a distribution.")
    requests: AmountMap = Field({}, description="Requests of each pod; amounts of 0 are omitted.")
    gang: Flag | None = Field(
        None,
        description="true: it runs only while all its pods run (false if not given; of a trace, as its format has it).",
    )
    declares: AmountMap | None = Field(
        None, description="Requests per pod that the queue sees, if not those of the pods."
    )
    overlay: OverlayMap | None = Field(
        None, description="Any other fields of the Job's manifest: metadata, spec. Lists replace lists."
    )
    selector: dict[LabelKey, LabelText] = Field({}, description="Node labels that must match.")
    affinity: dict[LabelKey, list[LabelText]] = Field({}, description="Node label → the values that match.")
    tolerations: list[TolerationText] | None = Field(
        None, description="As key=value:Effect, key:Effect, key or *. Not given: the taints of all nodes; []: none."
    )
    queue: QueueReference | None = Field(
        None, description="The queue that the workloads go to, or each: the same load in every queue."
    )
    priority: PriorityOrName = Field(0, description="Priority of the workloads: a number, or a name of `priorities`.")
    label: ClassName | None = Field(
        None, alias="class", description="Label by which figures are grouped; by default the phase's name."
    )
    checkpoint: LastingDuration | None = Field(
        None, description="Interval of checkpoints: after an eviction the workload continues from the last one."
    )
    spread: Flag = Field(False, description="true: pods of a workload prefer different nodes.")
    rate: Rate | None = Field(
        None, description="Workloads per second, like 10/s; without a pace, as fast as the client's rate allows."
    )
    arrival: Annotated[str, choice("arrival", ("even", "poisson"))] = Field(
        "even", description="With `rate`: evenly, or at random."
    )
    burst: Count | None = Field(None, description="Workloads per burst, one burst per `every`.")
    every: LastingDuration | None = Field(None, description="With `burst`: time from one burst to the next.")
    parallel: Count | None = Field(
        None, description="Workloads per round; the next round starts when all are answered."
    )
    delay: Duration | None = Field(None, description="With `parallel`: minimum time between starts of rounds.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        found = cls.of_traces(written)
        if "trace" in written:
            return found
        paces = [key for key in ("rate", "burst", "parallel") if key in written]
        found += contradictory(written, ("sizes", "pods"), *((paces[0], other) for other in paces[1:]))
        found += alone(written, each="sizes", order="sizes", arrival="rate", every="burst", delay="parallel")
        if "sizes" in written:
            found += contradictory(written, ("count", "each"))
        elif "count" not in written:
            found.append(FieldMistake("", "submit needs 'count'", "add the number of workloads, like count: 10"))
        if "duration" not in written:
            what, about = "'submit' has no 'duration'", "how long each pod runs: 10s, 5s..15s, or a distribution"
            found.append(FieldMistake("", what, f"add `duration:` ({about})"))
        if "burst" in written and "every" not in written:
            found.append(FieldMistake("burst", "'burst' needs 'every'", "add the time between bursts, like every: 5s"))
        return found


@runtime_checkable
class TakesLoads(Protocol):
    """What `submit` needs of a cluster."""

    async def load(self, load: Load) -> Tally:
        """Submits the workloads when they are due; returns when all are answered."""


class ShapeDemand(NamedTuple):
    """The workloads of a submit whose pods have the same shape."""

    shape: PodShape
    counted: Amounts  # what a queue counts per pod
    gang: bool
    workloads: int
    largest: int  # pods
    queues: tuple[tuple[str, int], ...]  # that they go to, with the largest of each


@dataclass(frozen=True, slots=True)
class Submit(Phase):
    """Workloads alike but for their size and, with `queue: each`, their queue.

    Those of a phase with `queue: each` are called PHASE-QUEUE-0 …; each queue has a random stream of its own, by its name, so that
    another queue does not change the load of this one.
    """

    count: int  # workloads in all; with `sizes`, len(sizes) * each
    sizes: tuple[int, ...] | Distribution  # pods of a workload; item i has sizes[i % len] before shuffling
    shuffled: bool
    shape: PodShape
    duration: int | Distribution
    gang: bool = False
    declares: Amounts | None = None
    pace: Pace = Pace()
    overlay: Mapping[str, Any] | None = None
    interactive: bool = False
    claim: Mapping[str, Any] | None = None
    queue: str = ""  # of the fleet; empty where it has none, or with `queues`
    queues: tuple[str, ...] = ()  # with `queue: each` all of them; `count` is that of all together
    class_name: str = ""  # empty: the phase
    checkpoint: int = 0

    needs = TakesLoads

    @property
    def pods(self) -> int:
        """Pods of all its workloads; the expected number if sizes are drawn (`pods_in` counts them)."""
        if isinstance(self.sizes, Distribution):
            return round(self.sizes.mean * self.count)
        rounds, rest = divmod(self.per_queue, len(self.sizes))
        return (rounds * sum(self.sizes) + sum(self.sizes[:rest])) * (len(self.queues) or 1)

    @property
    def shapes(self) -> tuple[PodShape, ...]:
        """All shapes that its pods have."""
        return (self.shape,)

    @property
    def findings(self) -> tuple[str, ...]:
        """Findings before a run about the source of its workloads."""
        return ()

    def demands(self, trial: Trial) -> Iterator[ShapeDemand]:
        """Its workloads by the shape of their pods."""
        largest = max(self.sizes_in(trial))
        queues = self.queues or ((self.queue,) if self.queue else ())
        counted = self.shape.requests if self.declares is None else self.declares
        yield ShapeDemand(
            self.shape, counted, self.gang, self.count, largest, tuple((queue, largest) for queue in queues)
        )

    def queue_counts(self) -> Mapping[str, int]:
        """How many workloads go to each queue."""
        return dict.fromkeys(self.queues or (self.queue,), self.per_queue)

    def described(self) -> dict[str, Any]:
        """What else trial.json says of it."""
        return {}

    @property
    def per_queue(self) -> int:
        """How many workloads go to each of its queues."""
        return self.count // (len(self.queues) or 1)

    def pods_in(self, trial: Trial) -> int:
        """The number of pods of all its workloads in a trial."""
        return sum(self._drawn_sizes(trial)) if isinstance(self.sizes, Distribution) else self.pods

    def sizes_in(self, trial: Trial) -> list[int]:
        """The sizes of its workloads in a trial, each once, ascending."""
        return sorted(set(self._drawn_sizes(trial) if isinstance(self.sizes, Distribution) else self.sizes))

    def _drawn_sizes(self, trial: Trial) -> list[int]:
        from seatrial.model.load import draw_sizes

        assert isinstance(self.sizes, Distribution)
        drawn = [draw_sizes(self.sizes, self.per_queue, seed) for seed in self.seeds(trial)]
        return [size for sizes in drawn for size in sizes.tolist()]

    def seeds(self, trial: Trial) -> list[int]:
        """Seeds of the random stream of each queue, or of the only one."""
        from seatrial.model.randomness import stream_seed

        seed = stream_seed(trial.seed, trial.drawn_from, trial.repeat, self.name)
        return [stream_seed(seed, {}, 0, queue) for queue in self.queues] or [seed]

    def workload(self, index: int, pods: int, stem: str = "", queue: str = "", duration: int = 0) -> Workload:
        """Item `index`, called after `stem` or the phase: a name that nothing else in its namespace has."""
        lasts = duration if isinstance(self.duration, Distribution) else self.duration
        return Workload(
            f"{stem or self.name}-{index}", self.name, index, pods, self.shape, lasts, self.gang, self.declares,
            self.overlay, self.interactive, self.claim, queue or self.queue, self.class_name, self.checkpoint,
        )  # fmt: skip

    def load(self, *seeds: int) -> Load:
        """All its workloads and their due times, from the seeds of its random streams."""
        from seatrial.model.load import DrawnItems, draw_items, load_of

        def item(_: int, which: int, number: int, drawn: DrawnItems) -> Workload:
            queue = self.queues[which] if self.queues else ""
            lasts = 0 if drawn.durations is None else int(drawn.durations[number])
            return self.workload(number, int(drawn.pods[number]), f"{self.name}-{queue}" if queue else "", queue, lasts)

        return load_of(
            self.name,
            self.pace,
            [draw_items(self.per_queue, self.sizes, self.shuffled, self.duration, self.pace, seed) for seed in seeds],
            item,
        )

    async def act(self, run: RunningTrial, cluster: TakesLoads) -> None:
        run.tallied(await cluster.load(self.load(*self.seeds(run.trial))))


def submits_named(planning: Planning, phase: WrittenPhase, of: Sequence[str] | None) -> tuple[str, ...]:
    """The submit phases that `of` names; later ones are mistakes."""
    found = []
    for number, name in enumerate(of or ()):
        if name in planning.planned(Submit):
            found.append(name)
        elif name in planning.named("create"):
            what = f"'{name}' creates objects, which have no stages"
            remedy = "wait for available, pods-running, pods-gone or gone, or name a submit"
            planning.wrong((*phase.path, "of", number), what, remedy)
        else:
            what = f"'{name}' comes only later"
            planning.wrong((*phase.path, "of", number), what, "name a submit of this step or an earlier one")
    return tuple(found)


def _plan(planning: Planning, phase: WrittenPhase) -> Submit:
    fields: SubmitFields = phase.fields
    if fields.trace is not None:
        from seatrial.scenario.actions.replay_trace import plan_replay  # a kind of Submit, made of this module's

        return _counted(planning, phase, plan_replay(planning, phase))
    assert fields.duration is not None
    requests = {resource: amount for resource, amount in fields.requests.items() if amount}
    declares = fields.declares and {resource: amount for resource, amount in fields.declares.items() if amount}
    shape = PodShape(
        requests,
        dict(fields.selector),
        tuple((label, tuple(values)) for label, values in fields.affinity.items()),
        all_taints(planning) if fields.tolerations is None else tuple(fields.tolerations),
        planning.fleet.priorities.get(fields.priority, fields.priority),
        fields.spread,
    )
    queues = _each_queue(planning, phase)
    count = len(fields.sizes or ()) * (fields.each or 1) if fields.count is None else fields.count
    submit = Submit(
        phase.name,
        count * (len(queues) or 1),
        _sizes(planning, phase),
        fields.order == "shuffled",
        shape,
        drawn_durations(fields.duration, *_reading(planning, phase, "duration")),
        bool(fields.gang),
        None if declares == requests else declares,  # equal to the pods' requests: the same as without `declares`
        _pace(fields),
        fields.overlay or None,
        queue="" if queues else fields.queue or "",
        queues=queues,
        class_name=fields.label or "",
        checkpoint=fields.checkpoint or 0,
    )
    if _last_due(submit.pace, submit.per_queue) > LONGEST_DURATION:
        planning.wrong(phase.path, "at this pace submitting takes more than ten years", "submit fewer, or faster")
    return _counted(planning, phase, submit)


def _counted(planning: Planning, phase: WrittenPhase, submit: Submit) -> Submit:
    """Refuses a trial of more pods than can be numbered."""
    pods = submit.pods + sum(other.pods for other in planning.planned(Submit).values())
    if pods > MOST_PODS:
        planning.wrong(phase.path, f"{pods:,} pods are more than a trial can hold ({MOST_PODS:,})", "submit fewer")
    return submit


def _reading(planning: Planning, phase: WrittenPhase, key: str) -> tuple[Path, Callable[[KeyPath, str, str], None]]:
    """The folder of the scenario, and where mistakes of a distribution go."""
    folder = Path(planning.source.file).parent
    return folder, lambda inside, what, remedy: planning.wrong((*phase.path, key, *inside), what, remedy)


def _sizes(planning: Planning, phase: WrittenPhase) -> tuple[int, ...] | Distribution:
    fields: SubmitFields = phase.fields
    if fields.sizes is not None:
        return tuple(fields.sizes)
    return (1,) if fields.pods is None else drawn_pods(fields.pods, *_reading(planning, phase, "pods"))


def _each_queue(planning: Planning, phase: WrittenPhase) -> tuple[str, ...]:
    """With `queue: each` all queues of the scenario. Where there are queues, every submit names one."""
    names = tuple(queue.name for queue in planning.fleet.queues)
    if names and phase.fields.queue is None:
        some = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
        planning.wrong(phase.path, "to which queue?", f"add `queue:`, one of {some}, or each")
    if phase.fields.queue != EACH:
        return ()
    longest = max(names, key=len)
    if len(f"{phase.name}-{longest}-") + len(str(phase.fields.count or 0)) > LONGEST_WORKLOAD_NAME:
        what = f"workloads called {phase.name}-{longest}-0 have names longer than a Job may have"
        planning.wrong((*phase.path, "name"), what, "give the phase or the queues shorter names")
    others = {one.name for one in planning.written if one.action == "submit"}
    for name in names:
        if f"{phase.name}-{name}" in others:
            what = f"its workloads in queue '{name}' and those of phase '{phase.name}-{name}' have the same names"
            planning.wrong((*phase.path, "name"), what, "give one of the phases another name")
    return names


def all_taints(planning: Planning) -> tuple[Toleration, ...]:
    """The taints of all nodes, including those that later steps add."""
    changes = [phase.fields for phase in planning.written if isinstance(phase.fields, NodesFields)]
    taints = [taint for group in planning.groups.values() for taint in group.taints]
    taints += [taint for change in changes if change.add for taint in change.add.taints]
    return tuple(dict.fromkeys(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints))


def _pace(fields: SubmitFields) -> Pace:
    if fields.rate is not None:
        return Pace("poisson" if fields.arrival == "poisson" else "rate", per_s=fields.rate)
    if fields.burst is not None:
        return Pace("burst", size=fields.burst, every=fields.every or 0)
    if fields.parallel is not None:
        return Pace("rounds", size=fields.parallel, every=fields.delay or 0)
    return Pace()


def _last_due(pace: Pace, count: int) -> float:
    if pace.per_s:
        return count / pace.per_s * SECOND
    return (count - 1) // pace.size * pace.every


def _names(name: str, _action: str, body: Mapping[str, Any]) -> dict[str, list[str]]:
    label = body.get("class", name)
    return {"submit": [name], "phase": [name], "class": [label] if isinstance(label, str) else []}


KIND = Kind(
    {"submit": "Submit workloads."},
    SubmitFields,
    _plan,
    names=_names,
    first=lambda _: True,
)
