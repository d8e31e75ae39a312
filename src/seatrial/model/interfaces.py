"""The interfaces of clusters and stacks. `study` joins one with the other; neither knows the other's kind.

`sim`, `local` and `kubeconfig` differ behind `Cluster` and nowhere else. A new stack is a new folder under `stacks/`, or another
package with an entry point in the group `seatrial.stacks`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from seatrial.model.api_resource import Resource
from seatrial.model.control_plane import ControlPlane, GoBinary
from seatrial.model.lifecycle import Stage
from seatrial.model.plan import Amounts, Expectation, Setup, Trial, Workload
from seatrial.model.settings import Setting, Settings
from seatrial.model.state import State, WorkloadState

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tally:
    """How a load went: what was asked for and what the client achieved (ns; sends from first to last).

    `late_ns`: how long after it was due an item was sent, at worst; of items due together the first counts. `late_p50_ns` and
    `late_p99_ns`: percentiles of all items; None where items are not due at times.
    """

    phase: str
    count: int
    wanted_ns: int
    took_ns: int
    late_ns: int = 0
    late_p50_ns: int | None = None
    late_p99_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to create. The cluster chooses the namespace, unless the manifest names one (of a queue).

    `until` is a condition that must be true before the set-up continues: it shows that the object's controller works; with a dot
    in front, a field that the status must have. `check` then looks at the object's status: the result is why the trial cannot run
    on this cluster, and a remedy.
    """

    resource: Resource
    name: str
    body: Mapping[str, Any]
    until: str = ""
    check: Callable[[Mapping[str, Any]], tuple[str, str] | None] | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Permission:
    """One action that our user must be allowed to do; without a namespace, in all of them."""

    verb: str
    resource: Resource
    subresource: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        what = self.resource.plural + (f"/{self.subresource}" if self.subresource else "")
        return f"{self.verb} {what}" + (f" in {self.namespace}" if self.namespace else "")


@dataclass(frozen=True, slots=True)
class PresenceSigns:
    """Signs that a stack is installed in a cluster: its CRD, one of its Deployments, a served version of its API group.

    A sign that is empty is not looked for. The version tells MCAD from the AppWrapper operator: both own the kind AppWrapper.
    """

    crd: str = ""
    deployments: tuple[str, ...] = ()
    served: str = ""
    rivals: tuple[str, ...] = ()  # Deployments of another stack that owns the same CRD in another version


class RealSide(Protocol):
    """A stack on a real cluster: its programs, objects, watches, signs of presence and permissions."""

    @property
    def creates(self) -> Resource:
        """The kind of object that the client creates for a workload."""

    @property
    def signs(self) -> PresenceSigns | None:
        """None: nothing has to be installed."""

    def permissions(self, setup: Setup) -> Sequence[Permission]:
        """Permissions for this set-up, in addition to those of every trial."""

    def programs(self) -> Sequence[GoBinary]:
        """Programs to build for `local`, by `cluster build` and before a run."""

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:
        """The control plane of `local` with this stack in it. That of a kept cluster knows no fleet."""

    def priority_classes(
        self, setup: Setup, values: Sequence[int], labels: Mapping[str, str], *, preempt: bool
    ) -> Sequence[Manifest]:
        """The classes by which workloads name these priorities. Without `preempt` their pods must not evict others."""

    def prepare(self, setup: Setup, capacity: Amounts, labels: Mapping[str, str], namespace: str) -> Sequence[Manifest]:
        """Objects the stack needs beside its processes (queues, quotas), by the set-up's settings and fleet. Applied before the
        first workload, and again with the new capacity whenever nodes come or go."""

    def namespace(self, queue: str, own: str) -> str:
        """The namespace for workloads of a queue of the fleet: one of its own, or the trial's (`own`)."""

    def for_setup(self, setup: Setup) -> RealSide:
        """The side that renders workloads of this set-up: itself, unless settings or queues are part of a workload's objects."""

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """The objects of a workload; all of them carry the labels."""

    def watches(self) -> Sequence[Any]:
        """The kinds to watch (observe.observer.Watch)."""

    def evicted_for(self, logs: Path) -> Iterable[tuple[str, str]]:
        """Evicted pods, each with the pod that got its place, that only the logs of the stack's programs on `local` name."""

    def queue(self) -> tuple[Resource, str] | None:
        """What `submit --project` names: None, a namespace; else the stack's kind of queue and the label by which a Job names
        one."""


