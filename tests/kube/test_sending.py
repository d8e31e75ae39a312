"""What a load does when the server says no, loses an answer or stops: played by a peer, recorded attempt by attempt."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from seatrial.clusters.requests import sending
from seatrial.clusters.requests.metrics_scraper import MetricsScraper
from seatrial.clusters.requests.request_templates import template_of
from seatrial.clusters.requests.sending import Sender
from seatrial.kube import Client, clock
from seatrial.kube.resources import CONFIGMAPS
from seatrial.model.labels import STUDY_LABEL
from seatrial.record.metrics import metrics
from seatrial.record.request_log import RequestLog, requests
from seatrial.scenario.actions.send_requests import Requester, Requests

MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-${i}"}, "data": {"where": "${namespace}"}}


def script(*answers: object) -> Callable[[str, str, bytes], object]:
    left = list(answers)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


def status(reason: str, message: str) -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": message}).encode()


def play(run: Any, peers: Any, answers: Any, directory: Path, **of: Any) -> tuple[pl.DataFrame, list[str], Any]:
    """Sends a phase to a peer: what was recorded, why it was broken off, and what the peer saw."""
    phase = Requests(**{"name": "load", "verb": "create", "objects": (MANIFEST,), "count": 1, **of})
    stopped: list[str] = []
    log = RequestLog(directory)

    async def story() -> Any:
        async with peers.client(answers, connections=max(1, phase.workers)) as (client, peer):
            assert isinstance(client, Client)
            template = template_of(phase, MANIFEST, CONFIGMAPS, {STUDY_LABEL: "s"})
            await Sender(phase, [template], client, ["ns-0", "ns-1"], log, clock(), stopped.append).run()
            return peer

    peer = run(story())
    log.close()
    return requests(directory), stopped, peer


def test_a_rejected_request_is_sent_again_when_the_server_says_and_both_are_recorded(
    run: Any, peers: Any, tmp_path: Path
) -> None:
    busy = peers.http(429, b"Too many requests, please try again later.\n", "Retry-After: 1")
    rows, stopped, peer = play(run, peers, script(busy, peers.http(201)), tmp_path)
    assert rows.select("code", "attempt", "retry_after_s").rows() == [(429, 1, 1.0), (201, 2, -1.0)]
    first, second = rows.iter_rows(named=True)
    assert second["sent_ns"] - (first["at_ns"] + first["took_ns"]) >= 1_000_000_000
    assert not stopped
    assert len(peer.asked) == 2


def test_without_retry_a_rejected_request_stays_rejected(run: Any, peers: Any, tmp_path: Path) -> None:
    busy = peers.http(429, b"", "Retry-After: 1")
    rows, _, peer = play(run, peers, script(busy), tmp_path, count=3, retry=False)
    assert rows["code"].to_list() == [429, 429, 429]
    assert len(peer.asked) == 3


def test_a_create_whose_answer_was_lost_counts_as_done_when_the_object_is_there(
    run: Any, peers: Any, tmp_path: Path
) -> None:
    there = peers.http(409, status("AlreadyExists", "it is there"))
    rows, stopped, _ = play(run, peers, script(peers.cut, there), tmp_path)
    assert rows["code"].to_list() == [0, 409]
    assert "lost" in rows["reason"][0]
    assert not stopped


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("etcdserver: mvcc: database space exceeded", "etcd is out of space"),
        ('failed calling webhook "hold.seatrial.dev": connection refused', "our webhook could not be reached"),
    ],
)
def test_what_no_retry_will_change_ends_the_phase_with_its_name(
    run: Any, peers: Any, tmp_path: Path, said: str, why: str
) -> None:
    full = peers.http(500, status("InternalError", said))
    rows, [stopped], peer = play(run, peers, script(peers.http(201), full), tmp_path, count=50)
    assert why in stopped
    assert rows["code"].to_list() == [201, 500]
    assert len(peer.asked) == 2


@pytest.mark.parametrize("much", [{"count": 50}, {"count": None, "lasting": 400_000_000}])
def test_a_server_that_stops_answering_ends_the_phase_with_what_was_done(
    run: Any, peers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, much: dict[str, Any]
) -> None:
    monkeypatch.setattr(sending, "ANSWER_S", 0.6)
    monkeypatch.setattr(sending, "STOPPED_S", 0.5)
    rows, [stopped], _ = play(run, peers, script(peers.http(201), peers.silence), tmp_path, **much)
    assert "settled nothing" in stopped
    assert rows["code"][0] == 201
    assert set(rows["code"][1:]) == {0}


def test_all_pages_of_a_list_are_fetched(run: Any, peers: Any, tmp_path: Path) -> None:
    pages = [
        peers.http(200, json.dumps({"metadata": {"continue": place}, "items": []}).encode()) for place in ("x", "y", "")
    ]
    rows, _, peer = play(run, peers, script(*pages), tmp_path, verb="list", limit=2)
    assert rows["code"].to_list() == [200, 200, 200]
    assert [path.partition("&continue=")[2] for path in peer.asked] == ["", "x", "y"]


def test_in_an_open_loop_latency_counts_from_when_a_request_was_due(run: Any, peers: Any, tmp_path: Path) -> None:
    """Ten requests due within a hundredth of a second, over one server that takes 20 ms for each."""

    def slow(*_: object) -> bytes:
        time.sleep(0.02)
        answer: bytes = peers.http(201)
        return answer

    rows, _, _ = play(run, peers, slow, tmp_path, count=10, per_s=1000.0)
    due, took = rows["at_ns"].to_list(), rows["took_ns"].to_list()
    assert max(due) - min(due) < 15_000_000
    assert max(took) >= 180_000_000


def test_phases_are_recorded_under_their_identity_and_resource(run: Any, peers: Any, tmp_path: Path) -> None:
    rows, _, peer = play(
        run, peers, script(peers.http(201)), tmp_path, count=4, namespaces=2, identity=Requester("tenant")
    )
    assert rows.select("identity", "verb", "resource", "phase", "seen_by").unique().rows() == [
        ("tenant", "create", "configmaps", "load", "client")
    ]
    assert sorted(peer.asked) == [f"POST /api/v1/namespaces/ns-{n}/configmaps" for n in (0, 0, 1, 1)]


def test_a_server_that_forbids_its_metrics_is_measured_from_the_client_alone_and_that_is_said(
    run: Any, peers: Any, tmp_path: Path
) -> None:
    async def story() -> dict[str, str]:
        async with peers.client(script(peers.http(403, status("Forbidden", "no")))) as (client, peer):
            measuring = MetricsScraper(tmp_path, {"kube-apiserver": client}, dict, 1.0)
            measuring.epoch = clock()
            await measuring.look()
            await measuring.look()
            assert len(peer.asked) == 1
            await measuring.finish()
            return measuring.refused

    assert run(story()) == {"kube-apiserver": "403 Reason"}
    assert set(metrics(tmp_path)["source"]) == {"machine", "client"}
