"""Starts components as processes, notices at once when one dies, restarts it, and stops all in the right order.

The order comes from `needs`: a component starts when those it needs are ready, and stops before they do. That matters most at the
end: an API server whose etcd is gone ignores SIGTERM for minutes and keeps its port. The kernel kills every process with this one
(see `launcher`), even after `kill -9`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.clusters.supervision import inotify
from seatrial.clusters.supervision.logs import last_words
from seatrial.clusters.supervision.probes import Probe
from seatrial.clusters.supervision.procfs import ProcessId
from seatrial.clusters.supervision.spawning import Spawned, spawn
from seatrial.kube import Access
from seatrial.model.control_plane import Component
from seatrial.model.errors import SetupProblem

_log = logging.getLogger(__name__)

POLL_S = 0.03
KILLED_S = 10.0  # a process that SIGKILL does not end within this is stuck in the kernel
RESTARTS = 5  # within WINDOW_S; after that a component is given up
WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class Death:
    """A component that ended unasked. `restarting`: the supervisor starts it again."""

    component: str
    pid: int
    status: int  # exit status, or minus the signal
    at: float  # time.time()
    restarting: bool
    log: Path
    log_tail: str

    def __str__(self) -> str:
        how = f"was killed by {_signal_name(-self.status)}" if self.status < 0 else f"ended with status {self.status}"
        then = "it is being restarted" if self.restarting else "it is not started again"
        return f"{self.component} (pid {self.pid}) {how}; {then}"


@dataclass(slots=True)
class _Running:
    component: Component
    binary: Path
    spawned: Spawned
    stopping: bool = False
    watched: bool = False  # it was ready: from now on its end is a death
    renewed: bool = False  # we end it to restart it
    exited: asyncio.Event = field(default_factory=asyncio.Event)
    ports: set[int] = field(default_factory=set)


class Supervisor:
    """The processes of one cluster, in one directory. For one event loop, in the main thread."""

    def __init__(
        self,
        directory: Path,
        log_of: Callable[[str], Path],
        *,
        admin: Callable[[], Access] | None = None,
        restart: bool = False,
        on_death: Callable[[Death], None] | None = None,
        on_change: Callable[[], None] | None = None,
        when_ready: Callable[[str], Awaitable[None]] | None = None,
        before_restart: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._directory = directory
        self._log_of = log_of
        self._admin = admin  # credentials for the probes of components that serve TLS
        self._restart = restart
        self._on_death = on_death or (lambda _: None)
        self._on_change = on_change or (lambda: None)
        self._when_ready = when_ready  # after each start, before components that need it
        self._before_restart = before_restart  # before each restart
        self._running: dict[str, _Running] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self._restarting: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, list[float]] = {}
        self._stopping = False

    @property
    def pids(self) -> dict[str, int]:
        """Pids of the running components."""
        return {name: running.spawned.id.pid for name, running in self._running.items()}

    @property
    def processes(self) -> dict[str, ProcessId]:
        """Running components, each with its start time."""
        return {name: running.spawned.id for name, running in self._running.items()}

    def port(self, component: str) -> int | None:
        """The port it listens on, if any."""
        return min(self._running[component].ports, default=None) if component in self._running else None

    async def start(self, components: Iterable[Component], binaries: Mapping[str, Path]) -> None:
        """Starts all of them, in parallel as far as `needs` allows. If one cannot be started, none is left."""
        todo = list(components)
        for component in todo:
            self._ready[component.name] = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                for component in todo:
                    group.create_task(self._bring_up(component, binaries[component.name]))
        except BaseExceptionGroup as group_of_errors:
            await asyncio.shield(self.stop())
            raise _first(group_of_errors) from group_of_errors
        except BaseException:
            await asyncio.shield(self.stop())
            raise

    async def _bring_up(self, component: Component, binary: Path, again: bool = False) -> None:
        for need in component.needs:
            if need in self._ready:
                await self._ready[need].wait()
        if again and self._before_restart:
            await self._before_restart(component.name)
        running = self._spawn(component, binary)
        await self._until_ready(running)
        if self._when_ready:
            await self._when_ready(component.name)
        running.watched = True
        self._ready[component.name].set()

    def _spawn(self, component: Component, binary: Path) -> _Running:
        spawned = spawn(component, binary, self._directory, self._log_of(component.name))
        running = _Running(component, binary, spawned)
        self._running[component.name] = running
        asyncio.get_running_loop().add_reader(spawned.handle, self._ended_now, running)
        self._on_change()
        return running

    async def _until_ready(self, running: _Running) -> None:
        component, ready = running.component, running.component.ready
        if ready is None:
            self._on_change()
            return
        begun = time.monotonic()
        probe = Probe(ready, running.spawned.id.pid, self._directory, self._admin)
        try:
            while not running.exited.is_set():
                problem = await probe.problem()
                running.ports = probe.ports
                if not problem:
                    self._on_change()
                    return
                if time.monotonic() - begun > ready.deadline_s:
                    raise self._explain(component, f"was not ready after {ready.deadline_s:.0f} s: {problem}")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(running.exited.wait(), POLL_S)
        finally:
            await probe.close()
        raise self._explain(component, f"ended with status {running.spawned.popen.returncode} while it was started")

    def _explain(self, component: Component, what: str) -> SetupProblem:
        """The message with the end of the component's log, which `down` removes."""
        words = last_words(self._log_of(component.name))
        remedy = (
            "Its last words are above; wrong flags or settings, or a machine under much load, are the usual reasons."
        )
        if "no space left on device" in words:
            remedy = f"The disk that holds {self._directory} is full: make room, or set XDG_STATE_HOME to another."
        if component.must_watch and "too many open files" in words:
            remedy = inotify.REMEDY
        return SetupProblem(f"{component.name} {what}\n{words}", remedy)

    def _ended_now(self, running: _Running) -> None:
        """Called when the kernel reports the end of the process."""
        status = running.spawned.popen.wait()
        asyncio.get_running_loop().remove_reader(running.spawned.handle)
        os.close(running.spawned.handle)
        running.exited.set()
        name = running.component.name
        _log.info("%s, pid %d, ended with status %d", name, running.spawned.id.pid, status)
        if self._running.get(name) is running:
            del self._running[name]
        self._on_change()
        # A component that ends during its start is reported by `_until_ready`.
        if running.stopping or self._stopping or not running.watched:
            return
        self._ready[name].clear()
        restarting = running.renewed or self._report(running, status, last_words(self._log_of(name)))
        if restarting:
            self._restarting[name] = asyncio.ensure_future(self._again(running))

    def _report(self, running: _Running, status: int, words: str) -> bool:
        """Reports a death; returns whether the component is restarted."""
        name = running.component.name
        restarting = self._restart and self._may_restart(name)
        log = self._log_of(name)
        self._on_death(Death(name, running.spawned.id.pid, status, time.time(), restarting, log, words))
        return restarting

    def _may_restart(self, name: str) -> bool:
        now = time.monotonic()
        recent = [at for at in self._ended.get(name, []) if now - at < WINDOW_S]
        self._ended[name] = [*recent, now]
        return len(recent) < RESTARTS

    async def _again(self, before: _Running) -> None:
        """Restarts the component once those it needs are ready, with a backoff that grows with its recent deaths."""
        name = before.component.name
        try:
            while True:
                await asyncio.sleep(0.05 * 2 ** len(self._ended.get(name, ())))
                try:
                    return await self._bring_up(before.component, before.binary, again=True)
                except SetupProblem as problem:
                    if name in self._running:
                        await self._stop_one(self._running[name])
                    if not self._report(before, before.spawned.popen.returncode or 0, problem.message):
                        return None
        finally:
            self._restarting.pop(name, None)

    def renew(self, name: str) -> None:
        """Restarts a component as if it had died, without a report. One that is being started stays."""
        running = self._running.get(name)
        if running and running.watched and not running.stopping and not self._stopping:
            running.renewed = True
            running.spawned.popen.kill()

    async def replace(self, component: Component, binary: Path | None = None) -> None:
        """Stops the component of that name, if it runs, and starts this one instead."""
        running = self._running.get(component.name)
        if running:
            await self._stop_one(running)
        self._ready.setdefault(component.name, asyncio.Event()).clear()
        program = binary or (running.binary if running else None)
        if program is None:
            raise SetupProblem(f"{component.name} never ran here", "Name its program.")
        await self._bring_up(component, program, again=True)

    async def stop(self) -> None:
        """Stops everything, dependents first, each with its own grace period."""
        self._stopping = True
        for task in list(self._restarting.values()):
            task.cancel()
        gone = {name: asyncio.Event() for name in self._running}

        async def stop_in_turn(name: str, running: _Running) -> None:
            for other in list(self._running.values()):
                if name in other.component.needs and other.component.name in gone:
                    await gone[other.component.name].wait()
            await self._stop_one(running)
            gone[name].set()

        await asyncio.gather(*(stop_in_turn(name, running) for name, running in list(self._running.items())))
        self._ready.clear()
        self._stopping = False

    async def _stop_one(self, running: _Running) -> None:
        running.stopping = True
        for sig, patience in ((signal.SIGTERM, running.component.grace_s), (signal.SIGKILL, KILLED_S)):
            if running.exited.is_set():
                return
            running.spawned.popen.send_signal(sig)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(running.exited.wait(), patience)
                return

    async def stop_or_kill(self) -> None:
        """Stops in order; if it is cancelled meanwhile, kills everything."""
        try:
            await self.stop()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kills everything at once, without an event loop."""
        for running in list(self._running.values()):
            running.stopping = True
            running.spawned.popen.kill()
            running.spawned.popen.wait()


def _first(error: BaseException) -> BaseException:
    """The error of a group that the user should see: our own explanation first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = error.subgroup(SetupProblem)
    group: BaseExceptionGroup[BaseException] = found if found is not None else error
    return _first(group.exceptions[0])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