class Stack(Protocol):
    """What is under test, in three sides: identity and settings, a model for `sim`, and a real side.

    `model` and `real` import their modules when used, so that listing stacks stays fast.
    """

    name: str
    about: str
    stages: Sequence[Stage]  # made by `lifecycle_with`; copied into trial.json
    settings: Sequence[Setting]  # its own, beside those of the control plane
    needs: str  # what a real cluster must have, for `seatrial stacks`
    runs_on: Sequence[str]  # of sim, local, kubeconfig
    verified: str  # how its figures were checked, for `seatrial stacks`
    quota_from: str  # stage from which a pod counts against its queue's quota, where no queue admits workloads
    model_verified: bool  # its model was compared with the real stack; a class says so itself and does not inherit it

    def refuses(self, trial: Trial) -> str | None:
        """Why the stack cannot run this trial (the part of the scenario that it cannot honour), or None."""

    def findings(self, trial: Trial) -> Sequence[str]:
        """The stack's deviations from what the scenario may suggest, reported before the run."""

    def releases(self, settings: Settings) -> Sequence[int]:
        """Timeouts (ns) of the stack that release held nodes or quota; none: held resources stay held."""

    def releases_of(self, trial: Trial) -> Sequence[int]:
        """The timeouts among them that can free anything in this trial."""

    def quota(self, settings: Settings, capacity: Amounts) -> Amounts | None:
        """The most that its queue admits at the same time on nodes of this total capacity; None: no limit."""

    def model(self, sim: Any, settings: Settings) -> Callable[[int, Workload], None]:
        """Adds its parts to the simulator (sim.world.Sim); the result takes each workload the server has just created."""

    @property
    def real(self) -> RealSide:
        """Its side for `local` and `kubeconfig`."""


Judge = Callable[[Expectation, dict[str, float | str | None]], str | None]  # None: it holds; else why not


class RunningTrial(Protocol):
    """What the action of a phase may use of the trial that runs it."""

    trial: Trial
    judge: Judge

    def tallied(self, tally: Tally) -> None:
        """Records the result of a load."""

    def note(self, text: str) -> None:
        """Records that a wait failed and the trial continued."""

    def end(self, outcome: str, detail: str) -> NoReturn:
        """Ends the trial."""

    def time_is_up(self, why: str, *, go_on: bool, of_workloads: bool = False) -> None:
        """Ends the trial as timed out, or notes it. `of_workloads`: the reason why workloads are unfinished is added."""

    def waiting(self, done: asyncio.Future[str], go_on: bool) -> AbstractContextManager[None]:
        """Context of a wait for workloads: a clog ends the trial, or if all waits continue, `done` gets the reason."""


class Cluster(Protocol):
    """Where a trial runs. Beside this it has what the kinds of phases need of it: `Phase.needs`."""

    ledger: Any

    @property
    def wall_epoch(self) -> int:
        """The trial's epoch on the wall clock, in ns; 0 before it and in virtual time."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs the choreography on this cluster's clock; Ctrl-C cancels it."""

    def now(self) -> int:
        """Nanoseconds since the trial's epoch."""

    async def up(self) -> None:
        """Starts or finds what the trial needs: control plane, stack, nodes."""

    def sent(self) -> int:
        """How many requests of request phases were sent so far."""

    def state(self) -> State:
        """Holders and waiters, from a cache: never a request."""

    def holders(self) -> tuple[int, Sequence[WorkloadState]]:
        """The number of unfinished workloads, and those of `state` that have pods on nodes; others may be among them."""

    def at_rest(self) -> bool:
        """Whether no event is pending; only a simulator can know."""

    def target(self) -> dict[str, Any]:
        """For trial.json: the location of its objects; empty if they are removed with the trial."""

    def node_spans(self) -> list[dict[str, Any]]:
        """Nodes and the times they existed, for trial.json."""

    async def broken(self) -> str:
        """Returns only if the cluster is broken, with the reason."""

    def validity(self) -> dict[str, Any]:
        """Self-measurements, with `reasons` against trusting the figures."""

    def sources(self) -> list[dict[str, Any]]:
        """The sources of its times, and their errors."""

    async def down(self) -> None:
        """Removes what the trial created."""
