"""Jobs that outlive the preemption of their pods.

A preempted pod is no failure of its Job. On fake nodes such a pod is gone at once; a Job controller that syncs in between would
count it as failed and create no other for 10 s × 2^failures, up to 10 minutes (getRemainingTime in
pkg/controller/job/backoff_utils.go). With this policy it counts Failed pods alone (onlyReplaceFailedPods).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from seatrial.model.plan import Workload

_PREEMPTED_IS_NOT_FAILED = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}


def survives_preemption(workload: Workload) -> Workload:
    """The workload, as a Job that a preempted pod does not fail. What the user's own fields say of it stays."""
    given: Mapping[str, Any] = workload.overlay or {}
    spec: Mapping[str, Any] = given.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    if "podFailurePolicy" in spec or pod.get("restartPolicy", "Never") != "Never" or "containers" in pod:
        return workload
    return replace(workload, overlay={**given, "spec": {**spec, "podFailurePolicy": _PREEMPTED_IS_NOT_FAILED}})
