"""The answers of a stack that adds nothing to plain Kubernetes; others override what is different with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.model.interfaces import Manifest
from seatrial.model.lifecycle import PLAIN, Stage
from seatrial.model.plan import Amounts, Scalar, Trial, Workload
from seatrial.model.settings import Setting

Settings = Mapping[str, Mapping[str, Scalar]]


class Plain:
    """Jobs, the Job controller, kube-scheduler. Nothing stands between a workload and its pods."""

    name = ""
    about = ""
    stages: Sequence[Stage] = PLAIN
    settings: Sequence[Setting] = ()
    needs = "nothing"
    runs_on: Sequence[str] = ("sim", "local", "kubeconfig")
    verified = ""
    model_verified = False
    created_as = ("batch", "jobs")

    def refuses(self, trial: Trial) -> str | None:
        if trial.on not in self.runs_on:
            return f"the stack '{self.name}' does not run on {trial.on}, only on {' and '.join(self.runs_on)}"
        if any(submit.declares is not None for submit in trial.submits()):
            return f"the stack '{self.name}' takes a workload's requests from its pods: nothing can be declared"
        return None

    def model(self, sim: Any, settings: Settings) -> Callable[[int, Workload], None]:  # noqa: ARG002
        deliver: Callable[[int, Workload], None] = sim.jobs.add
        return deliver

    def releases(self, settings: Settings) -> Sequence[int]:  # noqa: ARG002
        return ()

    def quota(self, settings: Settings, capacity: Amounts) -> Amounts | None:  # noqa: ARG002
        return None

    def prepare(
        self, settings: Settings, capacity: Amounts, labels: Mapping[str, str], namespace: str  # noqa: ARG002
    ) -> Sequence[Manifest]:  # fmt: skip
        return ()

    def programs(self) -> Sequence[Any]:
        return ()

    def amend(self, plane: Any, settings: Settings) -> Any:  # noqa: ARG002
        return plane

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        from seatrial.stacks.jobs import manifests

        return manifests(workload, labels)

    def watches(self) -> Sequence[Any]:
        from seatrial.observe.observer import PLAIN_WATCHES

        return PLAIN_WATCHES

    def queue(self) -> tuple[Any, str] | None:
        return None
