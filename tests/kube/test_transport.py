"""Faults that a real API server cannot be made to show, played by a peer over TLS, on both event loops."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from seatrial.kube import (
    Answer,
    ApiProblem,
    Client,
    ClientIdentity,
    ConnectionPool,
    Impersonation,
    Lost,
    Mark,
    RetryPolicy,
    Status,
    Unreachable,
)
from seatrial.kube import resources as api
from seatrial.kube.credentials import Credentials
from seatrial.kube.resources import CONFIGMAPS, Request
from seatrial.kube.retrying import NO_RETRY
from seatrial.kube.shapes import Object


class Row(NamedTuple):
    """One attempt as the observer saw it."""

    number: int
    duration: int
    verb: str
    resource: str
    code: int
    reason: str


QUICK = RetryPolicy(seconds=5.0, first=0.01, longest=0.05, busy=0.01)
MARK = Mark("seatrial.dev/run", "r1")
GET = Request("get", "configmaps", "GET", "/api/v1/namespaces/ns/configmaps/a")
OURS = json.dumps({"metadata": {"name": "a", "labels": {MARK.key: MARK.value}}}).encode()
FOREIGN = json.dumps({"metadata": {"name": "a", "labels": {MARK.key: "another"}}}).encode()
EXISTS = json.dumps({"kind": "Status", "reason": "AlreadyExists", "code": 409, "message": "a is there"}).encode()


def create(name: str = "a") -> Request:
    return api.create(CONFIGMAPS, {"metadata": {"name": name}}, name, "ns", keep=False)


def script(*answers: object) -> Callable[[str, str, bytes], object]:
    """These answers one after another; the last again and again."""
    left = list(answers)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


def play(run: Any, peers: Any, answers: Callable[[str, str, bytes], object], request: Request, **more: Any) -> Any:
    """Sends one request to a peer; gives the answer or what was raised, what the peer saw, and what we recorded."""
    rows: list[Row] = []

    def observe(asked: Request, number: int, start: int, answer: Answer | None, failure: Status | None) -> None:
        duration, code = (answer.done - start, answer.code) if answer else (0, 0)
        rows.append(Row(number, duration, asked.verb, asked.resource, code, failure.reason if failure else ""))

    async def story() -> tuple[Any, Any]:
        async with peers.start(answers) as peer:
            settings = {"retry": QUICK, "mark": MARK, "observe": observe, **more}
            async with Client(peers.access(peer), **settings) as client:
                try:
                    return await client.send(request), peer
                except (Lost, Unreachable) as error:
                    return error, peer

    answer, peer = run(story())
    return answer, peer, rows


def test_a_429_is_waited_out_for_as_long_as_the_server_says(run: Any, peers: Any) -> None:
    busy = peers.http(429, b"Too many requests, please try again later.\n", "Retry-After: 1")
    begin = time.monotonic()
    answer, peer, rows = play(run, peers, script(busy, peers.http(201)), create())
    assert time.monotonic() - begin >= 1.0
    assert (answer.code, answer.attempts, peer.asked) == (201, 2, [f"POST {CONFIGMAPS.path('ns')}"] * 2)
    assert [(row.number, row.verb, row.resource, row.code) for row in rows] == [
        (1, "create", "configmaps", 429),
        (2, "create", "configmaps", 201),
    ]
    assert answer.done - answer.intended >= 1e9  # the wait is part of the latency that the load's caller sees
    assert rows[1].duration < 0.9e9  # and not of the second request's own


def test_a_create_in_conflict_over_a_quota_is_sent_again(run: Any, peers: Any) -> None:
    status = {
        "kind": "Status",
        "reason": "Conflict",
        "code": 409,
        "message": 'resourcequotas "q" was modified; try again',
    }
    conflict = peers.http(409, json.dumps(status).encode())
    answer, peer, _ = play(run, peers, script(conflict, conflict, peers.http(201)), create())
    assert (answer.code, answer.attempts, peer.asked) == (201, 3, [f"POST {CONFIGMAPS.path('ns')}"] * 3)
    answer, _, _ = play(
        run, peers, script(conflict), create(), retry=RetryPolicy(seconds=5.0, first=0.01, internal=0.1)
    )
    assert answer.code == 409


def test_a_server_that_was_away_for_long_is_given_time_to_know_its_roles(run: Any, peers: Any) -> None:
    policy = RetryPolicy(seconds=10.0, first=0.3, longest=0.3, internal=0.5)
    answers = script(peers.cut, peers.cut, peers.cut, peers.http(403), peers.http(200))
    answer, peer, _ = play(run, peers, answers, GET, retry=policy)
    assert (answer.code, len(peer.asked)) == (200, 5)


def test_patience_ends_and_the_last_429_is_what_one_gets(run: Any, peers: Any) -> None:
    busy = peers.http(429, b"{}", "Retry-After: 100")
    answer, peer, rows = play(run, peers, script(busy), create())
    assert (answer.code, answer.retry_after, len(peer.asked)) == (429, 100.0, 1)
    assert rows[0].reason == "Reason"


@pytest.mark.parametrize("request_", [GET, api.delete(CONFIGMAPS, "a", "ns"), api.patch(CONFIGMAPS, {}, "a", "ns")])
def test_what_can_be_repeated_is_repeated_after_a_lost_connection(run: Any, peers: Any, request_: Request) -> None:
    answer, peer, rows = play(run, peers, script(peers.cut, peers.http(503), peers.http(200)), request_)
    assert (answer.code, len(peer.asked)) == (200, 3)
    assert [row.code for row in rows] == [0, 503, 200]
    assert "connection was lost before an answer came" in rows[0].reason


def test_a_create_whose_answer_was_lost_is_looked_up_and_not_repeated(run: Any, peers: Any) -> None:
    answer, peer, _ = play(run, peers, script(peers.cut, peers.http(200, OURS)), create())
    assert (answer.code, answer.found) == (201, True)
    assert [asked.split()[0] for asked in peer.asked] == ["POST", "GET"]


def test_a_create_that_did_not_arrive_is_sent_again(run: Any, peers: Any) -> None:
    answers = script(peers.cut, peers.http(404), peers.http(201))
    answer, peer, _ = play(run, peers, answers, create())
    assert (answer.code, answer.found) == (201, False)
    assert [asked.split()[0] for asked in peer.asked] == ["POST", "GET", "POST"]


def test_a_create_that_was_still_under_way_when_we_looked_counts_once(run: Any, peers: Any) -> None:
    answers = script(peers.cut, peers.http(404), peers.http(409, EXISTS), peers.http(200, OURS))
    answer, _, rows = play(run, peers, answers, create())
    assert (answer.code, answer.found) == (201, True)
    assert [row.code for row in rows] == [0, 404, 409, 200]
    assert rows[2].reason == "AlreadyExists"


def test_a_500_leaves_it_open_whether_the_object_was_made(run: Any, peers: Any) -> None:
    answer, _, _ = play(run, peers, script(peers.http(500), peers.http(200, OURS)), create())
    assert (answer.code, answer.found) == (201, True)


def test_whose_object_is_there_is_asked_until_the_server_tells(run: Any, peers: Any) -> None:
    """It was created by a run that was killed; the server dies when it is asked for it, and comes back without its roles."""
    exists, forbidden = peers.http(409, EXISTS), peers.http(403)
    answers = script(exists, peers.cut, exists, forbidden, exists, peers.http(200, OURS))
    answer, peer, _ = play(run, peers, answers, create())
    assert (answer.code, answer.found) == (201, True)
    assert [asked.split()[0] for asked in peer.asked] == ["POST", "GET"] * 3
    answer, peer, _ = play(run, peers, script(exists, peers.http(404), peers.http(201)), create())
    assert (answer.code, answer.found) == (201, False)


def test_a_server_that_went_while_nobody_asked_may_have_forgotten_its_roles(run: Any, peers: Any) -> None:
    """It closes an idle connection, is back before the next request, and refuses everyone at first."""
    answers = script(peers.http(200, b"CUT"), peers.http(403), peers.http(201))

    async def story() -> tuple[int, int]:
        async with peers.client(answers) as (client, peer):
            assert (await client.send(GET)).code == 200
            await asyncio.sleep(0.1)
            return (await client.send(create())).code, peer.connections

    assert run(story()) == (201, 2)


def test_an_object_of_someone_else_is_not_taken_for_ours(run: Any, peers: Any) -> None:
    for first in (peers.cut, peers.http(409, EXISTS)):
        answer, _, _ = play(run, peers, script(first, peers.http(200, FOREIGN)), create())
        assert (answer.code, answer.found) == (409, False)
        assert ApiProblem.of(answer.code, answer.body, "create").reason == "AlreadyExists"


def test_without_a_mark_nothing_is_taken_for_ours(run: Any, peers: Any) -> None:
    answer, peer, _ = play(run, peers, script(peers.cut, peers.http(200, OURS)), create(), mark=None)
    assert (answer.code, answer.found) == (409, False)
    answer, peer, _ = play(run, peers, script(peers.http(409, EXISTS)), create(), mark=None)
    assert (answer.code, len(peer.asked)) == (409, 1)


def test_a_create_without_a_name_is_never_repeated(run: Any, peers: Any) -> None:
    answer, peer, _ = play(run, peers, script(peers.cut), api.create(CONFIGMAPS, {}, "", "ns"))
    assert isinstance(answer, Lost)
    assert len(peer.asked) == 1
    busy = peers.http(429, b"", "Retry-After: 0")
    answer, peer, _ = play(run, peers, script(busy, peers.http(201)), api.create(CONFIGMAPS, {}, "", "ns"))
    assert (answer.code, len(peer.asked)) == (201, 2)  # a 429 did nothing


def test_a_delete_that_had_worked_is_not_an_error(run: Any, peers: Any) -> None:
    request = api.delete(CONFIGMAPS, "a", "ns")
    answer, _, _ = play(run, peers, script(peers.cut, peers.http(404)), request)
    assert (answer.code, answer.found) == (200, True)
    answer, _, _ = play(run, peers, script(peers.http(404)), request)
    assert answer.code == 404


def test_half_an_answer_is_lost_and_asked_for_again(run: Any, peers: Any) -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nCUT"
    answer, _, rows = play(run, peers, script(half, peers.http(200, b"whole")), GET)
    assert (answer.code, answer.body) == (200, b"whole")
    assert "in the middle of the answer" in rows[0].reason


def test_a_server_that_falls_silent_is_given_up_in_time(run: Any, peers: Any) -> None:
    begin = time.monotonic()
    answer, _, rows = play(run, peers, script(peers.silence), GET, timeout=0.3, retry=NO_RETRY)
    assert isinstance(answer, Lost)
    assert 0.3 <= time.monotonic() - begin < 2
    assert "no answer came in time" in rows[0].reason
    assert "GET /api/v1/namespaces/ns/configmaps/a" in answer.message


def test_garbage_is_lost_and_named(run: Any, peers: Any) -> None:
    answer, _, _ = play(run, peers, script(b"SSH-2.0-OpenSSH\r\n"), GET, retry=NO_RETRY)
    assert isinstance(answer, Lost)
    assert "not HTTP" in answer.why


def test_connection_close_is_obeyed_and_nothing_is_lost(run: Any, peers: Any) -> None:
    async def story() -> tuple[int, int]:
        async with peers.client(lambda *_: peers.http(200, b"{}", "Connection: close"), connections=2) as (
            client,
            peer,
        ):
            answers = await asyncio.gather(*(client.send(GET) for _ in range(10)))
            assert {a.code for a in answers} == {200}
            return sum(a.attempts for a in answers), peer.connections

    assert run(story()) == (10, 10)


def test_connections_are_reused_and_never_more_than_allowed(run: Any, peers: Any) -> None:
    async def story() -> int:
        async with peers.client(lambda *_: peers.http(200), connections=3) as (client, peer):
            await client.pool.open()
            await asyncio.gather(*(client.send(GET) for _ in range(60)))
            return int(peer.connections)

    assert run(story()) == 3


def test_a_cancelled_request_does_not_spoil_the_next_answer(run: Any, peers: Any) -> None:
    async def story() -> bytes:
        async with peers.client(script(peers.silence, peers.http(200, b"second")), connections=1) as (client, _):
            first = asyncio.ensure_future(client.send(GET))
            waiting = asyncio.ensure_future(client.send(GET))
            await asyncio.sleep(0.2)
            first.cancel()
            await asyncio.wait([first])
            return bytes((await waiting).body)

    assert run(story()) == b"second"


def test_waiting_for_a_connection_can_be_cancelled(run: Any, peers: Any) -> None:
    async def story() -> int:
        async with peers.client(lambda *_: peers.http(200), connections=1) as (client, _):
            for _ in range(30):
                tasks = [asyncio.ensure_future(client.send(GET)) for _ in range(5)]
                await asyncio.sleep(0)
                tasks[2].cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                assert sum(isinstance(d, asyncio.CancelledError) for d in done) == 1
            return int((await client.send(GET)).code)

    assert run(story()) == 200


def test_a_closed_client_says_so(run: Any, peers: Any) -> None:
    async def story() -> None:
        async with peers.start(lambda *_: peers.http(200)) as peer:
            pool = ConnectionPool(peers.access(peer))
            await pool.exchange(b"GET / HTTP/1.1\r\n\r\n")
            await pool.close()
            with pytest.raises(Unreachable, match="is closed"):
                await pool.exchange(b"GET / HTTP/1.1\r\n\r\n")

    run(story())


def test_stamps_are_in_order_and_count_from_the_intended_time(run: Any, peers: Any) -> None:
    async def story() -> Any:
        async with peers.client(lambda *_: peers.http(200), connections=1) as (client, _):
            due = client.clock() - 5_000_000
            return due, await client.send(GET, due)

    due, answer = run(story())
    assert answer.intended == due < answer.sent < answer.first <= answer.done


def test_each_identity_shows_itself(run: Any, peers: Any) -> None:
    async def story() -> list[str]:
        async with peers.start(lambda *_: peers.http(200)) as peer:
            access = peers.access(peer, Credentials(None, "Bearer t"), impersonate=Impersonation("default"))
            async with Client(access) as client:
                await client.send(GET)
                other = client.acting_as(ClientIdentity("b", "loader/2", Impersonation("jane", groups=("x", "y"))))
                await other.send(GET)
            return list(peer.heads)

    first, second = run(story())
    assert "User-Agent: seatrial\r\n" in first
    assert "Impersonate-User: default\r\n" in first
    assert "User-Agent: loader/2\r\n" in second
    assert "Authorization: Bearer t\r\n" in second
    assert "Impersonate-User: jane\r\nImpersonate-Group: x\r\nImpersonate-Group: y\r\n" in second


def test_every_attempt_is_logged_without_credentials(run: Any, peers: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        answers = script(peers.http(429, b"", "Retry-After: 0"), peers.http(200))
        async with (
            peers.start(answers) as peer,
            Client(peers.access(peer, Credentials(None, "Bearer secret"))) as client,
        ):
            await client.send(GET)

    with caplog.at_level("DEBUG", "seatrial.kube"):
        run(story())
    first, second = caplog.messages
    assert GET.path in first
    assert "429" in first
    assert ": 200 in " in second
    assert "attempt 2" in second
    assert "secret" not in caplog.text


def test_an_error_has_the_servers_own_words(run: Any, peers: Any) -> None:
    status = {
        "kind": "Status", "reason": "Invalid", "code": 422, "message": "ConfigMap is invalid",
        "details": {"name": "a", "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "data"}]},
    }  # fmt: skip

    async def story() -> ApiProblem:
        async with peers.client(lambda *_: peers.http(422, json.dumps(status).encode())) as (client, _):
            with pytest.raises(ApiProblem) as caught:
                await client.get(CONFIGMAPS, "a", "ns", shape=Object)
            return caught.value

    problem = run(story())
    assert (problem.code, problem.reason) == (422, "Invalid")
    assert problem.details is not None
    assert problem.details.causes[0].field == "data"
    assert "ConfigMap is invalid" in problem.message
    assert problem.remedy
