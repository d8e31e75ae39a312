"""Kueue: a suspended Job waits in a queue until its requests fit a quota."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import ADMITTED, QUEUED, RELEASED, Stage, lifecycle_with
from seatrial.model.plan import Amounts, Scalar, Trial, Workload
from seatrial.model.settings import Setting, Settings
from seatrial.model.units import MINUTE, parse_quantity
from seatrial.stacks.base import StackBase
from seatrial.stacks.kueue.fleet_rules import uncovered, unfit

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from seatrial.stacks.kueue.real import KueueReal

QUOTA_RESERVED = Stage(
    "quota_reserved", "workload", "its requests are taken off the quota", spent_on="waiting for quota", after=QUEUED
)
AS_NODES = "nodes"  # a quota equal to the capacity of the nodes
SET_BY = {"quota-cpu": "cpu", "quota-memory": "memory", "quota-gpu": "nvidia.com/gpu"}
# Backoff before the first requeue after an eviction (apis/config/v1beta2/defaults.go: DefaultRequeuingBackoffBaseSeconds).
REQUEUE_BACKOFF = 1 * MINUTE


class Kueue(StackBase):
    """Identity: stages and settings of Kueue, and the quotas that it refuses."""

    name = "kueue"
    about = "Kueue in front of kube-scheduler: suspended Jobs, admitted by quota; optionally whole and by node"
    stages = lifecycle_with(QUEUED, QUOTA_RESERVED, ADMITTED, RELEASED)
    needs = "Kueue v0.16 with the integration batch/job"
    verified = "the same scenarios with the real Kueue v0.16.1 on local (docs/stacks/kueue.md)"
    model_verified = True
    honours: Sequence[str] = ("queues", "cohorts", "flavors", "fair-sharing", "checkpoint")
    settings: Sequence[Setting] = (
        Setting("kueue", "qps", 50, "client requests per second of the whole process (clientConnection.qps)"),
        Setting("kueue", "burst", 100, "client burst (clientConnection.burst)"),
        Setting("kueue", "strategy", "BestEffortFIFO", "whether others pass a workload that does not fit (queueingStrategy)",
                choices=("BestEffortFIFO", "StrictFIFO"), kind="text", per_trial=True),
        Setting("kueue", "quota-cpu", "nodes", "cores it admits at a time, or `nodes`: the capacity of all nodes", kind="text",
                per_trial=True),
        Setting("kueue", "quota-memory", "nodes", "memory it admits at a time, or `nodes`", kind="text", per_trial=True),
        Setting("kueue", "quota-gpu", "nodes", "nvidia.com/gpu it admits at a time, or `nodes`", kind="text", per_trial=True),
        Setting("kueue", "wait-for-pods-ready", False, "evicts workloads that do not run in time (waitForPodsReady)", kind="flag"),
        Setting("kueue", "pods-ready-timeout", 5 * MINUTE, "timeout of wait-for-pods-ready (its `timeout`)", kind="duration"),
        Setting("kueue", "block-admission", True, "with wait-for-pods-ready: admits nothing until all that is admitted runs",
                kind="flag"),
        Setting("kueue", "topology", False, "topology-aware scheduling: admits a workload only to nodes on which its pods fit",
                kind="flag", per_trial=True),
        Setting("kueue", "stop-policy", "None", "`Hold`: the queue is inactive and admits nothing (stopPolicy)",
                choices=("None", "Hold", "HoldAndDrain"), kind="text", per_trial=True),
        Setting("kueue", "webhook-ca", "own", "`wrong`: the API server refuses the certificate of the Jobs' webhooks",
                choices=("own", "wrong"), kind="text"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        own = trial.setup.settings["kueue"]
        existing = trial.target.cluster or any(group.existing for group in trial.setup.nodes)
        if own["topology"] and trial.on != "sim" and existing:
            return (
                "topology-aware scheduling needs a label of the trial on its nodes, and existing nodes are not changed"
            )
        broken = [name for name, well in (("stop-policy", "None"), ("webhook-ca", "own")) if own[name] != well]
        if broken and trial.on == "sim":
            return f"kueue's {broken[0]}: {own[broken[0]]} is not modelled; the real Kueue shows it (--on local)"
        if own["topology"] and trial.setup.fleet.queues and trial.on == "sim":
            return "kueue's topology is not modelled together with queues; the real Kueue has both (--on local)"
        return super().refuses(trial) or _bad_quota(own) or unfit(trial)

    def findings(self, trial: Trial) -> Sequence[str]:
        return (*super().findings(trial), *uncovered(trial))

    def releases(self, settings: Settings) -> Sequence[int]:
        own = settings["kueue"]
        return (int(own["pods-ready-timeout"]), REQUEUE_BACKOFF) if own["wait-for-pods-ready"] else ()

    def quota(self, settings: Settings, capacity: Amounts) -> Amounts | None:
        return quota(settings["kueue"], capacity)

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.kueue.model import KueueModel

        return KueueModel(sim, settings["kueue"]).created

    @property
    def real(self) -> KueueReal:
        from seatrial.stacks.kueue.real import KueueReal

        return KueueReal()


def quota(settings: Mapping[str, Scalar], capacity: Amounts) -> dict[str, int]:
    """Resource → the amount admitted at a time: what the settings say, else what the nodes have. Pods are not counted.

    It covers every resource that a node has or the settings name: a workload that asks for another one is never admitted.
    """
    amounts = {name: amount for name, amount in capacity.items() if amount and name != "pods"}
    for setting, resource in SET_BY.items():
        if settings[setting] != AS_NODES:
            amounts[resource] = parse_quantity(str(settings[setting]), resource)
    return amounts


def _bad_quota(settings: Mapping[str, Scalar]) -> str | None:
    for setting, resource in SET_BY.items():
        if settings[setting] != AS_NODES:
            try:
                parse_quantity(str(settings[setting]), resource)
            except ValueError as error:
                return f"kueue.{setting}: {error}, or `nodes`"
    return None


stack = Kueue()
