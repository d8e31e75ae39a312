"""A phase of requests or submissions from three machines: each item once, each machine its share, on one clock.

What answers is a web server that remembers who asked for what; `test_load_machines` asks a real API server.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from seatrial import stacks
from seatrial.clusters.live.shared_submissions import SharedSubmissions
from seatrial.clusters.requests.load_machines import LoadMachines
from seatrial.clusters.requests.request_templates import template_of
from seatrial.clusters.requests.sending import PhaseProgress
from seatrial.kube import Access, Client, ClientIdentity, clock
from seatrial.kube.credentials import Credentials
from seatrial.kube.resources import CONFIGMAPS
from seatrial.machines.clock_offset import ClockOffset, clock_offset
from seatrial.machines.connection import connected
from seatrial.model.interfaces import Tally
from seatrial.model.load import Load
from seatrial.model.plan import Pace, PodShape, Setup, Workload
from seatrial.model.units import SECOND
from seatrial.record.request_log import requests
from seatrial.scenario.actions.send_requests import Requests
from tests.ray_nodes import RayNodes, ray_of

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one-${i}"}, "data": {"a": "b"}}
OPEN = Requests("fill", "create", (OBJECT,), 301, per_s=100.0)
SHAPE = PodShape({"cpu": 10})
CLOSED = Requests("look", "get", (OBJECT,), 500, workers=7)


class Remembering(BaseHTTPRequestHandler):
    """Answers everything with 201 or 200."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, str, str]]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(201)

    def do_GET(self) -> None:
        self._answer(200)

    def _answer(self, code: int) -> None:
        self.seen.append((self.command, self.path, self.headers["User-Agent"]))
        self.send_response(code)
        self.send_header("Content-Length", "2")
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Remembering.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Remembering) as found:
        found.daemon_threads = True
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def three() -> Iterator[RayNodes]:
    with ray_of({"num_cpus": 0}, *[{"num_cpus": 1}] * 3) as nodes:
        yield nodes


async def _sent(folder: Path, port: int, phase: Requests) -> tuple[Tally, LoadMachines, PhaseProgress]:
    stopped: list[str] = []
    machines = LoadMachines(3, folder, stopped.append)
    progress = PhaseProgress()
    access = Access("127.0.0.1", port, Credentials(), tls=False)
    client = Client(access, connections=1, identity=ClientIdentity("client", "seatrial-load"))
    await machines.start()
    try:
        templates = [template_of(phase, OBJECT, CONFIGMAPS, {})]
        tally = await machines.run(phase, templates, client, ["default"], clock(), progress)
        assert not stopped
        return tally, machines, progress
    finally:
        await machines.stop()
        await client.close()


def test_an_open_loop_from_three_machines_is_the_load_of_one_client(
    tmp_path: Path, three: RayNodes, server: ThreadingHTTPServer
) -> None:
    with connected(three.address, [], 1):
        tally, machines, progress = asyncio.run(_sent(tmp_path, server.server_address[1], OPEN))
    names = Counter(path.rpartition("/")[2] for _, path, _ in Remembering.seen)
    assert names == {"configmaps": 301}
    assert Counter(agent for *_, agent in Remembering.seen) == {
        "seatrial-load machine-0": 101, "seatrial-load machine-1": 100, "seatrial-load machine-2": 100,
    }  # fmt: skip
    assert (tally.count, progress.requests, progress.done) == (301, 301, 301)
    assert tally.wanted_ns == pytest.approx(3e9)
    recorded = requests(tmp_path)
    assert len(recorded) == 301
    # Due one after another on one clock: the machines' offsets are known to a part of the 10 ms between two items.
    due = recorded["at_ns"].sort().to_list()
    steps = [(b - a) / 1e6 for a, b in pairwise(due)]
    error = max(row["clock_error_ms"] for row in machines.rows)
    assert all(abs(step - 10) <= 2 * error + 0.01 for step in steps)
    assert [row["requests"] for row in machines.rows] == [101, 100, 100]
    assert sum(row["share"] for row in machines.rows) == pytest.approx(1)
    assert all(abs(row["clock_offset_ms"]) <= row["clock_error_ms"] for row in machines.rows), "one machine, one clock"


def test_a_closed_loop_asks_for_each_item_once_with_the_workers_split(
    tmp_path: Path, three: RayNodes, server: ThreadingHTTPServer
) -> None:
    with connected(three.address, [], 1):
        tally, machines, progress = asyncio.run(_sent(tmp_path, server.server_address[1], CLOSED))
    names = Counter(path.rpartition("/")[2] for _, path, _ in Remembering.seen)
    assert names == {f"one-{n}": 1 for n in range(500)}
    assert (tally.count, progress.requests, len(requests(tmp_path))) == (500, 500, 500)
    assert [row["wanted_per_s"] for row in machines.rows] == [None] * 3


