"""Starts component descriptions as processes, notices at once when one dies, and stops them in the right order.

Order comes from `needs` alone: a component starts when those it needs are ready and stops before they do. That matters
most at the end: an API server whose etcd is gone ignores SIGTERM for minutes and keeps its port. Every process is tied
to the life of this one (see `launcher`), so nothing survives us, not even `kill -9`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.clusters.local.api import probe_http, probe_socket
from seatrial.clusters.local.processes import ProcessId, last_words, listens_on
from seatrial.clusters.local.spawning import Spawned, spawn
from seatrial.model.control_plane import Component, Ready
from seatrial.model.errors import SetupProblem

POLL_S = 0.03
KILLED_S = 10.0  # SIGKILL needs no agreement; longer than this is a process stuck in the kernel
RESTARTS = 5  # more than these within WINDOW_S and it is given up
WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class Death:
    """A component ended that should not have. `restarting` says whether the supervisor starts it again."""

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
    watched: bool = False  # it was ready once: from then on its end is a death
    renewed: bool = False  # we end it to have it started anew
    exited: asyncio.Event = field(default_factory=asyncio.Event)
    ports: set[int] = field(default_factory=set)


class Supervisor:
    """The processes of one cluster, in one directory. To be used from one event loop, in the main thread."""

    def __init__(
        self,
        directory: Path,
        log_of: Callable[[str], Path],
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        restart: bool = False,
        on_death: Callable[[Death], None] | None = None,
        on_change: Callable[[], None] | None = None,
        when_ready: Callable[[str], Awaitable[None]] | None = None,
        before_again: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._directory = directory
        self._log_of = log_of
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._restart = restart
        self._on_death = on_death or (lambda _: None)
        self._on_change = on_change or (lambda: None)
        self._when_ready = when_ready  # to be done each time, before those that need it may start
        self._before_again = before_again  # to be done before it is started anew
        self._running: dict[str, _Running] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self._restarting: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, list[float]] = {}
        self._stopping = False

    @property
    def pids(self) -> dict[str, int]:
        return {name: running.spawned.id.pid for name, running in self._running.items()}

    @property
    def processes(self) -> dict[str, ProcessId]:
        return {name: running.spawned.id for name, running in self._running.items()}

    def port(self, component: str) -> int | None:
        """Where it listens, if it does."""
        return min(self._running[component].ports, default=None) if component in self._running else None

    async def start(self, components: Iterable[Component], binaries: Mapping[str, Path]) -> None:
        """All of them, side by side as far as `needs` allows. If one cannot be started, none is left."""
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
        if again and self._before_again:
            await self._before_again(component.name)
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
        begun = time.monotonic()
        while not running.exited.is_set():
            problem = await asyncio.to_thread(self._probe, running, ready) if ready else ""
            if not problem:
                self._on_change()
                return
            if ready and time.monotonic() - begun > ready.deadline_s:
                raise self._explain(component, f"was not ready after {ready.deadline_s:.0f} s: {problem}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(running.exited.wait(), POLL_S)
        raise self._explain(component, f"ended with status {running.spawned.popen.returncode} while it was started")

    def _explain(self, component: Component, what: str) -> SetupProblem:
        """With its last words: `down` removes the log."""
        words = last_words(self._log_of(component.name))
        remedy = (
            "Its last words are above; wrong flags or settings, or a machine under much load, are the usual reasons."
        )
        if "no space left on device" in words:
            remedy = f"The disk that holds {self._directory} is full: make room, or set XDG_STATE_HOME to another."
        return SetupProblem(f"{component.name} {what}\n{words}", remedy)

    def _probe(self, running: _Running, ready: Ready) -> str:
        """Empty if ready. That somebody answers is not enough: it must be this process that listens."""
        if ready.socket:
            return probe_socket(self._directory / ready.socket)
        running.ports = listens_on(running.spawned.id.pid)
        port = ready.port or min(running.ports, default=0)
        if port not in running.ports:
            return f"it does not listen on port {port}" if port else "it does not listen"
        return probe_http(port, ready.path, self._context() if ready.tls else None) if ready.path else ""

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = self._make_tls() if self._make_tls else ssl.create_default_context()
        return self._tls

    def _ended_now(self, running: _Running) -> None:
        """The kernel says that this process ended."""
        status = running.spawned.popen.wait()
        asyncio.get_running_loop().remove_reader(running.spawned.handle)
        os.close(running.spawned.handle)
        running.exited.set()
        name = running.component.name
        if self._running.get(name) is running:
            del self._running[name]
        self._on_change()
        # One that ends while it is started is the starter's to report.
        if running.stopping or self._stopping or not running.watched:
            return
        self._ready[name].clear()
        restarting = running.renewed or self._report(running, status, last_words(self._log_of(name)))
        if restarting:
            self._restarting[name] = asyncio.ensure_future(self._again(running))

    def _report(self, running: _Running, status: int, words: str) -> bool:
        """Tells of a death, and whether we may try again."""
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
        """Starts it anew, once those it needs are ready, and a little later each time that it ended lately."""
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
        """Ends it and starts it anew, as if it had died but for the report. One that is being started is new enough."""
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
        """Everything, dependents first, each with its own time to end by itself."""
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
        """In order if there is time for it; whoever is cancelled meanwhile leaves nothing running either."""
        try:
            await self.stop()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Everything, now, without an event loop: the last resort of an interrupted stop."""
        for running in list(self._running.values()):
            running.stopping = True
            running.spawned.popen.kill()
            running.spawned.popen.wait()


def _first(error: BaseException) -> BaseException:
    """What the user should see of a group: our own explanation before anything else."""
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
