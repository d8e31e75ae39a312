"""What kubelets say of their nodes while a trial runs: every change of a condition, with its time, and for the diagnosis what is
wrong now."""

from __future__ import annotations

import asyncio
from typing import Any

from seatrial.clusters.live.session import Session
from seatrial.kube import Lost, Unreachable, clock, watch
from seatrial.kube.api_errors import ApiProblem
from seatrial.kube.resources import NODES
from seatrial.kube.shapes import Node
from seatrial.kube.watching import DELETED
from seatrial.model.labels import KUBELET_LABEL
from seatrial.model.units import SECOND

MOST = 10_000  # changes that are kept


class NodeConditions:
    """A watch of the nodes with kubelets. A condition is wrong if it is Ready and not true, or another and not false."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._wrong: dict[tuple[str, str], str] = {}  # node and condition → its status
        self._changes: list[dict[str, Any]] = []
        session.evidence["node_conditions"] = self._changes

    async def watch(self) -> None:
        """Until cancelled; begins again when the server went away."""
        while True:
            try:
                await watch(self._session.client, NODES, Node, self._sees, labelSelector=KUBELET_LABEL)
            except (ApiProblem, Lost, Unreachable):
                await asyncio.sleep(1.0)

    def _sees(self, _stamp: int, event: str, node: Node | None) -> None:
        if node is None or not self._session.observer.epoch:
            return
        observer, name = self._session.observer, node.metadata.name
        for one in sorted(node.status.conditions, key=lambda one: one.type != "Ready"):  # a diagnosis quotes the first
            status = (
                "" if event == DELETED or one.status == ("True" if one.type == "Ready" else "False") else one.status
            )
            if status == self._wrong.get((name, one.type), ""):
                continue
            self._wrong[name, one.type] = status
            beginning = f"the kubelet of {name} says {one.type}"
            observer.well(beginning)
            if status:
                observer.trouble(f"{beginning} {status}: {one.reason}: {one.message}")
            if len(self._changes) < MOST:
                at = (clock() - observer.epoch) / SECOND
                what = {"node": name, "condition": one.type, "status": one.status, "reason": one.reason}
                self._changes.append({**what, "at_s": round(at, 3)})
