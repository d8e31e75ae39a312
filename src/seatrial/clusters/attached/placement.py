"""Keeps a trial and somebody else's cluster apart: pods run on our fake nodes alone, or where the scenario says `existing`.

Fake nodes get a name, a label and a taint of this trial; our pods tolerate that taint and select that label.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import NodeGroup, PodShape, Taint, Toleration, Trial, Workload
from seatrial.model.selectors import Term, parse_selector
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.send_requests import Requests

PodSpec = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class StudyPlacement:
    """The nodes and pods of one study."""

    def __init__(self, trial: Trial, study: str) -> None:
        self.existing = [group.existing for group in trial.setup.nodes if group.existing]
        self.fakes = [self._ours(group, study) for group in trial.node_groups() if not group.existing]
        self.preempts = not self.existing  # pods on existing nodes may belong to other users
        self._trial, self._study = trial, study
        self._terms = tuple(term for selector in self.existing for term in parse_selector(selector))
        self._shapes: dict[
            int, tuple[PodShape, PodShape]
        ] = {}  # by id; the original is kept so that the id stays its own

    def trial(self) -> Trial:
        """The trial as the cluster sees it: nodes to make under our names; existing ones are not made."""
        setup = self._trial.setup
        groups = tuple(self._ours(group, self._study) for group in setup.nodes if not group.existing)
        return dataclasses.replace(self._trial, setup=dataclasses.replace(setup, nodes=groups))

    @staticmethod
    def _ours(group: NodeGroup, study: str) -> NodeGroup:
        """Node names belong to the whole cluster: without the study in them ours might be taken already."""
        taint = Taint(STUDY_LABEL, study, "NoSchedule")
        return dataclasses.replace(group, name=f"{group.name}-{study}", taints=(*group.taints, taint))

    def group(self, name: str) -> str:
        """The scenario's name of a node group."""
        return name.removesuffix(f"-{self._study}")

    def nodes(self, change: NodeChange) -> NodeChange:
        """The change, of our nodes."""
        add = self._ours(change.add, self._study) if change.add else None
        return dataclasses.replace(change, group=f"{change.group}-{self._study}", add=add)

    def workload(self, workload: Workload) -> Workload:
        """The workload, with pods that run on the trial's nodes alone."""
        shape = workload.shape
        if id(shape) not in self._shapes:
            self._shapes[id(shape)] = (shape, self._shape(shape))
        return structs.replace(workload, shape=self._shapes[id(shape)][1])

    def _shape(self, shape: PodShape) -> PodShape:
        if self.existing:
            image = str(self._trial.setup.settings.get("pod", {}).get("image") or "busybox")
            return dataclasses.replace(shape, terms=self._terms, image=image)
        tolerates = Toleration(STUDY_LABEL, "Equal", self._study, "NoSchedule")
        selector = {**shape.selector, STUDY_LABEL: self._study}
        return dataclasses.replace(shape, selector=selector, tolerations=(*shape.tolerations, tolerates))

    def requests(self, phase: Requests) -> Requests:
        """The phase, with pods that run on the trial's nodes alone."""
        return dataclasses.replace(phase, objects=tuple(placed(manifest, self._spec) for manifest in phase.objects))

    def _spec(self, spec: PodSpec) -> PodSpec:
        return on_existing(spec, self._terms) if self.existing else on_ours(spec, STUDY_LABEL, self._study)


def placed(thing: Any, place: Callable[[PodSpec], PodSpec]) -> Any:
    """The manifest with every pod spec in it changed, however deep; a pod spec is what has containers."""
    if isinstance(thing, Mapping):
        inner = {key: placed(value, place) for key, value in thing.items()}
        return place(inner) if isinstance(inner.get("containers"), list) else inner
    if isinstance(thing, list | tuple):
        return [placed(value, place) for value in thing]
    return thing


def on_ours(spec: PodSpec, label: str, study: str) -> PodSpec:
    """Restricts the pod to nodes with our label, and tolerates their taint."""
    tolerates = {"key": label, "operator": "Equal", "value": study, "effect": "NoSchedule"}
    return {
        **spec,
        "nodeSelector": {**(spec.get("nodeSelector") or {}), label: study},
        "tolerations": [*(spec.get("tolerations") or []), tolerates],
    }


def on_existing(spec: PodSpec, terms: Sequence[Term]) -> PodSpec:
    """Restricts the pod to nodes that match the terms, beside the manifest's own requirements."""
    ours = [
        {"key": term.key, "operator": term.operator, **({"values": list(term.values)} if term.values else {})}
        for term in terms
    ]
    affinity = spec.get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    asked = (of_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    both = [{**term, "matchExpressions": [*(term.get("matchExpressions") or []), *ours]} for term in asked]
    required = {**of_nodes, _REQUIRED: {"nodeSelectorTerms": both}}
    return {**spec, "affinity": {**affinity, "nodeAffinity": required}}
