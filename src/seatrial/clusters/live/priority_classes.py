"""The PriorityClasses that the pods of a trial need: the API server refuses a pod that names a class it does not know.

They are cluster-wide, so they are named after the study and carry its label, by which they are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seatrial.kube.resources import PRIORITY_CLASSES
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import STUDY_LABEL, priority_class
from seatrial.model.plan import Trial
from seatrial.scenario.actions.submit_workloads import Submit


def priorities(trial: Trial) -> list[int]:
    """Priorities that need a class: pods without one have priority 0."""
    return sorted({submit.shape.priority for submit in trial.phases(Submit)} - {0})


def classes(trial: Trial, labels: Mapping[str, str], *, preempt: bool) -> list[Manifest]:
    """Without `preempt` such pods are scheduled first but evict nobody: on existing nodes pods may be somebody else's."""
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
        "description": "Made by seatrial for a trial; removed with it.",
    }
