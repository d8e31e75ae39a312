"""The common part of both versions of MCAD: AppWrappers, the informer, the FIFO whose lock the worker holds, discovery.

Read from the sources of v1.32.0 and v1.40.0 with client-go 0.20 and 0.27; docs/stacks/mcad.md has file and line of each fact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace

from seatrial.model.lifecycle import ADMITTED, RELEASED
from seatrial.model.plan import Scalar, Workload
from seatrial.model.units import MICROSECOND, MILLISECOND
from seatrial.sim import pods as pod_state
from seatrial.sim.apiserver import GET, LIST, WRITE, ApiClient
from seatrial.sim.goroutines import Calls, GoCond, GoMutex, Goroutine, Goroutines, Signal
from seatrial.sim.world import Sim
from seatrial.stacks.mcad import SEEN, counted

WATCH_LAG = 1 * MILLISECOND  # from a write to the informer's cache and handler
PASS = 100 * MICROSECOND  # one turn of the worker that asks the API server nothing
HANDLE = 30 * MICROSECOND  # the informer's handler, per event
NO_ROOM = "Insufficient resources to dispatch AppWrapper."

Steps = Generator[int | Signal | Calls, None, bool]


@dataclass(slots=True)
class WrapperCopy:
    """An AppWrapper as the server has it, or as the informer's cache and MCAD's queues have it: these differ, and MCAD copes.

    Cache, handler and queues share one pointer, as in MCAD: what the worker writes into its object shows in the cache.
    """

    number: int
    version: int = 1
    state: str = ""  # "", Enqueued, Active, Completed
    can_run: bool = False
    backed_off: bool = False
    running: bool = False

    def become(self, other: WrapperCopy) -> None:
        """Takes over everything but the number."""
        self.version, self.state, self.can_run = other.version, other.state, other.can_run
        self.backed_off, self.running = other.backed_off, other.running


class Fifo:
    """client-go's cache.FIFO: one entry per AppWrapper, the newest object wins; Pop holds the lock while the worker runs."""

    def __init__(self, sim: Sim, processes: Goroutines) -> None:
        self.lock = GoMutex(sim.kernel, processes)
        self._order: deque[int] = deque()
        self._items: dict[int, WrapperCopy] = {}
        self._filled = GoCond(processes)

    def __contains__(self, number: int) -> bool:
        return number in self._items

    def put(self, wrapper: WrapperCopy, replacing: bool = True) -> None:
        """The caller holds the lock."""
        if wrapper.number not in self._items:
            self._order.append(wrapper.number)
            self._items[wrapper.number] = wrapper
        elif replacing:
            self._items[wrapper.number] = wrapper
        self._filled.wake()

    def add(self, wrapper: WrapperCopy, replacing: bool = True) -> Goroutine:
        """Takes the lock for it."""
        yield self.lock.lock()
        yield 2 * MICROSECOND
        self.put(wrapper, replacing)
        self.lock.unlock()

    def delete(self, number: int) -> Goroutine:
        """Takes the lock for it. The place in the order stays, as in client-go: a later entry may still use it."""
        yield self.lock.lock()
        self._items.pop(number, None)
        self.lock.unlock()

    def take(self) -> Generator[int | Signal | Calls, None, WrapperCopy]:
        """Waits for an entry, and returns with the lock held."""
        yield self.lock.lock()
        while True:
            while not self._order:
                filled = self._filled.wait()
                self.lock.unlock()
                yield filled
                yield self.lock.lock()
            wrapper = self._items.pop(self._order.popleft(), None)
            if wrapper is not None:
                return wrapper


