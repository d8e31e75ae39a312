"""What a cluster and a stack must be able to do. `study` joins one with the other; neither knows the other's kind.

`sim`, `local` and `kubeconfig` differ behind `Cluster` and nowhere else. A new stack is a new folder under `stacks/`, or another
package with an entry point in the group `seatrial.stacks`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from seatrial.model.lifecycle import Stage
from seatrial.model.plan import Amounts, Delete, Nodes, Requests, Scalar, Trial, Until, Workload
from seatrial.model.settings import Setting
from seatrial.model.state import State, WorkloadState

if TYPE_CHECKING:
    from seatrial.model.load import Load  # numpy: a command that only submits starts without it

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tally:
    """How a load went: what was asked for and what the client achieved (ns; sends from first to last).

    `late_ns`: how long after it was due an item was sent, at worst; of items due together the first counts.
    """

    phase: str
    count: int
    wanted_ns: int
    took_ns: int
    late_ns: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to create. `resource` says where (kube.resources.Resource); the namespace is the cluster's affair.

    `until` is a condition that has to be true before anything goes on: it shows that the object's controller is at work.
    """

    resource: Any
    name: str
    body: Mapping[str, Any]
    until: str = ""


class Stack(Protocol):
    """What is under test."""

    name: str
    about: str
    stages: Sequence[Stage]  # in lifecycle order; copied into trial.json
    settings: Sequence[Setting]  # its own, beside those of the control plane
    needs: str  # what must be there for it on a real cluster, for `seatrial stacks`
    runs_on: Sequence[str]  # of sim, local, kubeconfig
    verified: str  # how its figures were checked, for `seatrial stacks`
    model_verified: bool  # its model was held against the real thing; a class says so itself and does not inherit it
    created_as: tuple[str, str]  # API group and plural of what the client creates for a workload

    def refuses(self, trial: Trial) -> str | None:
        """Why it cannot run this trial, or None."""

    def model(self, sim: Any, settings: Mapping[str, Mapping[str, Scalar]]) -> Callable[[int, Workload], None]:
        """Puts its parts into the simulator; what is returned takes each workload the server has just created."""

    def releases(self, settings: Mapping[str, Mapping[str, Scalar]]) -> Sequence[int]:
        """Its own time-outs (ns) that can still free something when nothing else moves; none: what is held stays held."""

    def quota(self, settings: Mapping[str, Mapping[str, Scalar]], capacity: Amounts) -> Amounts | None:
        """What its queue admits at most at the same time on nodes that have so much in all; None: it has no such limit."""

    def prepare(
        self, settings: Mapping[str, Mapping[str, Scalar]], capacity: Amounts, labels: Mapping[str, str], namespace: str
    ) -> Sequence[Manifest]:
        """What it needs on a real cluster beside its processes (queues, quotas). Applied before the first workload, and
        again with the new capacity whenever nodes come or go."""

    def programs(self) -> Sequence[Any]:
        """What it needs built for `local` (model.control_plane.GoBinary), for `cluster build` and before a run."""

    def amend(self, plane: Any, settings: Mapping[str, Mapping[str, Scalar]]) -> Any:
        """The control plane of `local` (model.control_plane.ControlPlane) with this stack in it."""

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """What a workload becomes on a real cluster; everything carries the labels."""

    def watches(self) -> Sequence[Any]:
        """What is to be watched there (observe.observer.Watch)."""

    def queue(self) -> tuple[Any, str] | None:
        """What `submit --project` names: None, a namespace; else its kind of queue (kube.resources.Resource) and the label by
        which a Job names one."""


class Cluster(Protocol):
    """Where a trial runs."""

    ledger: Any
    wall_epoch: int  # the trial's epoch on the wall clock, in ns; 0 before it and in virtual time

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs the choreography on this cluster's clock; Ctrl-C cancels it."""

    def now(self) -> int:
        """Nanoseconds since the trial's epoch."""

    async def up(self) -> None: ...

    async def load(self, load: Load) -> Tally: ...

    async def nodes(self, change: Nodes) -> None: ...

    async def requests(self, phase: Requests) -> Tally:
        """Sends them all, each recorded (record.requests)."""

    def sent(self) -> int:
        """How many requests of such phases have gone so far."""

    async def until(self, until: Until, told: Callable[[int], None]) -> None:
        """Returns when what was created is so; `told` hears how many are so (or left) meanwhile."""

    def state(self) -> State:
        """Who holds what and who waits, from what is known here: never a request."""

    def unfinished(self) -> tuple[WorkloadState, ...]:
        """The workloads of `state`; the nodes are not looked at."""

    def at_rest(self) -> bool:
        """Nothing is under way any more that could change anything. Only a simulator can know."""

    async def delete(self, what: Delete) -> None: ...

    def target(self) -> dict[str, Any]:
        """Where what it makes can be found and removed, for trial.json; empty if all of that goes with the trial."""

    def node_spans(self) -> list[dict[str, Any]]:
        """Which nodes were there from when to when, for trial.json."""

    async def broken(self) -> str:
        """Returns only if the cluster cannot go on, with the reason."""

    def validity(self) -> dict[str, Any]:
        """What it measured of itself, with `reasons` against trusting the figures."""

    def sources(self) -> list[dict[str, Any]]:
        """Where its times come from, and their errors."""

    async def down(self) -> None: ...
