"""Starting, watching and stopping processes, with small scripts in the place of components."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from seatrial.clusters.supervision.logs import tail
from seatrial.clusters.supervision.procfs import ProcessId, end, identify, listens_on
from seatrial.clusters.supervision.spawning import take_lock
from seatrial.clusters.supervision.supervisor import Death, Supervisor
from seatrial.model.control_plane import Component, Ready
from seatrial.model.errors import SetupProblem
from tests.waiting import eventually

PYTHON = Path(sys.executable)
SLEEP = "import time; time.sleep(99)"
LISTEN = "import socket; s=socket.create_server(('127.0.0.1',0)); print('listening',flush=True); "
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); " + SLEEP


def script(name: str, code: str, **more: Any) -> Component:
    return Component(name, PYTHON, ("-S", "-c", code), **more)


class Bench:
    """A supervisor over a temporary directory, with what it told us."""

    def __init__(self, directory: Path, restart: bool = False) -> None:
        self.directory = directory
        self.deaths: list[Death] = []
        self.supervisor = Supervisor(directory, self.log, restart=restart, on_death=self.deaths.append)

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    async def start(self, *components: Component) -> None:
        await self.supervisor.start(components, {c.name: PYTHON for c in components})

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.sleep(0.01)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else None

    def runner(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as loop:
            loop.run(main)

    return runner


Run = Callable[[Coroutine[Any, Any, None]], None]


def test_a_component_starts_after_those_it_needs_and_stops_before_them(tmp_path: Path, run: Run) -> None:
    # Waits with the signal blocked: a handler would not run if the signal came in the moment before a sleep begins.
    note = "import signal; end={{signal.SIGTERM}}; signal.pthread_sigmask(signal.SIG_BLOCK,end); "
    note += "f=open('order','a',buffering=1); f.write('{0} up\\n'); open('{0}.up','w'); {1}"
    note += "signal.sigwait(end); f.write('{0} down\\n')"
    bench = Bench(tmp_path)

    async def main() -> None:
        # `first` is ready once it listens, 0.3 s after its start; `second` must not start before.
        late = "import time; time.sleep(.3); " + note.format("first", LISTEN)
        first = script("first", late, ready=Ready())
        second = script("second", note.format("second", ""), needs=("first",))
        await bench.start(second, first)
        await bench.until((tmp_path / "second.up").exists)
        await bench.supervisor.stop()

    run(main())
    assert (tmp_path / "order").read_text().split("\n")[:4] == ["first up", "second up", "second down", "first down"]


def test_a_component_that_dies_is_noticed_at_once_with_the_end_of_its_log(tmp_path: Path, run: Run) -> None:
    bench = Bench(tmp_path)

    async def main() -> None:
        starting = time.monotonic()
        await bench.start(script("brief", "print('my last words', flush=True); " + SLEEP))
        await bench.until(lambda: "last" in tail(bench.log("brief")))
        begun = time.monotonic()
        os.kill(bench.supervisor.pids["brief"], signal.SIGKILL)
        await bench.until(lambda: bool(bench.deaths))
        assert time.monotonic() - begun < max(0.2, 2 * (begun - starting))  # however busy the machine is
        await bench.supervisor.stop()

    run(main())
    assert bench.deaths[0].status == -signal.SIGKILL
    assert "my last words" in bench.deaths[0].log_tail
    assert "killed by SIGKILL" in str(bench.deaths[0])


def test_what_dies_is_restarted_where_that_is_wanted(tmp_path: Path, run: Run) -> None:
    bench = Bench(tmp_path, restart=True)

    async def main() -> None:
        await bench.start(script("lively", SLEEP))
        before = bench.supervisor.pids["lively"]
        os.kill(before, signal.SIGKILL)
        await bench.until(lambda: bench.supervisor.pids.get("lively", before) != before)
        await bench.supervisor.stop()
        assert bench.supervisor.pids == {}

    run(main())
    assert [death.restarting for death in bench.deaths] == [True]


def test_what_dies_with_what_it_needs_waits_for_that_to_be_back(tmp_path: Path) -> None:
    """A scheduler ends at once when there is no API server: restarted too early it would use up its chances."""
    slow = "import time; time.sleep(.5); open('base.up','w'); " + LISTEN + SLEEP
    picky = "import os,sys,time; os.path.exists('base.up') or sys.exit(9); time.sleep(99)"
    bench = Bench(tmp_path, restart=True)

    async def main() -> None:
        await bench.start(script("base", slow, ready=Ready()), script("picky", picky, needs=("base",)))
        before = bench.supervisor.pids
        (tmp_path / "base.up").unlink()
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)
        await bench.until(lambda: bench.supervisor.pids.get("picky", before["picky"]) != before["picky"])
        await asyncio.sleep(0.3)
        assert set(bench.supervisor.pids) == {"base", "picky"}
        await bench.supervisor.stop()

    asyncio.run(main())
    assert sorted(death.component for death in bench.deaths) == ["base", "picky"]


def test_what_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, restart=True)

    async def main() -> None:
        await bench.start(script("hopeless", "import time; time.sleep(.05)"))
        await bench.until(lambda: bool(bench.deaths) and not bench.deaths[-1].restarting)

    asyncio.run(main())
    assert len(bench.deaths) == 6


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    async def main() -> None:
        await bench.start(script("stubborn", STUBBORN, grace_s=0.3))
        await bench.until(lambda: "deaf" in tail(bench.log("stubborn")))
        pid = bench.supervisor.pids["stubborn"]
        begun = time.monotonic()
        await bench.supervisor.stop()
        assert 0.25 < time.monotonic() - begun < 2
        assert identify(pid) is None

    asyncio.run(main())


def test_a_start_that_fails_shows_why_and_leaves_nothing_running(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    pids: dict[str, int] = {}

    async def main() -> None:
        good = script("good", SLEEP)
        bad = script(
            "bad", "import time; time.sleep(.3); print('unknown flag --x'); raise SystemExit(7)", ready=Ready()
        )
        task = asyncio.ensure_future(bench.start(good, bad))
        await bench.until(lambda: "good" in bench.supervisor.pids)
        pids.update(bench.supervisor.pids)
        await task

    with pytest.raises(SetupProblem, match=r"(?s)bad ended with status 7.*unknown flag --x"):
        asyncio.run(main())
    assert identify(pids["good"]) is None


def test_readiness_has_a_deadline(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with pytest.raises(SetupProblem, match="mute was not ready after 0 s: it does not listen"):
        asyncio.run(bench.start(script("mute", SLEEP, ready=Ready(deadline_s=0.3))))


def test_an_answer_from_somebody_else_on_the_port_does_not_count(tmp_path: Path) -> None:
    """A corpse on the same port would make the readiness probe happy; it is not the process we started."""
    bench = Bench(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SetupProblem, match=f"does not listen on port {port}"):
            asyncio.run(bench.start(script("late", SLEEP, ready=Ready(port=port, deadline_s=0.3))))


def test_the_port_a_process_chose_itself_is_found(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    async def main() -> None:
        await bench.start(script("server", LISTEN + SLEEP, ready=Ready()))
        port = bench.supervisor.port("server")
        assert port in listens_on(bench.supervisor.pids["server"])
        await bench.supervisor.stop()

    asyncio.run(main())


def test_a_second_process_with_the_same_lock_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    bench, second = Bench(tmp_path), Bench(tmp_path)

    async def main() -> None:
        await bench.start(script("kwok", SLEEP, lock="kwok.lock"))
        with pytest.raises(SetupProblem, match=f"another kwok already works.*pid {bench.supervisor.pids['kwok']}"):
            await second.start(script("kwok", SLEEP, lock="kwok.lock"))
        await bench.supervisor.stop()
        os.close(take_lock(tmp_path / "kwok.lock", "kwok"))

    asyncio.run(main())


def test_the_users_environment_does_not_leak_into_components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCD_NAME", "surprise")
    bench = Bench(tmp_path)

    async def main() -> None:
        await bench.start(script("env", "import os,time; print(sorted(os.environ), flush=True); time.sleep(99)"))
        await bench.until(lambda: "HOME" in tail(bench.log("env")))
        await bench.supervisor.stop()

    asyncio.run(main())
    assert "ETCD_NAME" not in tail(bench.log("env"))


def test_children_die_with_a_supervisor_that_is_killed(
    tmp_path: Path, start_python: Callable[[str], subprocess.Popen[str]]
) -> None:
    owner = start_python(f"""
        import asyncio, sys
        from pathlib import Path
        from seatrial.model.control_plane import Component
        from seatrial.clusters.supervision.supervisor import Supervisor
        directory = Path({str(tmp_path)!r})
        async def main():
            supervisor = Supervisor(directory, lambda name: directory / name)
            sleeper = Component("sleeper", Path(sys.executable), ("-c", {SLEEP!r}))
            await supervisor.start([sleeper], {{"sleeper": Path(sys.executable)}})
            print(supervisor.pids["sleeper"], flush=True)
            await asyncio.sleep(99)
        asyncio.run(main())
    """)
    assert owner.stdout
    with owner:
        child = identify(int(owner.stdout.readline()))
        assert child
        owner.kill()
    assert eventually(lambda: not child.alive, 5)


def test_a_reused_pid_is_never_signalled() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as process:
        found = identify(process.pid)
        assert found
        stranger = ProcessId(found.pid, found.start - 1)
        assert not stranger.alive
        assert not stranger.send(signal.SIGKILL)
        assert found.alive
        assert not end(stranger, 0)
        process.kill()
