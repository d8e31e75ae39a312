"""Plain Kubernetes: Jobs, the Job controller, kube-scheduler. Nothing stands between a workload and its pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from seatrial.model.lifecycle import PLAIN
from seatrial.model.plan import Scalar, Trial, Workload
from seatrial.model.settings import Setting


class Default:
    name = "default"
    about = "plain Kubernetes: Jobs and kube-scheduler, no queue and no gangs"
    stages = PLAIN
    settings: tuple[Setting, ...] = ()

    def refuses(self, trial: Trial) -> str | None:  # noqa: ARG002
        return None

    def model(self, sim: Any, settings: Mapping[str, Mapping[str, Scalar]]) -> Callable[[int, Workload], None]:  # noqa: ARG002
        deliver: Callable[[int, Workload], None] = sim.jobs.add
        return deliver


stack = Default()
