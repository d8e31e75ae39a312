"""Workloads on a kept cluster as a submission leaves them: OUT with its lines, and Jobs by the repository's own client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from seatrial import stacks
from seatrial.clusters.local import kept
from seatrial.kube import Client, Mark, access_from
from seatrial.kube.resources import JOBS, NAMESPACES, SERVICE_ACCOUNTS, create
from seatrial.kube.shapes import Object
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import PodShape, Setup, Submit, Target, Trial
from seatrial.model.units import SECOND
from seatrial.record.submissions import Submissions
from seatrial.study import directory
from seatrial.study.describing import description, write_json


class Load:
    """`jobs` Jobs of one pod each that run for `run_s`, as the study `study` in a namespace of its own."""

    def __init__(self, out: Path, cluster: str, jobs: int, run_s: float, study: str, **pod: Any) -> None:
        shape = PodShape({"cpu": 10})
        self.submit = Submit("load", jobs, (1,), False, shape, int(run_s * SECOND), overlay=pod or None)
        self.target = Target(cluster=cluster)
        setup = Setup("default", "default", (), settings={})
        self.trial = Trial(1, "submit", "local", setup, {}, 1, 1, ((self.submit,),), target=self.target)
        self.study, self.out = study, out
        self.namespace = f"seatrial-{study}"
        self.directory = out / "trials" / self.trial.name
        self.epoch = 0

    def begin(self) -> None:
        directory.make(self.out, force=False)
        self.directory.mkdir()
        self.epoch = time.time_ns()
        document = directory.describe("submit", {}, [self.trial], {})
        directory.write(self.out, {**document, "run": {"state": "running"}})
        target = {"cluster": self.target.cluster, "study": self.study, "namespace": self.namespace, "removed": False}
        stack = stacks.find("default")
        known = {**description(self.trial, stack), "target": target, "wall_epoch_ns": self.epoch, "outcome": "running"}
        write_json(self.directory / "trial.json", known)

    async def send(self, client: Client, indices: Sequence[int], every_s: float = 0.0) -> None:
        labels = {STUDY_LABEL: self.study}
        if await client.find(NAMESPACES, self.namespace, shape=Object) is None:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": labels}}
            await client.create(NAMESPACES, body, self.namespace)
            while await client.find(SERVICE_ACCOUNTS, "default", self.namespace, shape=Object) is None:
                await asyncio.sleep(0.05)
        submissions = Submissions(self.directory)
        stack = stacks.find("default")

        async def one(index: int) -> None:
            workload = self.submit_item(index)
            at = time.time_ns() - self.epoch
            for manifest in stack.render(workload, labels):
                answer = await client.send(create(manifest.resource, manifest.body, manifest.name, self.namespace))
                assert answer.ok, answer.body
            submissions.add(index, workload, at)
            submissions.flush()

        for first in range(0, len(indices), 8):
            await asyncio.gather(*(one(index) for index in indices[first : first + 8]))
            await asyncio.sleep(every_s)
        submissions.close()

    def submit_item(self, index: int) -> Any:
        from seatrial.model.load import load_of

        return load_of(self.submit, 1).item(index)

    def client(self) -> Client:
        access = access_from(kept.find(self.target.cluster).kubeconfig())
        return Client(access, connections=16, mark=Mark(STUDY_LABEL, self.study))


async def complete(client: Client, namespace: str, count: int, within: float = 90.0) -> None:
    """Until so many Jobs are complete."""
    async with asyncio.timeout(within):
        while True:
            found = await client.list(JOBS, namespace, shape=_Job, resourceVersion="0")
            if sum(bool(job.status.get("succeeded")) for job in found.items) >= count:
                return
            await asyncio.sleep(0.2)


class _Job(Object):
    status: dict[str, Any] = msgspec.field(default_factory=dict)
