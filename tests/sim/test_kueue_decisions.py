"""Kueue's rules of quota, flavors, preemption and fair sharing: decisions that Kueue's own code made, and what must always hold.

kueue-go.json is written by benchmarks/kueue_decisions.py, which compares thousands of such cases where there is Go.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.model.fleet import Cohort, FlavorQuota, Fleet, Queue
from seatrial.stacks.kueue.quota_tree import QuotaTree
from tests.sim.quota_cases import differences

KUEUES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "kueue-go.json").read_text())


@pytest.mark.parametrize("number", range(len(KUEUES)))
def test_our_decisions_are_those_of_kueues_own_code(number: int) -> None:
    assert differences(KUEUES[number]["case"], KUEUES[number]["answer"]) == []


def test_the_sample_has_evictions_of_every_reason() -> None:
    reasons = {one["reason"] for each in KUEUES for cycle in each["answer"]["cycles"] for one in cycle["evicted"]}
    assert reasons == {"InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing", "InCohortFairSharing"}


def test_what_a_queue_does_not_lend_counts_for_nobody_else() -> None:
    lends = FlavorQuota("", {"cpu": 10}, lend={"cpu": 4})
    queues = (Queue("red", (lends,), "all"), Queue("blue", (FlavorQuota("", {"cpu": 1}),), "all"))
    tree = QuotaTree(Fleet(queues, (Cohort("all"),)))
    red, blue = tree.queues["red"], tree.queues["blue"]
    cell = tree.number["", "cpu"]
    assert (red.available(cell), blue.available(cell)) == (11, 5)
    red.add_usage(cell, 6)
    assert (red.available(cell), blue.available(cell)) == (5, 5)
    red.add_usage(cell, 2)
    assert (red.available(cell), blue.available(cell)) == (3, 3)
