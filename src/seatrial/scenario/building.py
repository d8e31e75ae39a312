"""From validated parts to the plan: defaults filled in, names resolved, and the checks that need the whole scenario."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from seatrial.model.errors import Mistake
from seatrial.model.plan import (
    Check,
    Delete,
    Expectation,
    NodeGroup,
    Nodes,
    Pace,
    Pause,
    Phase,
    PodShape,
    Step,
    Submit,
    Toleration,
    Wait,
)
from seatrial.model.units import SECOND
from seatrial.scenario.building_requests import RequestBuilder
from seatrial.scenario.expressions import FIGURES, KNOWN_WHILE_RUNNING, Expression
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.notation import LONGEST_DURATION
from seatrial.scenario.places import Path, Source
from seatrial.scenario.requests import RequestsPart
from seatrial.scenario.schema import (
    CONDITIONS,
    NODE_CHANGES,
    Existing,
    Group,
    NodesPart,
    PhasePart,
    SubmitPart,
    WaitPart,
    body_of,
    phase_name,
)

MOST_PODS = 2**31 - 1  # pods of a trial are numbered in 32 bits
EXISTING = "existing"  # the group of nodes that are there already
DEFAULT_PODS = 110  # of a node, as the kubelet has it


def node_group(part: Group) -> NodeGroup:
    return NodeGroup(
        part.name,
        part.count,
        {"pods": DEFAULT_PODS, **part.capacity},
        dict(part.labels),
        tuple(part.taints),
        part.kubelet,
        part.pods.create,
        part.pods.start,
    )


def node_groups(part: list[Group] | Existing) -> tuple[NodeGroup, ...]:
    if isinstance(part, Existing):
        return (NodeGroup(EXISTING, 0, {}, existing=part.existing),)
    return tuple(node_group(group) for group in part)


def expectations(source: Source, texts: Iterable[str], path: Path) -> tuple[Expectation, ...]:
    return tuple(Expectation(text, source.at((*path, number))) for number, text in enumerate(texts))


class StepBuilder:
    """The steps of one set-up, built in order: a phase may only refer to what stands before it or beside it."""

    def __init__(
        self,
        source: Source,
        steps: list[list[PhasePart]],
        nodes: tuple[NodeGroup, ...],
        setup: str,
        namespaces: int = 0,
    ) -> None:
        self.source = source
        self.steps = steps
        self.setup = setup
        self.mistakes: list[Mistake] = []
        self.groups = {group.name: group for group in nodes}
        self.submitted: dict[str, int] = {}  # submit phase → workloads
        self.pods = 0
        self.number = 0
        self.asking = RequestBuilder(namespaces, self.wrong)

    def build(self) -> tuple[Step, ...]:
        phases = enumerate((phase for step in self.steps for phase in step), 1)
        self.created_anywhere = {p.create.name or phase_name("create", n) for n, p in phases if p.create}
        taints = [taint for group in self.groups.values() for taint in group.taints]
        taints += [
            t
            for step in self.steps
            for phase in step
            if phase.nodes and phase.nodes.add
            for t in phase.nodes.add.taints
        ]
        self.tolerations = tuple(
            dict.fromkeys(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints)
        )
        return tuple(self.step(number, step) for number, step in enumerate(self.steps))

    def step(self, number: int, parts: list[PhasePart]) -> Step:
        written = self.source.data["steps"][number]
        named: list[tuple[Path, str, str, Any]] = []
        for position, part in enumerate(parts):
            self.number += 1
            path: Path = ("steps", number, position) if isinstance(written, list) else ("steps", number)
            action, body = body_of(part)
            path = (*path, action)
            name = getattr(body, "name", None) or phase_name(action, self.number)
            named.append((path, name, action, body))
            if action == "submit":  # before the others, so that a wait beside it may name it
                self.submitted[name] = workloads(body)
            if action == "nodes" and body.add:
                self.add(path, body.add)
        return tuple(self.phase(*one) for one in named)

    def wrong(self, path: Path, what: str, remedy: str) -> None:
        self.mistakes.append(self.source.mistake(path, what, remedy))

    def phase(self, path: Path, name: str, action: str, body: Any) -> Phase:
        match action:
            case "submit":
                return self.submit(path, name, body)
            case "wait":
                return self.asking.until(path, name, body) if body.stage in CONDITIONS else self.wait(path, name, body)
            case "pause":
                return Pause(name, body.duration)
            case "nodes":
                return self.nodes(path, name, body)
            case "delete" if self.of_workloads(body):
                return self.delete(path, name, body)
            case "expect":
                return self.check(path, name, body)
            case _:
                return self.asking.requests(path, name, action, body)

    def submit(self, path: Path, name: str, part: SubmitPart) -> Submit:
        count = workloads(part)
        sizes = tuple(part.sizes) if part.sizes is not None else (part.pods or 1,)
        rounds, rest = divmod(count, len(sizes))
        self.pods += rounds * sum(sizes) + sum(sizes[:rest])
        if self.pods > MOST_PODS:
            self.wrong(path, f"{self.pods:,} pods are more than a trial can hold ({MOST_PODS:,})", "submit fewer")
        pace = _pace(part)
        if _last_due(pace, count) > LONGEST_DURATION:
            self.wrong(path, "at this pace submitting takes more than ten years", "submit fewer, or faster")
        given = part.tolerations
        shape = PodShape(
            {resource: amount for resource, amount in part.requests.items() if amount},
            dict(part.selector),
            tuple((label, tuple(values)) for label, values in part.affinity.items()),
            self.tolerations if given is None else tuple(given),
            part.priority,
            part.spread,
        )
        declares = None if part.declares is None else {name: amount for name, amount in part.declares.items() if amount}
        if declares == shape.requests:
            declares = None  # the queue is told what the pods ask for, as it is without `declares`
        shuffled = part.order == "shuffled"
        return Submit(
            name, count, sizes, shuffled, shape, part.duration, part.gang, declares, pace, part.overlay or None
        )

    def wait(self, path: Path, name: str, part: WaitPart) -> Wait:
        of = self.earlier(path, part.of)
        total = sum(self.submitted[phase] for phase in of or self.submitted)
        if not self.submitted:
            self.wrong(path, "nothing is submitted before this wait", "put a submit before it")
        elif part.count is not None and part.count > total:
            self.wrong((*path, "count"), f"waits for {part.count} of {total} workloads", f"write {total} or less")
        place = self.source.at((*path, "for"))
        return Wait(name, part.stage, of, part.count, part.timeout, part.otherwise == "go-on", place)

    def check(self, path: Path, name: str, texts: list[str]) -> Check:
        for number, text in enumerate(texts):
            expression = Expression.parse(text)
            late = [
                *sorted(expression.names & set(FIGURES) - set(KNOWN_WHILE_RUNNING)),
                *expression.asked,
                *expression.references,
            ]
            if late:
                what = f"'{late[0]}' is known only at the end of a trial"
                self.wrong((*path, number), what, "write it under the scenario's own `expect:`")
        return Check(name, expectations(self.source, texts, path))

    def of_workloads(self, part: RequestsPart) -> bool:
        return any(phase not in self.created_anywhere for phase in part.of or ())

    def delete(self, path: Path, name: str, part: RequestsPart) -> Delete:
        return Delete(name, self.earlier(path, part.of))

    def earlier(self, path: Path, of: list[str] | None) -> tuple[str, ...]:
        """The phases named, all of which must have begun by then."""
        found = []
        for number, phase in enumerate(of or ()):
            if phase in self.submitted:
                found.append(phase)
            elif phase in self.created_anywhere:
                what = f"'{phase}' creates objects, which have no stages"
                self.wrong((*path, "of", number), what, f"wait for {', '.join(CONDITIONS)}, or name a submit")
            else:
                self.wrong((*path, "of", number), f"'{phase}' comes only later", "name a submit before or beside this")
        return tuple(found)

    def nodes(self, path: Path, name: str, part: NodesPart) -> Nodes:
        if part.add is not None:
            return Nodes(name, "add", part.add.name, None, node_group(part.add))
        change = next(change for change in NODE_CHANGES if getattr(part, change))
        group: str = getattr(part, change)
        known = self.groups.get(group)
        if known is None:
            what = f"set-up '{self.setup}' has no node group '{group}' at this point"
            self.wrong((*path, change), what, remedy_for(group, self.groups))
        elif known.existing:
            what = f"set-up '{self.setup}' stands on existing nodes, which are never changed"
            self.wrong((*path, change), what, "change only nodes that the scenario makes")
        elif part.count is not None and part.count > known.count:
            what = f"{part.count} nodes of '{group}', which has {known.count}"
            self.wrong((*path, "count"), what, f"write {known.count} or less")
        return Nodes(name, change, group, part.count)

    def add(self, path: Path, part: Group) -> None:
        if any(group.existing for group in self.groups.values()):
            what = f"set-up '{self.setup}' stands on existing nodes, and its pods go nowhere else"
            self.wrong((*path, "add"), what, "remove the step, or list nodes to make instead of `existing`")
        if part.name in self.groups:
            what = f"there is a node group '{part.name}' already"
            self.wrong((*path, "add", "name"), what, "give the new nodes a name of their own")
        self.groups[part.name] = node_group(part)


def workloads(part: SubmitPart) -> int:
    if part.count is not None:
        return part.count
    return len(part.sizes or ()) * (part.each or 1)


def _pace(part: SubmitPart) -> Pace:
    if part.rate is not None:
        return Pace("poisson" if part.arrival == "poisson" else "rate", per_s=part.rate)
    if part.burst is not None:
        return Pace("burst", size=part.burst, every=part.every or 0)
    if part.parallel is not None:
        return Pace("rounds", size=part.parallel, every=part.delay or 0)
    return Pace()


def _last_due(pace: Pace, count: int) -> float:
    if pace.per_s:
        return count / pace.per_s * SECOND
    return (count - 1) // pace.size * pace.every
