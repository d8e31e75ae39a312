"""The keeper of a kept cluster that knows stacks: `study` joins a cluster with a stack, neither knows the other."""

from __future__ import annotations

from seatrial import stacks
from seatrial.clusters.local import keeper
from seatrial.clusters.local.components import for_fake_nodes
from seatrial.clusters.local.order import Order
from seatrial.clusters.local.plane import Amend
from seatrial.model.control_plane import ControlPlane

MODULE = __name__


def amend_of(order: Order) -> Amend:
    def amend(plane: ControlPlane) -> ControlPlane:
        amended: ControlPlane = stacks.find(order.stack).amend(for_fake_nodes(plane), order.wish.settings or {})
        return amended

    return amend


if __name__ == "__main__":
    keeper.main(amend_of)
