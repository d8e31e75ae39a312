"""Parts of a live cluster that need no API server to be shown: the session, the placement, and the nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from seatrial import stacks
from seatrial.clusters.attached.placement import StudyPlacement
from seatrial.clusters.live.node_pool import NodePool
from seatrial.clusters.live.session import Session
from seatrial.clusters.supervision.supervisor import Death
from seatrial.kube.shapes import Meta, Node, NodeStatus
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.lifecycle import PLAIN
from seatrial.model.plan import NodeGroup, PodShape, Taint, Toleration, Trial, Workload
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.record.submissions import Submissions
from seatrial.scenario.actions.change_nodes import NodeChange
from tests.sim.making import trial

FAKE = NodeGroup("fake", 2, {"cpu": 4000})
STUDY = "1a2b3c4d"


def trial_with(*groups: NodeGroup) -> Trial:
    return trial(nodes=groups)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    ledger = Ledger(PLAIN, Segment(tmp_path))
    return Session(trial_with(FAKE), stacks.find("default"), ledger, Submissions(tmp_path), tmp_path, STUDY)


def death(restarting: bool) -> Death:
    return Death("etcd", 1, -9, 0.0, restarting, Path(), "")


def test_a_component_that_is_not_restarted_ends_the_trial_and_the_first_reason_counts(session: Session) -> None:
    async def main() -> str:
        session.begin()
        session.died(death(restarting=True))
        session.died(death(restarting=False))
        session.break_off("later")
        return await session.broken()

    assert "it is not started again" in asyncio.run(main())
    assert len(session.deaths) == 2


def test_the_clock_stands_before_the_epoch_and_after_the_end(session: Session) -> None:
    assert session.now() == 0
    session.start_clock()
    time.sleep(0.001)
    session.stop_clock()
    end = session.now()
    time.sleep(0.001)
    assert session.now() == end > 0


def test_on_a_foreign_cluster_nodes_carry_the_study_and_pods_go_to_them_alone() -> None:
    placement = StudyPlacement(trial_with(FAKE), STUDY)
    [group] = placement.trial().setup.nodes
    assert group.name == f"fake-{STUDY}" and Taint(STUDY_LABEL, STUDY, "NoSchedule") in group.taints
    assert placement.group(group.name) == "fake"
    change = placement.nodes(NodeChange("n", "cordon", "fake"))
    assert change.group == group.name
    shape = placement.workload(Workload("w", "p", 0, 1, PodShape({"cpu": 1}), 1)).shape
    assert shape.selector == {STUDY_LABEL: STUDY}
    assert shape.tolerations == (Toleration(STUDY_LABEL, "Equal", STUDY, "NoSchedule"),)
    assert placement.preempts


def test_pods_for_existing_nodes_select_them_and_evict_nobody() -> None:
    placement = StudyPlacement(trial_with(NodeGroup("theirs", 0, {}, existing="pool=batch")), STUDY)
    assert placement.trial().setup.nodes == () and placement.fakes == []
    shape = placement.workload(Workload("w", "p", 0, 1, PodShape({"cpu": 1}), 1)).shape
    assert [term.key for term in shape.terms] == ["pool"] and shape.image == "busybox"
    assert not placement.preempts


class _Source:
    """Makes nodes without a cluster; two of three that exist are alike."""

    async def make(self, group: NodeGroup, first: int, there: int) -> list[str]:  # noqa: ARG002
        return [f"{group.name}-{first + index}" for index in range(group.count)]

    async def ready(self, names: set[str]) -> bool:
        return bool(names)

    async def affect(self, change: NodeChange, names: Sequence[str]) -> None:
        pass

    async def existing(self) -> list[Node]:
        sizes = {"a": "2", "b": "2", "c": "4"}
        return [Node(metadata=Meta(name=n), status=NodeStatus(allocatable={"cpu": cpu})) for n, cpu in sizes.items()]


def test_a_group_grows_and_existing_nodes_count_as_capacity(session: Session) -> None:
    nodes = NodePool(session, _Source())

    async def main() -> None:
        await nodes.add(FAKE)
        await nodes.add(FAKE)
        await nodes.count_existing()

    asyncio.run(main())
    assert nodes.made() == {"fake-0", "fake-1", "fake-2", "fake-3"}
    assert nodes.capacity() == {"cpu": 4 * 4000 + 8000}
    assert [(span["group"], span["count"]) for span in nodes.spans()][2:] == [("existing", 2), ("existing", 1)]
