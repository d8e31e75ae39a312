"""How much memory a simulated trial takes at most: what it reserves of a machine that runs several of them."""

from __future__ import annotations

from seatrial.model.plan import Trial
from seatrial.scenario.actions.send_requests import Requests
from seatrial.scenario.actions.submit_workloads import Submit

MIB = 2**20
# docs/verified.md, sim_scale: 0.35 GiB for 100,000 one-pod Jobs, 1.82 GiB for a million; the slope is 1.7 KiB, taken double because
# stacks with queues keep more. The base is a worker with its imports: 0.18 GiB with 10,000 Jobs.
BASE, PER_POD, PER_NODE = 256 * MIB, 3500, 20_000
PER_REQUEST = 500


def memory_estimate(trial: Trial) -> int:
    """Bytes."""
    pods = sum(max(submit.pods, submit.count) for submit in trial.phases(Submit))
    requests = sum((phase.count or 0) * max(len(phase.objects), 1) for phase in trial.phases(Requests))
    nodes = sum(group.count for group in trial.node_groups())
    return BASE + PER_POD * pods + PER_NODE * nodes + PER_REQUEST * requests