class McadModel:
    """The informer and the API calls; a version adds its loops."""

    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        self.sim = sim
        self.processes = Goroutines(sim.kernel, sim.api)
        self.fifo = Fifo(sim, self.processes)
        qps, burst = float(settings["qps"]), float(settings["burst"])
        self.wrappers = ApiClient("mcad", qps, burst)  # reads and writes of AppWrappers
        self.listing = ApiClient("mcad-lists", qps, burst)  # nodes and pods
        self.discovering = ApiClient("mcad-discovery", qps, burst)  # shared by dispatches and completion checks
        self.dynamic = ApiClient("mcad-dynamic")  # created for every item, so its burst is always full
        self.group_versions = int(settings["group-versions"])
        self.backoff = int(settings["backoff"])
        self.server: dict[int, WrapperCopy] = {}
        self.lister: dict[int, WrapperCopy] = {}
        self.complete: set[int] = set()  # Jobs
        self.dispatched: set[int] = set()  # Jobs that exist and are not known to be complete
        self._events: deque[tuple[WrapperCopy, bool]] = (
            deque()
        )  # that the handler has not come to; whether it is an ADD
        self._arrived = GoCond(self.processes)
        sim.when_completed.append(self._job_complete)
        sim.when_deleted.append(self._deleted)
        self.processes.start(self._handler())
        self.processes.start(self._worker())

    # what a version overrides

    def process(self, wrapper: WrapperCopy) -> Goroutine:
        """The worker's callback, under the FIFO's lock."""
        raise NotImplementedError

    def first_seen(self, wrapper: WrapperCopy) -> None:
        """Called for the handler's ADD."""

    def delay(self, wrapper: WrapperCopy) -> int:  # noqa: ARG002
        """How long the handler delays an update (ns)."""
        return 0

    # the server and the informer

    def created(self, number: int, workload: Workload) -> None:  # noqa: ARG002
        """The server has a new AppWrapper."""
        self.server[number] = WrapperCopy(number)
        self._publish(self.server[number])

    def _deleted(self, number: int) -> None:
        for holder in (self.server, self.lister):
            holder.pop(number, None)
        self.dispatched.discard(number)

    def _job_complete(self, number: int) -> None:
        self.complete.add(number)

    def _publish(self, wrapper: WrapperCopy) -> None:
        self.sim.kernel.at(self.sim.kernel.now + WATCH_LAG, self._seen, replace(wrapper))

    def _seen(self, wrapper: WrapperCopy) -> None:
        if wrapper.number not in self.server:
            return
        self._events.append((wrapper, wrapper.number not in self.lister))
        self.lister[wrapper.number] = wrapper
        self._arrived.wake()

    def _put_back(self, wrapper: WrapperCopy) -> None:
        """A timer of Go has a goroutine of its own: it competes for the lock. It is set when the handler comes to the event."""
        self.processes.start(self.fifo.add(wrapper))

    def _handler(self) -> Goroutine:
        while True:
            if not self._events:
                yield self._arrived.wait()
                continue
            wrapper, new = self._events.popleft()
            if new:
                self.first_seen(wrapper)
            delay = self.delay(wrapper)
            if delay:
                self.sim.kernel.at(self.sim.kernel.now + delay, self._put_back, wrapper)
            else:
                yield from self.fifo.add(wrapper)
            yield HANDLE

    def _worker(self) -> Goroutine:
        while True:
            wrapper = yield from self.fifo.take()
            yield PASS
            if wrapper.number in self.server:
                yield from self.process(wrapper)
            self.fifo.lock.unlock()
            yield 5 * MICROSECOND

    def refresh(self, wrapper: WrapperCopy) -> None:
        """Takes over what the informer's cache has, if that is newer."""
        cached = self.lister.get(wrapper.number)
        if cached and cached.version > wrapper.version:
            wrapper.become(cached)

    # calls

    def write(self, wrapper: WrapperCopy, refresh: bool = False) -> Steps:
        """PUT; False on a conflict with a newer version."""
        yield Calls(self.wrappers, WRITE)
        current = self.server.get(wrapper.number)
        if current is None or current.version != wrapper.version:
            return False
        new = replace(wrapper, version=current.version + 1)
        self.server[wrapper.number] = new
        self._publish(new)
        if refresh:
            wrapper.version = new.version
        return True

    def discover(self) -> Goroutine:
        """/api, then /apis, then every group-version side by side, each through the token bucket."""
        yield Calls(self.discovering, GET)
        yield Calls(self.discovering, GET)
        yield Calls(self.discovering, GET, self.group_versions)

    def create_job(self, number: int) -> Goroutine:
        """Looks for the Job and creates it if it is missing."""
        yield Calls(self.dynamic, LIST)
        if number in self.dispatched or number in self.complete or number not in self.server:
            return
        yield Calls(self.dynamic, WRITE)
        if number in self.server:
            self.dispatched.add(number)
            self.sim.reach(number, ADMITTED)
            self.sim.jobs.add(number, self.sim.workloads[number])

    def is_complete(self, number: int) -> Steps:
        """The completion check: a whole discovery for one LIST."""
        yield from self.discover()
        yield Calls(self.dynamic, LIST)
        return number in self.complete

    def released(self, number: int) -> None:
        """MCAD has noticed that the Job is complete."""
        self.dispatched.discard(number)
        self.sim.reach(number, RELEASED)

    # room

    def fits(self, number: int) -> bool:
        """Whether it fits by the total of all nodes; MCAD does not consider single nodes."""
        workload = self.sim.workloads[number]
        asked, room = counted(workload), self._room()
        fits = all(asked.get(name, 0) * workload.pods <= room.get(name, 0) for name in SEEN)
        self.sim.said[number] = "" if fits else NO_ROOM
        return fits

    def _room(self) -> dict[str, int]:
        """Free on open nodes, less what dispatched AppWrappers declared and their running or finished pods do not use: a pod that
        is bound and does not run yet counts twice, and what is declared but not requested counts until MCAD has noticed the end
        (EX:191-221,845-870; the label that should exclude MCAD's own pods from the first sum is misspelt there). Never below zero
        (EX:873, NonNegSub): an AppWrapper without GPUs fits while GPUs count twice."""
        pending = dict.fromkeys(SEEN, 0)
        for number in self.dispatched:
            workload = self.sim.workloads[number]
            asked, over = counted(workload), number in self.complete
            using = workload.pods if over else self.pods_in(number, pod_state.RUNNING, pod_state.FINISHED)
            for name in SEEN:
                used = workload.shape.requests.get(name, 0) * using
                pending[name] += max(asked.get(name, 0) * workload.pods - used, 0)
        return {name: max(self.sim.nodes.room(name) - pending[name], 0) for name in SEEN}

    def pods_in(self, number: int, *states: int) -> int:
        """How many of its pods are in one of these states."""
        return sum(1 for pod in self.sim.pods_of(number) if self.sim.pods.state[pod] in states)
