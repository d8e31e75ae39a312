"""What both versions of MCAD are made of: AppWrappers, the informer, the FIFO whose lock the worker holds, discovery.

Read from the sources of v1.32.0 and v1.40.0 with client-go 0.20 and 0.27; docs/stacks/mcad.md has file and line of each fact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace

from seatrial.model.lifecycle import ADMITTED, QUEUED, RELEASED
from seatrial.model.plan import Scalar, Workload
from seatrial.model.units import MICROSECOND, MILLISECOND
from seatrial.sim import pods as pod_state
from seatrial.sim.api import GET, LIST, WRITE, Client
from seatrial.sim.processes import GoMutex, Process, Processes, Request, Signal
from seatrial.sim.world import Sim
from seatrial.stacks.mcad import SEEN

WATCH_LAG = 1 * MILLISECOND  # from a write to the informer's cache and handler
PASS = 100 * MICROSECOND  # one turn of the worker that asks the API server nothing
HANDLE = 30 * MICROSECOND  # the informer's handler, per event
NO_ROOM = "Insufficient resources to dispatch AppWrapper."

Steps = Generator[int | Signal | Request, None, bool]


@dataclass(slots=True)
class AppWrapper:
    """As the server has it, or as the informer's cache and MCAD's queues have it: they differ, and MCAD lives with that.

    Cache, handler and queues pass the same pointer on, as in MCAD: what the worker writes into its object shows in the cache.
    """

    number: int
    version: int = 1
    state: str = ""  # "", Enqueued, Active, Completed
    can_run: bool = False
    backed_off: bool = False
    running: bool = False

    def become(self, other: AppWrapper) -> None:
        self.version, self.state, self.can_run = other.version, other.state, other.can_run
        self.backed_off, self.running = other.backed_off, other.running


class Fifo:
    """client-go's cache.FIFO: one entry per AppWrapper, the newest object wins; Pop holds the lock while the worker works."""

    def __init__(self, sim: Sim, processes: Processes) -> None:
        self.lock = GoMutex(sim.kernel, processes)
        self._processes = processes
        self._order: deque[int] = deque()
        self._items: dict[int, AppWrapper] = {}
        self._filled: Signal | None = None

    def __contains__(self, number: int) -> bool:
        return number in self._items

    def put(self, wrapper: AppWrapper, replacing: bool = True) -> None:
        """To be called with the lock held."""
        if wrapper.number not in self._items:
            self._order.append(wrapper.number)
            self._items[wrapper.number] = wrapper
        elif replacing:
            self._items[wrapper.number] = wrapper
        if self._filled:
            filled, self._filled = self._filled, None
            self._processes.happen(filled)

    def add(self, wrapper: AppWrapper, replacing: bool = True) -> Process:
        yield self.lock.lock()
        yield 2 * MICROSECOND
        self.put(wrapper, replacing)
        self.lock.unlock()

    def take(self) -> Generator[int | Signal | Request, None, AppWrapper]:
        """Waits for an entry; the lock is held afterwards."""
        yield self.lock.lock()
        while not self._order:
            filled = self._filled = Signal()
            self.lock.unlock()
            yield filled
            yield self.lock.lock()
        return self._items.pop(self._order.popleft())


