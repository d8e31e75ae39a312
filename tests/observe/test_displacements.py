"""Who was evicted for whom, seen from pods alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.kube.shapes import Condition, Meta, Pod, PodSpec, PodStatus
from seatrial.kube.watching import ADDED, DELETED, MODIFIED
from seatrial.model.fleet import NODE_GONE, OTHER, PREEMPTED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.lifecycle import PLAIN
from seatrial.model.units import SECOND
from seatrial.observe.observer import Observer, see_pod
from seatrial.record.evictions import read_lines
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment

EVICTED, READMITTED = "evicted", "readmitted"


class Cluster:
    """An observer with the workloads `low` (two pods), `other` (one pod) and `high` (two pods), and what it saw of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.observer = Observer(Ledger(PLAIN, Segment(directory)))
        phase = self.observer.ledger.phase("load")
        for name, size in (("low", 2), ("other", 1), ("high", 2)):
            self.observer.workloads[name] = self.observer.ledger.workload(phase, size)
        self.now = 0

    def see(self, event: str, name: str, phase: str = "Pending", **more: str) -> None:
        """An event of the pod `name`, of the workload that its name begins with."""
        self.now += SECOND
        workload = name.partition("-")[0]
        why = more.get("why", "")
        conditions = [Condition("DisruptionTarget", "True", why, "said so")] if why else []
        status = PodStatus(phase, nominated_node_name=more.get("nominated", ""), conditions=conditions)
        spec = PodSpec(more.get("node", ""), priority=100 if workload == "high" else 10)
        see_pod(
            self.observer, self.now, event, Pod(Meta(name, uid=name, labels={WORKLOAD_LABEL: workload}), spec, status)
        )

    def run(self, name: str, node: str) -> None:
        self.see(ADDED, name)
        self.see(MODIFIED, name, "Running", node=node)

    def lose(self, name: str, node: str, why: str = "PreemptionByScheduler") -> None:
        self.see(DELETED, name, "Running", node=node, why=why)

    def events(self) -> list[tuple[str, int, str, int]]:
        """event, workload, reason, by whom."""
        self.observer.ledger.flush()
        files = list(self.directory.glob("evictions*"))
        lines = files[0].read_text().splitlines() if files else []
        return read_lines(lines).select("event", "workload", "reason", "by").rows()


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path)
    made.run("low-0", "n0")
    made.run("low-1", "n1")
    return made


LOW, OTHER_ONE, HIGH = range(3)


def test_a_preempted_pod_evicts_its_workload_for_the_pod_that_is_nominated_to_its_node(cluster: Cluster) -> None:
    cluster.see(ADDED, "high-0")
    cluster.see(MODIFIED, "high-0", nominated="n0")
    cluster.lose("low-0", "n0")
    assert cluster.events() == [(EVICTED, LOW, PREEMPTED, HIGH)]
    assert cluster.observer.ledger.evicted == {LOW}


def test_pods_that_fall_while_the_workload_has_no_place_belong_to_the_same_eviction(cluster: Cluster) -> None:
    cluster.lose("low-0", "n0")
    cluster.lose("low-1", "n1")
    assert [event[0] for event in cluster.events()] == [EVICTED]


def test_a_workload_is_readmitted_when_all_its_pods_are_bound_again(cluster: Cluster) -> None:
    cluster.lose("low-0", "n0")
    cluster.lose("low-1", "n1")
    cluster.run("low-0-again", "n0")
    assert cluster.observer.ledger.evicted == {LOW}
    cluster.run("low-1-again", "n2")
    assert [event[0] for event in cluster.events()] == [EVICTED, READMITTED]
    assert not cluster.observer.ledger.evicted
    cluster.lose("low-1-again", "n2")
    assert [event[0] for event in cluster.events()] == [EVICTED, READMITTED, EVICTED]


def test_a_gang_that_was_evicted_while_half_placed_is_whole_only_with_all_its_pods(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.run("low-0", "n0")
    cluster.see(ADDED, "low-1")
    cluster.lose("low-0", "n0")
    cluster.run("low-0-again", "n0")
    assert cluster.observer.ledger.evicted == {LOW}
    cluster.see(MODIFIED, "low-1", node="n1")
    assert not cluster.observer.ledger.evicted


def test_a_nomination_that_is_seen_after_the_victim_is_told_then_and_a_late_one_is_not(cluster: Cluster) -> None:
    cluster.see(ADDED, "high-0")
    cluster.lose("low-0", "n0")
    cluster.see(MODIFIED, "high-0", nominated="n0")
    assert cluster.events() == [(EVICTED, LOW, PREEMPTED, HIGH)]
    cluster.run("other-0", "n5")
    cluster.lose("other-0", "n5")
    cluster.now += 2 * SECOND
    cluster.see(ADDED, "high-2", nominated="n5")
    assert cluster.events()[1:] == [(EVICTED, OTHER_ONE, PREEMPTED, -1)]


def test_a_nomination_to_another_node_or_one_of_no_higher_priority_is_not_the_preemptor(cluster: Cluster) -> None:
    cluster.see(ADDED, "high-0")
    cluster.see(MODIFIED, "high-0", nominated="n9")
    cluster.see(ADDED, "other-0")
    cluster.see(MODIFIED, "other-0", nominated="n0")
    cluster.lose("low-0", "n0")
    assert cluster.events() == [(EVICTED, LOW, PREEMPTED, -1)]


def test_a_pod_that_is_bound_or_gone_is_nominated_no_more(cluster: Cluster) -> None:
    for name in ("high-0", "high-1"):
        cluster.see(ADDED, name)
        cluster.see(MODIFIED, name, nominated="n0")
    cluster.see(MODIFIED, "high-0", nominated="n0", node="n0")
    cluster.see(DELETED, "high-1", nominated="n0")
    cluster.lose("low-0", "n0")
    assert cluster.events() == [(EVICTED, LOW, PREEMPTED, -1)]


@pytest.mark.parametrize(
    ("why", "reason"),
    [("DeletionByTaintManager", NODE_GONE), ("DeletionByPodGC", NODE_GONE), ("EvictionByEvictionAPI", OTHER)],
)
def test_the_reason_is_that_of_the_condition(cluster: Cluster, why: str, reason: str) -> None:
    cluster.lose("low-0", "n0", why)
    assert cluster.events() == [(EVICTED, LOW, reason, -1)]


def test_a_pod_of_a_node_that_is_gone_fails_first_and_is_lost_not_finished(cluster: Cluster) -> None:
    ledger = cluster.observer.ledger
    cluster.see(MODIFIED, "low-0", "Failed", node="n0", why="DeletionByPodGC")
    cluster.see(DELETED, "low-0", "Failed", node="n0", why="DeletionByPodGC")
    assert cluster.events() == [(EVICTED, LOW, NODE_GONE, -1)]
    assert ledger.left(LOW, ledger.number["finished"]) == 2


def test_deleting_a_workload_evicts_nobody(cluster: Cluster) -> None:
    cluster.see(DELETED, "low-0", "Running", node="n0")
    assert cluster.events() == []


def test_a_pod_that_is_taken_before_it_has_a_node_evicts_nobody(cluster: Cluster) -> None:
    cluster.see(ADDED, "other-0")
    cluster.see(DELETED, "other-0", why="PreemptionByScheduler")
    assert cluster.events() == []
