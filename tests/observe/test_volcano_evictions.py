"""Who gets the place that Volcano takes: its condition has the reason, and a nomination the pod that preempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial import stacks
from seatrial.kube.shapes import Condition, Meta, Pod, PodSpec, PodStatus
from seatrial.kube.watching import ADDED, DELETED, MODIFIED
from seatrial.model.fleet import PREEMPTED, RECLAIMED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.lifecycle import PLAIN
from seatrial.model.units import SECOND
from seatrial.observe.observer import Observer
from seatrial.record.evictions import read_lines
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.stacks.volcano.objects import see_volcano_pod

LOW, HIGH = range(2)


class Cluster:
    """A pod `low` on node n0, and a pod `high` of a higher priority that waits."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.now = directory, 0
        self.observer = Observer(Ledger(PLAIN, Segment(directory)))
        phase = self.observer.ledger.phase("load")
        for name in ("low", "high"):
            self.observer.workloads[name] = self.observer.ledger.workload(phase, 1)
        self.see(ADDED, "low")
        self.see(MODIFIED, "low", "Running", node="n0")
        self.see(ADDED, "high")

    def see(
        self, event: str, name: str, phase: str = "Pending", node: str = "", nominated: str = "", said: str = ""
    ) -> None:
        self.now += SECOND // 10
        conditions = [Condition("Ready", "False", "Evict", said)] if said else []
        status = PodStatus(phase, nominated_node_name=nominated, conditions=conditions)
        spec = PodSpec(node, priority=50 if name == "high" else 10)
        meta = Meta(f"{name}-0", uid=name, labels={WORKLOAD_LABEL: name})
        see_volcano_pod(self.observer, self.now, event, Pod(meta, spec, status))

    def lose(self, action: str) -> None:
        self.see(DELETED, "low", "Running", "n0", said=f"Pod is evicted, because of {action}")

    def evictions(self) -> list[tuple[int, str, int]]:
        self.observer.ledger.flush()
        [file] = self.directory.glob("evictions*")
        found = read_lines(file.read_text().splitlines())
        rows: list[tuple[int, str, int]] = found.select("workload", "reason", "by").rows()
        return rows


@pytest.mark.parametrize("nominated_first", [True, False])
def test_a_preempted_pod_lost_its_place_to_the_one_that_is_nominated_there(
    tmp_path: Path, nominated_first: bool
) -> None:
    cluster = Cluster(tmp_path)
    if nominated_first:
        cluster.see(MODIFIED, "high", nominated="n0")
    cluster.lose("preempt")
    if not nominated_first:
        cluster.see(MODIFIED, "high", nominated="n0")
    assert cluster.evictions() == [(LOW, PREEMPTED, HIGH)]


LOG = (
    "E1119 21:07:33.123456   12345 reclaim.go:186] Try to reclaim Task <seatrial/{}> for Tasks <seatrial/{}>\n"
    "I1119 21:07:33.123499   12345 cache.go:229] Evicting pod seatrial/low-0, because of reclaim\n"
)


@pytest.mark.parametrize("lost_too", [False, True])
def test_who_reclaims_is_named_by_the_schedulers_log(tmp_path: Path, lost_too: bool) -> None:
    cluster = Cluster(tmp_path)
    cluster.lose("reclaim")
    if lost_too:
        cluster.see(MODIFIED, "high", "Running", node="n0")
        cluster.see(DELETED, "high", "Running", node="n0")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "volcano-scheduler.log").write_text(LOG.format("other-0", "low-0") + LOG.format("low-0", "high-0"))
    for victim, pod in stacks.find("volcano").real.evicted_for(logs):
        cluster.observer.evicted_for(victim, pod)
    assert cluster.evictions() == [(LOW, RECLAIMED, HIGH)]


def test_who_reclaims_is_not_nominated_and_not_guessed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.see(MODIFIED, "high", nominated="n0")  # for another eviction
    cluster.lose("reclaim")
    assert cluster.evictions() == [(LOW, RECLAIMED, -1)]
