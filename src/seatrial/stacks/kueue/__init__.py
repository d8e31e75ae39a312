"""Kueue: a suspended Job waits in a queue until its requests fit a quota."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.model.interfaces import Manifest
from seatrial.model.lifecycle import ADMITTED, PLAIN, QUEUED, RELEASED, Stage
from seatrial.model.plan import Amounts, Trial, Workload
from seatrial.model.settings import Setting
from seatrial.model.units import MINUTE
from seatrial.stacks.plain import Plain, Settings

QUOTA_RESERVED = Stage("quota_reserved", "workload", "its requests are taken off the quota")
AS_NODES = "nodes"  # a quota that is what the nodes have
SET_BY = {"quota-cpu": "cpu", "quota-memory": "memory", "quota-gpu": "nvidia.com/gpu"}
# How long the first re-queueing after an eviction waits (apis/config/v1beta2/defaults.go: DefaultRequeuingBackoffBaseSeconds).
REQUEUE_BACKOFF = 1 * MINUTE


class Kueue(Plain):
    name = "kueue"
    about = "Kueue in front of kube-scheduler: suspended Jobs, admitted by quota; optionally whole and by node"
    stages = (*PLAIN[:2], QUEUED, QUOTA_RESERVED, ADMITTED, *PLAIN[2:-2], RELEASED, *PLAIN[-2:])
    needs = "Kueue v0.16 with the integration batch/job"
    verified = "the same scenarios with the real Kueue v0.16.1 on local (docs/stacks/kueue.md)"
    model_verified = True
    settings = (
        Setting("kueue", "qps", 50, "client requests per second, of all its parts together (clientConnection.qps)"),
        Setting("kueue", "burst", 100, "client burst (clientConnection.burst)"),
        Setting("kueue", "strategy", "BestEffortFIFO", "whether what does not fit lets others pass (queueingStrategy)",
                choices=("BestEffortFIFO", "StrictFIFO"), kind="text", per_trial=True),
        Setting("kueue", "quota-cpu", "nodes", "cores it admits at a time, or `nodes`: what all nodes have", kind="text",
                per_trial=True),
        Setting("kueue", "quota-memory", "nodes", "memory it admits at a time, or `nodes`", kind="text", per_trial=True),
        Setting("kueue", "quota-gpu", "nodes", "nvidia.com/gpu it admits at a time, or `nodes`", kind="text", per_trial=True),
        Setting("kueue", "wait-for-pods-ready", False, "evicts what does not run in time (waitForPodsReady)", kind="flag"),
        Setting("kueue", "pods-ready-timeout", 5 * MINUTE, "that time (waitForPodsReady.timeout)", kind="duration"),
        Setting("kueue", "block-admission", True, "with it: admits nothing while something admitted does not run yet",
                kind="flag"),
        Setting("kueue", "topology", False, "topology-aware scheduling: admits only what fits the single nodes, and to which",
                kind="flag", per_trial=True),
        Setting("kueue", "stop-policy", "None", "`Hold`: the queue is not active and admits nothing (stopPolicy)",
                choices=("None", "Hold", "HoldAndDrain"), kind="text", per_trial=True),
        Setting("kueue", "webhook-ca", "own", "`wrong`: the API server refuses the certificate of the Jobs' webhooks",
                choices=("own", "wrong"), kind="text"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        own = trial.setup.settings["kueue"]
        existing = trial.target.cluster or any(group.existing for group in trial.setup.nodes)
        if own["topology"] and trial.on != "sim" and existing:
            return "topology-aware scheduling needs a label of the trial's on its nodes, and existing ones are left as they are"
        broken = [name for name, well in (("stop-policy", "None"), ("webhook-ca", "own")) if own[name] != well]
        if broken and trial.on == "sim":
            return f"kueue's {broken[0]}: {own[broken[0]]} is not modelled; the real Kueue shows it (--on local)"
        return super().refuses(trial) or _bad_quota(own)

    def releases(self, settings: Settings) -> Sequence[int]:
        own = settings["kueue"]
        return (int(own["pods-ready-timeout"]), REQUEUE_BACKOFF) if own["wait-for-pods-ready"] else ()

    def quota(self, settings: Settings, capacity: Amounts) -> Amounts | None:
        from seatrial.stacks.kueue.queues import quota

        return quota(settings["kueue"], capacity)

    def model(self, sim: Any, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.kueue.model import KueueModel

        return KueueModel(sim, settings["kueue"]).created

    def prepare(
        self, settings: Settings, capacity: Amounts, labels: Mapping[str, str], namespace: str
    ) -> Sequence[Manifest]:
        from seatrial.stacks.kueue.queues import manifests

        return manifests(settings["kueue"], capacity, labels, namespace)

    def programs(self) -> Sequence[Any]:
        from seatrial.stacks.kueue.process import BINARY

        return (BINARY,)

    def amend(self, plane: Any, settings: Settings) -> Any:
        from seatrial.stacks.kueue.process import amend

        return amend(plane, settings["kueue"])

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        from seatrial.kube.resources import JOBS
        from seatrial.stacks.jobs import job, service
        from seatrial.stacks.kueue.queues import QUEUE, QUEUE_LABEL

        body = job(workload, labels)
        body["metadata"]["labels"] = {QUEUE_LABEL: QUEUE, **body["metadata"]["labels"]}
        body["spec"]["suspend"] = True
        made = Manifest(JOBS, workload.name, body)
        return [service(workload, labels), made] if workload.gang else [made]

    def watches(self) -> Sequence[Any]:
        from seatrial.stacks.kueue.watching import watches

        return watches()

    def queue(self) -> tuple[Any, str] | None:
        from seatrial.stacks.kueue.queues import LOCAL_QUEUES, QUEUE_LABEL

        return LOCAL_QUEUES, QUEUE_LABEL


def _bad_quota(settings: Mapping[str, Any]) -> str | None:
    from seatrial.model.units import parse_quantity

    for setting, resource in SET_BY.items():
        if settings[setting] != AS_NODES:
            try:
                parse_quantity(settings[setting], resource)
            except ValueError as error:
                return f"kueue.{setting}: {error}, or `nodes`"
    return None


stack = Kueue()
