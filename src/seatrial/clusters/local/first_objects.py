"""The objects that a control plane starts with: definitions of kinds, objects of these kinds, and roles of its identities."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import msgspec

from seatrial.kube import ApiProblem, Client, Lost, Resource
from seatrial.kube.resources import CRDS, plural_of
from seatrial.kube.shapes import Condition, Object, Shape, condition
from seatrial.model.control_plane import CA_BUNDLE, Identity
from seatrial.model.errors import SetupProblem

SETTLE_S = 60.0


def role_binding(identity: Identity) -> dict[str, Any]:
    """Gives the identity its role."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"seatrial:{identity.name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": identity.role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": identity.user}],
    }


async def create(client: Client, *objects: Any) -> None:
    """Objects that exist already are fine. Plurals are regular wherever we or our stacks create something here."""
    for thing in objects:
        group, _, version = thing["apiVersion"].rpartition("/")
        kind, name, namespace = thing["kind"], thing["metadata"]["name"], thing["metadata"].get("namespace", "")
        try:
            await client.create(
                Resource(group, version, plural_of(kind), kind, bool(namespace)), thing, name, namespace
            )
        except (ApiProblem, Lost) as problem:
            if not isinstance(problem, ApiProblem) or problem.code != 409:
                raise SetupProblem(
                    f"{kind} {name} could not be created: {problem.message}",
                    "This is a defect of seatrial or of what amended the control plane.",
                ) from problem


def with_authority(thing: Any, certificate: Path) -> Any:
    """The object, with our authority's bundle where it asks for one."""
    bundle = base64.b64encode(certificate.read_bytes()).decode()
    return json.loads(json.dumps(thing).replace(CA_BUNDLE, bundle))


async def established(client: Client, kinds: list[Any]) -> None:
    """Waits until the API server serves the kinds: a controller that lists one earlier gives up."""
    until = time.monotonic() + SETTLE_S
    for kind in kinds:
        name = kind["metadata"]["name"]
        while not await _is_established(client, name):
            if time.monotonic() > until:
                raise SetupProblem(
                    f"the kind {name} is not served after {SETTLE_S:.0f} s", "Look into the API server's log."
                )
            await asyncio.sleep(0.02)


class _DefinitionStatus(Shape):
    conditions: list[Condition] | None = None  # null at first


class _Definition(Object):
    status: _DefinitionStatus = msgspec.field(default_factory=_DefinitionStatus)


async def _is_established(client: Client, name: str) -> bool:
    found = await client.find(CRDS, name, shape=_Definition)
    established = condition(found.status.conditions or [], "Established") if found else None
    return established is not None and established.status == "True"
