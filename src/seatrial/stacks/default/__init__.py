"""Plain Kubernetes: Jobs, the Job controller, kube-scheduler. Nothing stands between a workload and its pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.model.interfaces import Manifest
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

    def amend(self, plane: Any, settings: Mapping[str, Mapping[str, Scalar]]) -> Any:  # noqa: ARG002
        return plane

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        from seatrial.kube.resources import JOBS
        from seatrial.stacks.jobs import job

        return [Manifest(JOBS, workload.name, job(workload, labels))]

    def watches(self) -> Sequence[Any]:
        from seatrial.observe.observer import PLAIN_WATCHES

        return PLAIN_WATCHES


stack = Default()
