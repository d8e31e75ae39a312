"""A Job whose pods may be preempted on fake nodes."""

from __future__ import annotations

from typing import Any

import pytest

from seatrial.model.plan import PodShape, Workload
from seatrial.model.preempted_jobs import survives_preemption
from seatrial.model.units import SECOND
from seatrial.stacks.job_objects import job


def made(overlay: dict[str, Any] | None = None) -> dict[str, Any]:
    workload = Workload("work-0", "work", 0, 1, PodShape({"cpu": 1000}), SECOND, overlay=overlay)
    spec: dict[str, Any] = job(survives_preemption(workload), {})["spec"]
    return spec


def test_a_preempted_pod_does_not_count_as_a_failure_of_its_job() -> None:
    [rule] = made()["podFailurePolicy"]["rules"]
    assert rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert made({"spec": {"backoffLimit": 3}})["backoffLimit"] == 3


@pytest.mark.parametrize(
    "own",
    [
        {"podFailurePolicy": {"rules": []}},
        {"template": {"spec": {"restartPolicy": "OnFailure"}}},  # the API server refuses a policy with it
        {"template": {"spec": {"containers": [{"name": "theirs", "image": "theirs"}]}}},
    ],
)
def test_what_the_user_says_of_failures_stays(own: dict[str, Any]) -> None:
    assert made({"spec": own}).get("podFailurePolicy") == own.get("podFailurePolicy")
