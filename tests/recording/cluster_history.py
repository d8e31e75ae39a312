"""A cluster as its watches show it: Jobs that come, run and go, and a recorder that is killed and started again."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.kube.shapes import (
    Condition,
    Container,
    ContainerState,
    ContainerStatus,
    JobStatus,
    Meta,
    OwnerReference,
    PodStatus,
    Resources,
    Running,
    Terminated,
)
from seatrial.kube.watching import ADDED, DELETED, LISTED, MODIFIED, SYNCED
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.observe.anonymising import NameHider
from seatrial.observe.describing import Describer
from seatrial.observe.following import MOST_DOUBT
from seatrial.observe.recorded_shapes import RecordedJob, RecordedJobSpec, RecordedPod, RecordedPodSpec
from seatrial.observe.sightings import Sightings
from seatrial.record import recordings
from seatrial.record.recordings import Journal

BEGAN = 1_800_000_000 * SECOND  # 2027-01-15T08:00:00Z
EPOCH = 5_000 * SECOND  # the same moment on the clock of stamps


@dataclass(frozen=True)
class OneJob:
    """A Job whose pods are bound, start and end together; times in ms since the recording began, durations in ms."""

    name: str
    submit: int
    wait: int
    run: int
    kept: int  # after its end, until it is deleted
    pods: int = 1
    succeeds: bool = True
    starting: int = 0  # from being bound to running

    @property
    def bound(self) -> int:
        return self.submit + self.wait

    @property
    def started(self) -> int:
        return self.bound + self.starting

    @property
    def ended(self) -> int:
        return self.started + self.run

    @property
    def deleted(self) -> int:
        return self.ended + self.kept

    def changes(self) -> list[int]:
        """When something of it changes."""
        return [self.submit, self.bound, self.started, self.ended, self.deleted]

    def job(self, at: int) -> RecordedJob:
        status = JobStatus()
        if at >= self.ended:
            status.conditions = [
                Condition("Complete" if self.succeeds else "Failed", "True", last_transition_time=text(self.ended))
            ]
        return RecordedJob(
            Meta(self.name, "team", f"job-{self.name}", creation_timestamp=text(self.submit), labels={"size": "small"}),
            RecordedJobSpec(parallelism=self.pods, completions=self.pods), status,
        )  # fmt: skip

    def pod(self, number: int, at: int) -> RecordedPod:
        owner = OwnerReference("Job", self.name, f"job-{self.name}", controller=True)
        meta = Meta(f"{self.name}-{number}", "team", f"pod-{self.name}-{number}", creation_timestamp=text(self.submit),
                    owner_references=[owner])  # fmt: skip
        spec = RecordedPodSpec(
            node_name="node" if at >= self.bound else "",
            containers=[Container("main", Resources({"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"}))],
        )
        phase, state = "Pending", ContainerState()
        if at >= self.ended:
            phase = "Succeeded" if self.succeeds else "Failed"
            state.terminated = Terminated("", text(self.started), text(self.ended))
        elif at >= self.started:
            phase, state.running = "Running", Running(text(self.started))
        conditions = (
            [Condition("PodScheduled", "True", last_transition_time=text(self.bound))] if at >= self.bound else []
        )
        status = PodStatus(phase, conditions=conditions, container_statuses=[ContainerStatus("main", state)])
        return RecordedPod(meta, spec, status)


def text(ms: int) -> str:
    """A timestamp as objects have it: whole seconds."""
    moment = datetime.datetime.fromtimestamp(BEGAN // SECOND + ms // 1000, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def watch(directory: Path, jobs: Sequence[OneJob], since: int, until: int, *, well: int = 0, salt: bytes = b"") -> None:
    """One process: lists what there is at `since` and watches until it is killed. `well`: last write of the one before; 0: none."""
    journal = Journal(directory, f"{since:09}")

    def tell(lines: list[recordings.SeenLine]) -> None:
        journal.add(lines)
        journal.flush()

    sightings = Sightings(Describer(NameHider(salt), {"class": "size"}), EPOCH, BEGAN, tell)
    sightings.knows(recordings.read_lines(directory)[0])
    there = [job for job in jobs if job.submit <= since < job.deleted]
    sightings.doubt = since - well if well else MOST_DOUBT
    for job in there:
        sightings.job(stamp(since), LISTED, job.job(since))
    sightings.job(stamp(since), SYNCED, None)
    for job in there:
        for number in range(job.pods):
            sightings.pod(stamp(since), LISTED, job.pod(number, since))
    sightings.pod(stamp(since), SYNCED, None)
    sightings.doubt = 0
    changes = sorted(
        ((at, job) for job in jobs for at in set(job.changes()) if since < at < until), key=lambda one: one[0]
    )
    for at, job in changes:
        event = ADDED if at == job.submit else DELETED if at == job.deleted else MODIFIED
        if event == ADDED or at not in (job.bound, job.started):
            sightings.job(stamp(at), event, job.job(at))
        for number in range(job.pods):
            sightings.pod(stamp(at), event, job.pod(number, at))
    journal.close()


def stamp(ms: int) -> int:
    """On the clock of stamps."""
    return EPOCH + ms * MILLISECOND
