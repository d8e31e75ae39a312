"""The verbs on a real API server, and that it counts what we count."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from seatrial.kube import Answer, ApiProblem, Client, ClientIdentity, Impersonation, Mark, Request, RetryPolicy, Status
from seatrial.kube import resources as api
from seatrial.kube.resources import APPLY, CONFIGMAPS, JOBS, JSON_PATCH, NAMESPACES, PODS, SECRETS, STRATEGIC
from seatrial.kube.reviews import allowed, whoami
from seatrial.kube.shapes import Job, Object, Pod
from seatrial.model.errors import UsageProblem

pytestmark = pytest.mark.local

MARK = Mark("seatrial.dev/run", "these-tests")
_names = itertools.count()


class ConfigMap(Object):
    data: dict[str, str] = msgspec.field(default_factory=dict)


def configmap(name: str, **data: str) -> dict[str, Any]:
    labels = {MARK.key: MARK.value}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data}


@asynccontextmanager
async def namespaced(control_plane: Any, **settings: Any) -> AsyncIterator[tuple[Client, str]]:
    """A client and a namespace of its own."""
    name = f"kube-{next(_names)}"
    async with Client(control_plane.access, mark=MARK, **settings) as client:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await client.create(NAMESPACES, namespace, name)
        yield client, name
        await client.delete(NAMESPACES, name)


def test_the_server_tells_its_version(run: Any, control_plane: Any) -> None:
    async def story() -> str:
        async with Client(control_plane.access) as client:
            return await client.probe()

    assert run(story()) == "v1.36.3"


def test_the_life_of_an_object(run: Any, control_plane: Any) -> None:
    async def story() -> None:
        async with namespaced(control_plane) as (client, ns):
            made = await client.create(CONFIGMAPS, configmap("a", x="1"), "a", ns)
            assert made.name == "a"
            assert (await client.get(CONFIGMAPS, "a", ns, shape=ConfigMap)).data == {"x": "1"}
            await client.replace(CONFIGMAPS, configmap("a", x="2"), "a", ns)
            await client.patch(CONFIGMAPS, {"data": {"y": "1"}}, "a", ns)
            await client.patch(CONFIGMAPS, {"data": {"z": "1"}}, "a", ns, how=STRATEGIC)
            await client.patch(CONFIGMAPS, [{"op": "remove", "path": "/data/y"}], "a", ns, how=JSON_PATCH)
            await client.patch(CONFIGMAPS, {**configmap("a", w="1")}, "a", ns, how=APPLY)
            found = await client.find(CONFIGMAPS, "a", ns, shape=ConfigMap)
            assert found is not None
            assert found.data == {"x": "2", "z": "1", "w": "1"}
            await client.delete(CONFIGMAPS, "a", ns)
            assert await client.find(CONFIGMAPS, "a", ns, shape=ConfigMap) is None
            await client.delete(CONFIGMAPS, "a", ns)  # gone is gone

    run(story())


def test_lists_come_in_pages_and_by_label(run: Any, control_plane: Any) -> None:
    async def story() -> None:
        async with namespaced(control_plane, connections=4) as (client, ns):
            names = [f"cm-{i:02}" for i in range(25)]
            await asyncio.gather(*(client.create(CONFIGMAPS, configmap(n), n, ns) for n in names))
            selector = f"{MARK.key}={MARK.value}"
            pages = [p async for p in client.pages(CONFIGMAPS, ns, shape=Object, limit=10, labelSelector=selector)]
            assert [len(page.items) for page in pages] == [10, 10, 5]
            assert [o.metadata.name for p in pages for o in p.items] == names
            assert len({page.metadata.resource_version for page in pages}) == 1
            cached = await client.list(CONFIGMAPS, ns, shape=Object, labelSelector=selector, resourceVersion="0")
            assert len(cached.items) <= 25
            await client.delete_collection(CONFIGMAPS, ns, labelSelector=selector)
            assert not (await client.list(CONFIGMAPS, ns, shape=Object, labelSelector=selector)).items

    run(story())


def test_an_object_of_our_run_that_is_there_already_counts_as_created(run: Any, control_plane: Any) -> None:
    async def story() -> None:
        async with namespaced(control_plane) as (client, ns):
            request = api.create(CONFIGMAPS, configmap("a"), "a", ns)
            first, second = await client.send(request), await client.send(request)
            assert (first.code, first.found, second.code, second.found) == (201, False, 201, True)
            foreign = configmap("b")
            foreign["metadata"]["labels"] = {}
            await client.create(CONFIGMAPS, foreign, "b", ns)
            with pytest.raises(ApiProblem, match="409 AlreadyExists") as caught:
                await client.create(CONFIGMAPS, configmap("b"), "b", ns)
            assert "seatrial clean" in caught.value.remedy

    run(story())


def test_the_servers_words_come_through(run: Any, control_plane: Any) -> None:
    async def story() -> None:
        async with namespaced(control_plane) as (client, ns):
            with pytest.raises(ApiProblem) as caught:
                await client.create(CONFIGMAPS, configmap("Not_A_Name"), "Not_A_Name", ns)
            assert (caught.value.code, caught.value.reason) == (422, "Invalid")
            assert caught.value.details is not None
            assert caught.value.details.causes[0].field == "metadata.name"
            stale = configmap("a")
            made = await client.create(CONFIGMAPS, stale, "a", ns)
            await client.patch(CONFIGMAPS, {"data": {"x": "1"}}, "a", ns)
            stale["metadata"]["resourceVersion"] = made.resource_version
            with pytest.raises(ApiProblem, match="409 Conflict"):
                await client.replace(CONFIGMAPS, stale, "a", ns)

    run(story())


def test_kinds_are_found_by_their_names(run: Any, control_plane: Any) -> None:
    async def story() -> None:
        async with Client(control_plane.access) as client:
            assert await client.resource_of("batch/v1", "Job") == JOBS
            assert await client.resource_of("v1", "Namespace") == NAMESPACES
            with pytest.raises(UsageProblem, match="did you mean 'Pod'"):
                await client.resource_of("v1", "Pot")
            with pytest.raises(UsageProblem, match=r"does not know 'nothing\.example/v1'"):
                await client.resource_of("nothing.example/v1", "Thing")

    run(story())


def test_our_shapes_fit_what_the_server_sends(run: Any, control_plane: Any) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "5m", "memory": 1000}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
           "spec": {"completions": 2, "parallelism": 2, "suspend": True, "template": template}}  # fmt: skip
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}

    async def story() -> None:
        async with namespaced(control_plane) as (client, ns):
            await client.create(JOBS, job, "j", ns)
            got = await client.get(JOBS, "j", ns, shape=Job)
            assert (got.spec.completions, got.spec.suspend, got.status.succeeded) == (2, True, 0)
            for _ in range(100):  # its service account is made by a controller
                answer = await client.send(api.create(PODS, pod, "p", ns))
                if answer.code == 201:
                    break
                await asyncio.sleep(0.1)
            seen = await client.get(PODS, "p", ns, shape=Pod)
            assert seen.status.phase == "Pending"
            assert seen.spec.containers[0].resources.requests == {"cpu": "5m", "memory": "1k"}
            assert seen.spec.scheduler_name == "default-scheduler"

    run(story())


def test_one_acts_as_another_and_the_server_knows_it(run: Any, control_plane: Any) -> None:
    async def story() -> None:
        async with Client(control_plane.access) as client:
            us = await whoami(client)
            assert us.user == "seatrial"
            assert abs(us.clock_off) < 1
            assert await allowed(client, "create", PODS)
            jane = client.acting_as(ClientIdentity("phase", "phase/1", Impersonation("jane", groups=("dev",))))
            them = await whoami(jane)
            assert (them.user, set(them.groups)) == ("jane", {"dev", "system:authenticated"})
            assert not await allowed(jane, "create", PODS, "default")
            with pytest.raises(ApiProblem, match="403 Forbidden"):
                await jane.list(SECRETS, "default", shape=Object)

    run(story())


def test_every_create_is_there_exactly_once_and_was_observed(run: Any, control_plane: Any) -> None:
    rows: Counter[tuple[str, str, int, int]] = Counter()

    def observe(request: Request, number: int, _start: int, answer: Answer | None, _failure: Status | None) -> None:
        assert answer
        rows[request.verb, request.resource, number, answer.code] += 1

    async def story() -> None:
        async with namespaced(control_plane, connections=16) as (client, ns):
            loader = client.acting_as(ClientIdentity("load"), observe=observe)
            left = iter(range(500))

            async def work() -> None:
                for i in left:
                    request = api.create(CONFIGMAPS, configmap(f"cm-{i}"), f"cm-{i}", ns, keep=False)
                    assert (await loader.send(request)).code == 201

            await asyncio.gather(*(work() for _ in range(16)))
            selector = f"{MARK.key}={MARK.value}"
            there = await client.list(CONFIGMAPS, ns, shape=Object, labelSelector=selector)
            assert sorted(o.metadata.name for o in there.items) == sorted(f"cm-{i}" for i in range(500))

    run(story())
    assert rows == {("create", "configmaps", 1, 201): 500}


def test_creates_outlive_an_api_server_that_is_killed(control_plane: Any) -> None:
    async def story() -> None:
        async with namespaced(control_plane, connections=8) as (client, ns):
            left = iter(range(600))
            codes: Counter[int] = Counter()

            async def work() -> None:
                for i in left:
                    if i == 200:
                        control_plane.kill("kube-apiserver")
                    body = configmap(f"cm-{i}")
                    answer = await client.send(api.create(CONFIGMAPS, body, f"cm-{i}", ns, keep=False))
                    codes[answer.code] += 1

            await asyncio.gather(*(work() for _ in range(8)))
            assert codes == {201: 600}
            selector = f"{MARK.key}={MARK.value}"
            there = await client.list(CONFIGMAPS, ns, shape=Object, labelSelector=selector)
            assert len({o.metadata.name for o in there.items}) == len(there.items) == 600

    asyncio.run(story())


@pytest.mark.slow
def test_a_server_that_is_too_busy_is_obeyed_and_nothing_is_lost(clusters: Any) -> None:
    limited = clusters("busy", "--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=4")
    codes: Counter[int] = Counter()
    reasons: Counter[str] = Counter()

    def observe(request: Request, _number: int, _start: int, answer: Answer | None, failure: Status | None) -> None:
        if request.verb == "create":
            codes[answer.code if answer else 0] += 1
            reasons[failure.reason if failure else ""] += 1

    async def story() -> list[float]:
        async with namespaced(limited, connections=48, retry=RetryPolicy(seconds=120)) as (client, ns):
            loader = client.acting_as(ClientIdentity("load"), observe=observe)
            names = [f"cm-{i}" for i in range(400)]
            requests = [api.create(CONFIGMAPS, configmap(n), n, ns, keep=False) for n in names]
            answers = await asyncio.gather(*(loader.send(request) for request in requests))
            assert {answer.code for answer in answers} == {201}
            there = await client.list(CONFIGMAPS, ns, shape=Object, labelSelector=f"{MARK.key}={MARK.value}")
            assert sorted(one.metadata.name for one in there.items) == sorted(names)
            return [(a.done - a.intended) / 1e9 for a in answers if a.attempts > 1]

    delayed = asyncio.run(story())
    assert codes[201] == 400
    assert codes[429] > 0
    assert set(codes) == {201, 429}
    assert reasons["Too Many Requests"] == codes[429]
    assert delayed
    assert min(delayed) >= 1.0  # Retry-After: 1
