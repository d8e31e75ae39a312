"""Objects of a stack are created kind after kind, each where it belongs, and the set-up waits until they work."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from seatrial.clusters.access import applying
from seatrial.clusters.access.applying import apply, make_namespaces
from seatrial.kube import Client
from seatrial.kube.resources import LIMIT_RANGES, RESOURCE_QUOTAS, Resource
from seatrial.kube.shapes import Meta, Object
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import STUDY_LABEL


class Server:
    """Remembers what is created where. The status of an object is there from its third look on."""

    def __init__(self, status: str = "hard") -> None:
        self.made: list[tuple[str, str]] = []  # plural, namespace
        self.side_by_side = self.most = 0
        self._looks: dict[tuple[str, str], int] = {}
        self._status = status

    async def find(self, resource: Resource, _name: str, where: str = "", *, shape: type[Any]) -> Any:
        await asyncio.sleep(0)
        if resource.plural == "serviceaccounts":
            return Object()
        if (resource.plural, where) not in self.made:
            return None
        self._looks[resource.plural, where] = looks = self._looks.get((resource.plural, where), 0) + 1
        meta = Meta(labels={STUDY_LABEL: "x"})
        return Object(meta) if shape is Object else shape(meta, {self._status: {}} if looks > 2 else {})

    async def create(self, resource: Resource, _body: Any, name: str, where: str = "") -> None:
        self.side_by_side += 1
        self.most = max(self.most, self.side_by_side)
        await asyncio.sleep(0.001)
        self.side_by_side -= 1
        self.made.append((resource.plural, where or name))


def quotas(count: int) -> list[Manifest]:
    limits = [Manifest(LIMIT_RANGES, "queue", {}, namespace=f"team-{n}") for n in range(count)]
    return [*limits, *(Manifest(RESOURCE_QUOTAS, "queue", {}, ".hard", namespace=f"team-{n}") for n in range(count))]


def applied(server: Server, manifests: list[Manifest]) -> list[tuple[str, str]]:
    asyncio.run(apply(cast("Client", server), manifests, "own", "x", "default"))
    return server.made


def test_many_queues_are_made_side_by_side_kind_after_kind() -> None:
    server = Server()
    made = applied(server, quotas(40))
    assert [plural for plural, _ in made] == ["limitranges"] * 40 + ["resourcequotas"] * 40
    assert {where for _, where in made} == {f"team-{n}" for n in range(40)}
    assert 1 < server.most <= applying.SIDE_BY_SIDE


def test_an_object_without_a_namespace_of_its_own_goes_to_that_of_the_trial() -> None:
    assert applied(Server(), [Manifest(LIMIT_RANGES, "queue", {})]) == [("limitranges", "own")]


def test_a_quota_that_its_controller_never_counts_is_a_problem_of_the_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then the API server refuses every pod."""
    monkeypatch.setattr(applying, "READY_WITHIN_S", 0.2)
    with pytest.raises(SetupProblem, match="the status of the ResourceQuota queue has no 'hard' within"):
        applied(Server(status="other"), quotas(1))


def test_namespaces_are_made_side_by_side() -> None:
    server = Server()
    asyncio.run(make_namespaces(cast("Client", server), [f"team-{n}" for n in range(40)], {}))
    assert {name for _, name in server.made} == {f"team-{n}" for n in range(40)}
    assert 1 < server.most <= applying.SIDE_BY_SIDE