class Mcad:
    """The informer and the calls; a version adds its loops."""

    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        self.sim = sim
        self.processes = Processes(sim.kernel, sim.api)
        self.fifo = Fifo(sim, self.processes)
        qps, burst = float(settings["qps"]), float(settings["burst"])
        self.wrappers = Client("mcad", qps, burst)  # reads and writes of AppWrappers
        self.listing = Client("mcad-lists", qps, burst)  # nodes and pods
        self.discovering = Client("mcad-discovery", qps, burst)  # one for dispatches and completion checks together
        self.dynamic = Client("mcad-dynamic")  # made anew for every item, so its burst is always full
        self.group_versions = int(settings["group-versions"])
        self.backoff = int(settings["backoff"])
        self.server: dict[int, AppWrapper] = {}
        self.lister: dict[int, AppWrapper] = {}
        self.complete: set[int] = set()  # Jobs
        self.dispatched: set[int] = set()  # Jobs that exist and are not known to be complete
        self._events: deque[AppWrapper] = deque()
        self._waiting: Signal | None = None
        self._stages = sim.ledger.number
        sim.when_completed.append(self._job_complete)
        sim.when_deleted.append(self._deleted)
        self.processes.start(self._handler())
        self.processes.start(self._worker())

    # what a version defines

    def process(self, wrapper: AppWrapper) -> Process:
        raise NotImplementedError

    def first_seen(self, wrapper: AppWrapper) -> None:
        """The handler's ADD."""

    def delay(self, wrapper: AppWrapper) -> int:  # noqa: ARG002
        """How long the handler keeps an update back."""
        return 0

    # the server and the informer

    def created(self, number: int, workload: Workload) -> None:  # noqa: ARG002
        self.server[number] = AppWrapper(number)
        self._publish(self.server[number])

    def _deleted(self, number: int) -> None:
        for holder in (self.server, self.lister):
            holder.pop(number, None)
        self.dispatched.discard(number)

    def _job_complete(self, number: int) -> None:
        self.complete.add(number)

    def _publish(self, wrapper: AppWrapper) -> None:
        self.sim.kernel.at(self.sim.kernel.now + WATCH_LAG, self._seen, replace(wrapper))

    def _seen(self, wrapper: AppWrapper) -> None:
        if wrapper.number not in self.server:
            return
        new = wrapper.number not in self.lister
        self.lister[wrapper.number] = wrapper
        if new:
            self.first_seen(wrapper)
        delay = self.delay(wrapper)
        if delay:
            self.sim.kernel.at(self.sim.kernel.now + delay, self._deliver, wrapper)
        else:
            self._deliver(wrapper)

    def _deliver(self, wrapper: AppWrapper) -> None:
        self._events.append(wrapper)
        if self._waiting:
            waiting, self._waiting = self._waiting, None
            self.processes.happen(waiting)

    def _handler(self) -> Process:
        while True:
            if not self._events:
                waiting = self._waiting = Signal()
                yield waiting
                continue
            yield from self.fifo.add(self._events.popleft())
            yield HANDLE

    def _worker(self) -> Process:
        while True:
            wrapper = yield from self.fifo.take()
            yield PASS
            if wrapper.number in self.server:
                yield from self.process(wrapper)
            self.fifo.lock.unlock()
            yield 5 * MICROSECOND

    # calls

    def write(self, wrapper: AppWrapper, refresh: bool = False) -> Steps:
        """PUT; false on a conflict with what the server has by now."""
        yield Request(self.wrappers, WRITE)
        current = self.server.get(wrapper.number)
        if current is None or current.version != wrapper.version:
            return False
        new = replace(wrapper, version=current.version + 1)
        self.server[wrapper.number] = new
        self._publish(new)
        if refresh:
            wrapper.version = new.version
        return True

    def discover(self) -> Process:
        """/api, then /apis, then every group-version side by side, each through the bucket."""
        yield Request(self.discovering, GET)
        yield Request(self.discovering, GET)
        yield Request(self.discovering, GET, self.group_versions)

    def create_job(self, number: int) -> Process:
        """Looks for the Job and creates it if it is not there."""
        yield Request(self.dynamic, LIST)
        if number in self.dispatched or number in self.complete or number not in self.server:
            return
        yield Request(self.dynamic, WRITE)
        if number in self.server:
            self.dispatched.add(number)
            self.reached(number, ADMITTED.name)
            self.sim.jobs.add(number, self.sim.workloads[number])

    def is_complete(self, number: int) -> Steps:
        """The completion check: a whole discovery for one LIST."""
        yield from self.discover()
        yield Request(self.dynamic, LIST)
        return number in self.complete

    def reached(self, number: int, stage: str) -> None:
        ledger = self.sim.ledger
        if not ledger.has_reached(number, self._stages[stage]):
            ledger.move(self.sim.kernel.now, number, self._stages[stage])

    def queued(self, number: int) -> None:
        self.reached(number, QUEUED.name)

    def head_of_line(self, number: int) -> None:
        self.reached(number, "head_of_line")

    def released(self, number: int) -> None:
        self.dispatched.discard(number)
        self.reached(number, RELEASED.name)

    # room

    def fits(self, number: int) -> bool:
        """By what all nodes have together; no node is looked at by itself."""
        workload = self.sim.workloads[number]
        asked = workload.declares if workload.declares is not None else workload.shape.requests
        room = self._room()
        fits = all(asked.get(name, 0) * workload.pods <= room.get(name, 0) for name in SEEN)
        self.sim.said[number] = "" if fits else NO_ROOM
        return fits

    def _room(self) -> dict[str, int]:
        """Free on open nodes, less what dispatched AppWrappers have declared and their running or finished pods do not use: a pod
        that is bound and does not run yet counts twice, and what is declared but not asked for counts until MCAD has noticed
        the end (EX:191-221,845-870; the label that should keep MCAD's own pods out of the first sum is misspelt there)."""
        room = {name: self.sim.nodes.room(name) for name in SEEN}
        for number in self.dispatched:
            workload = self.sim.workloads[number]
            asked = workload.declares if workload.declares is not None else workload.shape.requests
            over = number in self.complete
            using = workload.pods if over else self.pods_in(number, pod_state.RUNNING, pod_state.FINISHED)
            for name in SEEN:
                used = workload.shape.requests.get(name, 0) * using
                room[name] -= max(asked.get(name, 0) * workload.pods - used, 0)
        return room

    def pods_in(self, number: int, *states: int) -> int:
        return sum(1 for pod in self.sim.pods_of(number) if self.sim.pods.state[pod] in states)
