"""A phase of requests from three machines: each item once, each machine its share, at the rate of one client, on one clock.

What answers is a web server that remembers who asked for what; `test_load_machines` asks a real API server.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest

from seatrial import stacks
from seatrial.clusters.requests.load_machines import LoadMachines
from seatrial.clusters.requests.request_templates import template_of
from seatrial.clusters.requests.sending import PhaseProgress
from seatrial.kube import Access, Client, ClientIdentity, clock
from seatrial.kube.credentials import Credentials
from seatrial.kube.resources import CONFIGMAPS
from seatrial.machines.clock_offset import ClockOffset, clock_offset
from seatrial.machines.connection import connected
from seatrial.model.interfaces import Tally
from seatrial.record.requests import requests
from seatrial.scenario.actions.send_requests import Requests
from tests.ray_nodes import RayNodes, ray_of

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one-${i}"}, "data": {"a": "b"}}
OPEN = Requests("fill", "create", (OBJECT,), 301, per_s=100.0)
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
