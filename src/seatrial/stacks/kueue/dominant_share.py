"""Fair sharing's measure: how much a ClusterQueue or a cohort borrows, of what its cohort could lend, by its weight.

Facts (Kueue v0.16.1, pkg/cache/scheduler/fair_sharing.go): per resource, over all flavors, usage beyond the subtree quota in
thousandths of what is potentially available in the parent; the largest of them, divided by the weight. A weight of 0 makes any
borrowing larger than all shares with a weight. A node without a parent borrows nothing.
"""

from __future__ import annotations

from seatrial.stacks.kueue.quota_tree import QuotaNode, QuotaTree

Share = tuple[int, float]  # (1 if it borrows with a weight of 0, the share); compared as such
NOTHING: Share = (0, 0.0)
BELOW_ALL: Share = (0, -1.0)


def share_of(tree: QuotaTree, node: QuotaNode) -> Share:
    """The weighted share of a node by its present usage."""
    if node.parent is None:
        return NOTHING
    lendable = None
    largest = 0.0
    usage, subtree = node.usage, node.subtree
    for name, cells in tree.by_resource:
        borrowed = 0
        for cell in cells:
            more = usage[cell] - subtree[cell]
            if more > 0:
                borrowed += more
        if borrowed:
            lendable = lendable or tree.lendable(node.parent)
            if lendable[name] > 0:
                largest = max(largest, borrowed * 1000.0 / lendable[name])
    if not largest:
        return NOTHING
    return (0, largest / node.weight) if node.weight else (1, largest)
