"""The PriorityClasses that the pods of a trial need: the API server refuses a pod with a priority and without a class.

They belong to the whole cluster, so they are named after the study and carry its label, by which they are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seatrial.kube.resources import PRIORITY_CLASSES
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import STUDY_LABEL, priority_class
from seatrial.model.plan import Trial


def priorities(trial: Trial) -> list[int]:
    """Those that need a class: pods without one have priority 0."""
    return sorted({submit.shape.priority for submit in trial.submits()} - {0})


def classes(trial: Trial, labels: Mapping[str, str], *, preempt: bool) -> list[Manifest]:
    """Without `preempt` pods only go first: on nodes of somebody else's we evict nobody."""
    return [
        Manifest(PRIORITY_CLASSES, name, _body(name, value, labels, preempt))
        for name, value in _named(priorities(trial), labels[STUDY_LABEL])
    ]


def _named(values: Iterable[int], study: str) -> Iterable[tuple[str, int]]:
    return ((priority_class(study, value), value) for value in values)


def _body(name: str, value: int, labels: Mapping[str, str], preempt: bool) -> dict[str, object]:
    return {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": PRIORITY_CLASSES.kind,
        "metadata": {"name": name, "labels": dict(labels)},
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority" if preempt else "Never",
        "description": "Of a trial of seatrial; it is removed with it.",
    }
