"""The process of a kept cluster, with its stack: clusters and stacks do not import each other, `study` joins them."""

from __future__ import annotations

from seatrial import stacks
from seatrial.clusters.local import keeper
from seatrial.clusters.local.components import for_fake_nodes
from seatrial.clusters.local.kept_planes import KeeperOrder
from seatrial.clusters.local.plane import Amend
from seatrial.model.control_plane import ControlPlane
from seatrial.model.plan import Setup

MODULE = __name__


def amend_of(order: KeeperOrder) -> Amend:
    """Adds the components of the stack to the control plane."""

    def amend(plane: ControlPlane) -> ControlPlane:
        setup = Setup(order.name, order.stack, order.nodes, settings=order.options.settings or {})
        return stacks.find(order.stack).real.amend(for_fake_nodes(plane), setup)

    return amend


if __name__ == "__main__":
    keeper.main(amend_of)