def test_the_shortest_of_many_round_trips_says_how_well_a_clock_is_known() -> None:
    times = iter([0, 100, 200, 210, 300, 500])
    theirs = iter([1050, 1204, 1350])
    found = clock_offset(lambda: next(theirs), lambda: next(times), questions=3)
    assert found == ClockOffset(offset=999, error=5)
    assert found.ours(found.theirs(7)) == 7
    later: Any = ClockOffset(offset=1009, error=3)
    assert found.drifted(later) == ClockOffset(offset=999, error=15)


def test_every_stack_can_be_sent_to_a_machine_that_submits_its_workloads() -> None:
    for name in stacks.settings():
        stack = stacks.find(name)
        again = pickle.loads(pickle.dumps(stack))
        assert again.name == name
        assert type(again.real) is type(stack.real)


class Trial:
    """As much of a trial as submissions need."""

    def __init__(self, folder: Path, port: int) -> None:
        self.known: list[str] = []
        self.submitted: list[str] = []
        self.answered: list[str] = []
        access = Access("127.0.0.1", port, Credentials(), tls=False)
        client = Client(access, connections=1, identity=ClientIdentity("client", "seatrial"))
        self.session = _as_session(
            client=client, study="study", namespace="ours", stack=stacks.find("default"),
            ledger=SimpleNamespace(phase=lambda _: 0),
            observer=SimpleNamespace(workload=lambda name, *_: self.submitted.append(name)),
            trial=SimpleNamespace(setup=Setup("three", "default", ())),
        )  # fmt: skip
        self.machines = LoadMachines(3, folder, pytest.fail)
        self.shared = SharedSubmissions(self.session, self.machines, self._know, self._answer)

    def _know(self, item: Workload, _: int) -> tuple[int, Workload]:
        self.known.append(item.name)
        return len(self.known) - 1, item

    def _answer(self, number: int, workload: Workload, _: int, why: str, __: int) -> None:
        assert self.known[number] == workload.name and not why
        self.answered.append(workload.name)


def _as_session(**parts: Any) -> Any:
    return SimpleNamespace(**parts)


def _load(count: int, per_s: float) -> Load:
    due = (np.arange(count) * (SECOND / per_s)).astype(np.int64)
    item = lambda n: Workload(f"job-{n}", "load", n, 1, SHAPE, SECOND)  # noqa: E731
    return Load("load", count, Pace("rate", per_s), due, item)


def test_what_was_sent_before_an_interruption_is_known_each_workload_once(
    tmp_path: Path, three: RayNodes, server: ThreadingHTTPServer
) -> None:
    trial = Trial(tmp_path, server.server_address[1])

    async def interrupted() -> None:
        await trial.machines.start()
        loading = asyncio.create_task(trial.shared.load(_load(100_000, 30)))
        while len(trial.answered) < 20:
            assert not loading.done()
            await asyncio.sleep(0.05)
        loading.cancel()
        with suppress(asyncio.CancelledError):
            await loading
        await trial.machines.stop()
        await trial.session.client.close()

    with connected(three.address, [], 1):
        asyncio.run(interrupted())
    # The server has seen no workload that the trial does not know as submitted, however late an answer was.
    assert len(trial.answered) == len(set(trial.answered)) >= 20
    assert set(trial.answered) <= set(trial.submitted)
    assert len(trial.answered) <= len(Remembering.seen) <= len(set(trial.submitted))
    assert {path for _, path, _ in Remembering.seen} == {"/apis/batch/v1/namespaces/ours/jobs"}


def test_a_round_begins_when_all_machines_have_their_answers(
    tmp_path: Path, three: RayNodes, server: ThreadingHTTPServer
) -> None:
    trial = Trial(tmp_path, server.server_address[1])
    rounds = replace(_load(8, 1), due=None, pace=Pace("rounds", size=3, every=SECOND // 2))

    async def submitted() -> None:
        await trial.machines.start()
        tally = await trial.shared.load(rounds)
        assert (tally.count, tally.wanted_ns) == (8, tally.took_ns)
        assert tally.took_ns > SECOND // 2  # two pauses, less what the first request was late by
        await trial.machines.stop()
        await trial.session.client.close()

    with connected(three.address, [], 1):
        asyncio.run(submitted())
    assert sorted(trial.answered) == [f"job-{n}" for n in range(8)]
    agents = [agent.rpartition(" ")[2] for *_, agent in Remembering.seen]
    assert [sorted(agents[first : first + 3]) for first in (0, 3)] == [["machine-0", "machine-1", "machine-2"]] * 2
    assert [row["requests"] for row in trial.machines.rows] == [3, 3, 2]
