"""The nodes of a flavor: whether a workload's pods may go there, and Kueue's additions to their node selector.

Facts (Kueue v0.16.1, pkg/scheduler/flavorassigner/flavorassigner.go, checkFlavorForPodSets): a flavor is skipped if the pods do
not tolerate its taints, or if their selector or affinity contradicts its labels; only labels that a flavor of the queue has are
compared. Our flavors have the labels and taints of their node group (fleet_objects.py). A Job that starts gets the labels of
its flavors as node selector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from seatrial.model.labels import GROUP_LABEL
from seatrial.model.plan import NodeGroup, PodShape
from seatrial.sim.world import Sim
from seatrial.stacks.kueue.quota_tree import QuotaClaim


class FlavorNodes:
    """The flavors of a fleet and their node groups."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self._nodes = {flavor.name: flavor.nodes for flavor in sim.fleet.flavors if flavor.nodes}
        self._groups: dict[str, NodeGroup] = {}
        self._shapes: dict[tuple[int, str], PodShape] = {}
        self._closed: dict[tuple[int, str], str] = {}

    def closed(self, claim: QuotaClaim, flavor: str) -> str:
        """Why the workload's pods may not go to the flavor's nodes, in Kueue's words; empty if they may."""
        if not self._nodes:
            return ""
        shape = self._sim.workloads[claim.number].shape
        known = self._closed.get((id(shape), flavor))
        if known is None:
            known = self._closed[id(shape), flavor] = self._why_closed(shape, flavor)
        return known

    def _why_closed(self, shape: PodShape, flavor: str) -> str:
        group = self._group(flavor)
        if group:
            for taint in group.taints:
                if taint.effect != "PreferNoSchedule" and not any(t.tolerates(taint) for t in shape.tolerations):
                    return f"untolerated taint {taint} in flavor {flavor}"
        labels = self._labels(flavor)
        keys = {key for name in self._nodes for key in self._labels(name)}
        wanted = {**{key: (value,) for key, value in shape.selector.items()}, **dict(shape.affinity)}
        if any(key in keys and labels.get(key) not in values for key, values in wanted.items()):
            return f"flavor {flavor} doesn't match node affinity"
        return ""

    def _labels(self, flavor: str) -> Mapping[str, str]:
        group = self._group(flavor)
        return {GROUP_LABEL: group.name, **group.labels} if group else {}

    def _group(self, flavor: str) -> NodeGroup | None:
        name = self._nodes.get(flavor, "")
        if name and name not in self._groups:
            found = next((group for group in self._sim.nodes.groups if group.name == name), None)
            if found is None:
                return None
            self._groups[name] = found
        return self._groups.get(name)

    def shape(self, claim: QuotaClaim, shape: PodShape) -> PodShape | None:
        """The pods of an admitted workload with the node selector of its flavors; None if it has none to add."""
        nodes = next((self._nodes[flavor] for flavor in claim.flavors.values() if flavor in self._nodes), "")
        if not nodes:
            return None
        made = self._shapes.get((id(shape), nodes))
        if made is None:
            selector = {**shape.selector, GROUP_LABEL: nodes}
            made = self._shapes[id(shape), nodes] = replace(shape, selector=selector, priority=0)
        return made
