"""Pods that a controller cannot create: it says why in Events alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from seatrial.clusters.live.watches import listen_to_refusals
from seatrial.kube import Client, access_from
from seatrial.model.lifecycle import PLAIN
from seatrial.observe.observer import Observer
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from tests.attached.conftest import Foreign

pytestmark = pytest.mark.local

JOBS = "/apis/batch/v1/namespaces/team/jobs"
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "refused"},
    "spec": {
        "template": {
            "spec": {
                "priorityClassName": "nobody-made-it",
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "none"}],
            }
        }
    },
}


def test_why_the_job_controller_creates_no_pods_is_heard_once_nothing_moves(foreign: Foreign, tmp_path: Path) -> None:
    foreign.create(JOBS, JOB)
    try:
        observer = Observer(Ledger(PLAIN, Segment(tmp_path)))
        observer.workloads["refused"] = number = observer.ledger.workload(observer.ledger.phase("a"), 1)
        observer.workload("refused", "created", 0)
        said = asyncio.run(_heard(foreign, observer, number))
    finally:
        foreign.api.call("DELETE", f"{JOBS}/refused?propagationPolicy=Background")
    assert (
        said == "FailedCreate: Error creating: pods is forbidden: no PriorityClass with name nobody-made-it was found"
    )


async def _heard(foreign: Foreign, observer: Observer, number: int) -> str:
    async with Client(access_from(foreign.kubeconfig)) as client:
        listening = asyncio.create_task(listen_to_refusals(client, observer, "team"))
        async with asyncio.timeout(30):
            while number not in observer.said:
                await asyncio.sleep(0.05)
        listening.cancel()
    return observer.said[number]
