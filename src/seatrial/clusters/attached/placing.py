"""Where pods of a load may stand in somebody else's cluster: on our fake nodes, or where the scenario says `existing`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.model.selectors import Term

PodSpec = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def placed(thing: Any, place: Callable[[PodSpec], PodSpec]) -> Any:
    """The manifest with every spec of pods in it changed, however deep: it is what has containers."""
    if isinstance(thing, Mapping):
        inner = {key: placed(value, place) for key, value in thing.items()}
        return place(inner) if isinstance(inner.get("containers"), list) else inner
    if isinstance(thing, list | tuple):
        return [placed(value, place) for value in thing]
    return thing


def on_ours(spec: PodSpec, label: str, study: str) -> PodSpec:
    tolerates = {"key": label, "operator": "Equal", "value": study, "effect": "NoSchedule"}
    return {
        **spec,
        "nodeSelector": {**(spec.get("nodeSelector") or {}), label: study},
        "tolerations": [*(spec.get("tolerations") or []), tolerates],
    }


def on_existing(spec: PodSpec, terms: Sequence[Term]) -> PodSpec:
    """Beside what the manifest itself asks of nodes."""
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
