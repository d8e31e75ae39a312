"""Plain Kubernetes: Jobs, the Job controller, kube-scheduler. Nothing stands between a workload and its pods."""

from __future__ import annotations

from seatrial.stacks.base import StackBase


class Default(StackBase):
    """Identity: nothing but Kubernetes."""

    name = "default"
    honours = ("queues", "checkpoint")
    about = "plain Kubernetes: Jobs and kube-scheduler, no queue and no gangs"
    verified = "the published table, and real components beside the model (docs/fidelity.md)"
    model_verified = True


stack = Default()
