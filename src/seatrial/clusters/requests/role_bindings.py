"""Binds the users of a load to a role, and waits until the binding counts.

The server's authorizer sees a binding a moment after its creation. A load that starts at once would now and then be refused, and
that would look like a finding about the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.kube import ApiProblem, Client
from seatrial.kube.resources import CLUSTER_ROLE_BINDINGS, CONFIGMAPS, ROLE_BINDINGS
from seatrial.kube.reviews import allowed

ROLE = "cluster-admin"
EFFECTIVE_WITHIN_S = 5.0  # if the binding still does not count then, the load's refusals show it


class RoleBindings:
    """Binds each user once. `name` is the prefix of the bindings' names."""

    def __init__(self, client: Client, name: str, labels: Mapping[str, str]) -> None:
        self._client, self._name, self._labels = client, name, labels
        self._given: set[str] = set()
        self._giving = asyncio.Lock()

    async def give(self, user: str, namespaces: Sequence[str]) -> None:
        """Binds in these namespaces, or without any in the whole cluster. If we may not, the load's refusals show it."""
        async with self._giving:  # phases begin together: the second one of a user waits too
            if user in self._given:
                return
            self._given.add(user)
            with contextlib.suppress(ApiProblem):
                await self._bind(user, namespaces)
                last = namespaces[-1] if namespaces else ""
                end = time.monotonic() + EFFECTIVE_WITHIN_S
                while time.monotonic() < end and not await allowed(self._client, "create", CONFIGMAPS, last, user=user):
                    await asyncio.sleep(0.02)

    async def _bind(self, user: str, namespaces: Sequence[str]) -> None:
        create, name = self._client.create, f"{self._name}-{zlib.crc32(user.encode()):08x}"
        if not namespaces:
            await create(CLUSTER_ROLE_BINDINGS, self._binding("ClusterRoleBinding", name, user), name)
            return
        body = self._binding("RoleBinding", name, user)
        *others, last = namespaces
        await asyncio.gather(*(create(ROLE_BINDINGS, body, name, namespace) for namespace in others))
        await create(ROLE_BINDINGS, body, name, last)  # the authorizer sees bindings in their order

    def _binding(self, kind: str, name: str, user: str) -> dict[str, Any]:
        group = ROLE_BINDINGS.group
        return {
            "apiVersion": f"{group}/v1",
            "kind": kind,
            "metadata": {"name": name, "labels": self._labels},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
