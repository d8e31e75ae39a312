"""YuniKorn's victims, and placeholders, as watches of pods show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial import stacks
from seatrial.kube.shapes import Condition, Meta, Pod, PodSpec, PodStatus
from seatrial.kube.watching import ADDED, DELETED, MODIFIED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.units import SECOND
from seatrial.observe.observer import Observer
from seatrial.record.evictions import read_lines
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.stacks.yunikorn.objects import PLACEHOLDER_LABEL, QUEUE_LABEL, see_pod_and_eviction


class Watched:
    """An observer of one workload `one` with one pod."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.observer = Observer(Ledger(stacks.find("yunikorn").stages, Segment(directory)))
        self.number = self.observer.ledger.workload(self.observer.ledger.phase("load"), 1)
        self.observer.workloads["one"] = self.number
        self.now = 0

    def see(self, event: str, name: str, phase: str = "Running", queue: str = "root.red", node: str = "n") -> None:
        self.now += SECOND
        labels = {WORKLOAD_LABEL: "one"} | ({QUEUE_LABEL: queue} if queue else {})
        pod = Pod(Meta(name, uid=name, labels=labels), PodSpec(node), PodStatus(phase))
        see_pod_and_eviction(self.observer, self.now, event, pod)

    def evictions(self) -> list[tuple[str, str]]:
        self.observer.ledger.flush()
        files = list(self.directory.glob("evictions*"))
        lines = files[0].read_text().splitlines() if files else []
        return read_lines(lines).select("event", "reason").rows()


def test_a_running_pod_of_a_queue_that_is_deleted_was_reclaimed_and_the_next_one_has_its_place(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.see(ADDED, "one-a", node="")
    watched.see(MODIFIED, "one-a")
    watched.see(DELETED, "one-a")
    watched.see(ADDED, "one-b")
    assert watched.evictions() == [("evicted", "reclaimed"), ("readmitted", "")]


@pytest.mark.parametrize(("phase", "queue"), [("Succeeded", "root.red"), ("Running", "")])
def test_a_pod_that_has_ended_was_not_nor_one_without_a_queue(tmp_path: Path, phase: str, queue: str) -> None:
    watched = Watched(tmp_path)
    watched.see(ADDED, "one-a", phase, queue)
    watched.see(DELETED, "one-a", phase, queue)
    assert watched.evictions() == []


def test_a_pod_of_a_deleted_workload_goes_with_it(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.see(ADDED, "one-a")
    watched.observer.workload("one", "deleted", watched.now)
    watched.see(DELETED, "one-a")
    assert watched.evictions() == []


def test_a_placeholder_that_waits_says_why_its_gang_does(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    told = [Condition("PodScheduled", "False", "Unschedulable", "request is waiting")]
    held = Pod(
        Meta("tg-1", uid="tg-1", labels={PLACEHOLDER_LABEL: "one"}), PodSpec(""), PodStatus("Pending", conditions=told)
    )
    see_pod_and_eviction(watched.observer, SECOND, ADDED, held)
    assert watched.observer.said[watched.number] == "request is waiting"
    bound = Pod(Meta("tg-1", uid="tg-1", labels={PLACEHOLDER_LABEL: "one"}), PodSpec("n"), PodStatus("Pending"))
    see_pod_and_eviction(watched.observer, 2 * SECOND, MODIFIED, bound)
    assert watched.observer.said[watched.number] == ""
    assert watched.observer.held == {"one": {"tg-1": "n"}}
