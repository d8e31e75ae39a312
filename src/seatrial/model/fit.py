"""Whether a pod may ever be placed on a node: the same rules for the simulator, findings and audits."""

from __future__ import annotations

from collections.abc import Iterable

from seatrial.model.labels import GROUP_LABEL
from seatrial.model.plan import Amounts, NodeGroup, PodShape, Taint

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable")  # of a cordoned node


def admits(group: NodeGroup, shape: PodShape) -> bool:
    """Whether labels and taints allow the pod on the node, whatever its size."""
    if any(_label(group, key) != value for key, value in shape.selector.items()):
        return False
    if any(_label(group, key) not in values for key, values in shape.affinity):
        return False
    return all(
        taint.effect == "PreferNoSchedule" or any(t.tolerates(taint) for t in shape.tolerations)
        for taint in group.taints
    )


def _label(group: NodeGroup, key: str) -> str | None:
    """Of its nodes: those that the group names, and the one that fake nodes have of their group."""
    return group.labels.get(key, group.name if key == GROUP_LABEL else None)


def ignores_cordons(shape: PodShape) -> bool:
    """Whether the pod may go to a cordoned node (kube-scheduler's NodeUnschedulable)."""
    return any(toleration.tolerates(UNSCHEDULABLE) for toleration in shape.tolerations)


def obstacles(group: NodeGroup, shape: PodShape) -> list[str]:
    """Labels and taints that keep the pod off these nodes, with remedies."""
    found = []
    wanted = {**{key: (value,) for key, value in shape.selector.items()}, **dict(shape.affinity)}
    for key, values in wanted.items():
        if group.labels.get(key) not in values:
            has = f"has {key}={group.labels[key]}" if key in group.labels else f"has no label {key}"
            selects = " or ".join(f"{key}={value}" for value in values)
            found.append(f"{has}, and the pod selects {selects} (change its selector or the label)")
    for taint in group.taints:
        if taint.effect != "PreferNoSchedule" and not any(t.tolerates(taint) for t in shape.tolerations):
            found.append(f'has a taint that the pod does not tolerate (add "{taint}" to its tolerations)')
    return found


def lacking(capacity: Amounts, requests: Amounts) -> list[str]:
    """Resources of which an empty node of this capacity has too little."""
    return [name for name, amount in requests.items() if amount > capacity.get(name, 0)]


def why_nowhere(groups: Iterable[NodeGroup], shape: PodShape) -> str | None:
    """None if an empty node of some group could take the pod, else the obstacles, group by group."""
    reasons: list[str] = []
    for group in groups:
        if group.existing:
            return None  # existing nodes: unknown here
        short = lacking(group.capacity, shape.requests)
        if not admits(group, shape):
            reasons.append(f"{group.name}: {' and '.join(obstacles(group, shape))}")
        elif short:
            reasons.append(f"{group.name}: too little {', '.join(short)}")
        elif not group.capacity.get("pods", 110):
            reasons.append(f"{group.name}: takes no pods")
        else:
            return None
    return "; ".join(reasons) if reasons else "there are no nodes"
