"""Real Kueue with the queues of a shared fleet: who is evicted for whom, and that what was evicted completes after all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.runs.conftest import Start

pytestmark = pytest.mark.local

# Red fills 16 cores with four gangs, eight of them borrowed. Blue then wants its own eight back, and a high priority wants a place.
TEAMS = """
name: teams
nodes: [{name: fake, count: 4, capacity: {cpu: 4, memory: 8Gi}, pods: {start: 200ms}}]
priorities: {low: 10, high: 100}
queues:
  red: {cohort: all, quota: {cpu: 8}}
  blue: {cohort: all, quota: {cpu: 8}}
preemption: {within-queue: lower-priority, reclaim: any}
stacks: [kueue]
steps:
  - submit: {name: long, queue: red, priority: low, count: 4, pods: 2, duration: 9s, requests: {cpu: 2}, gang: true}
  - wait: {for: running, timeout: 30s}
  - - submit: {name: back, queue: blue, count: 2, pods: 2, duration: 2s, requests: {cpu: 2}, gang: true}
    - submit: {name: urgent, queue: red, priority: high, count: 1, duration: 2s, requests: {cpu: 2}}
  - wait: {for: completed, timeout: 60s}
expect: ["completed == submitted"]
"""

# Nobody has a quota of a's nodes but red. With fair sharing the idle quota of new nodes goes 1:3.
FAIR = """
name: fair
nodes:
  - {name: old, count: 1, capacity: {cpu: 2, memory: 8Gi}, taints: ["old=yes:NoSchedule"], pods: {start: 200ms}}
  - {name: new, count: 2, capacity: {cpu: 2, memory: 8Gi}, pods: {start: 200ms}}
flavors: {a: {nodes: old}, h: {nodes: new}}
queues:
  red: {cohort: all, quota: {a: {cpu: 2}, h: {cpu: 0}}, weight: 1}
  blue: {cohort: all, quota: {h: {cpu: 0}}, weight: 3}
  idle: {cohort: all, quota: {h: {cpu: 4}}}
preemption: {reclaim: any, fair-sharing: true}
stacks: [kueue]
steps:
  - submit: {name: first, queue: red, count: 6, duration: 8s, requests: {cpu: 1}}
  - wait: {for: running, timeout: 30s}
  - submit: {name: second, queue: blue, count: 4, duration: 3s, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 60s}
expect: ["completed == submitted"]
"""

# The small one reclaims its quota from the lender, the large one preempts the small one, and then the lender is first again.
LIVELOCK = """
name: livelock
nodes: [{name: fake, count: 1, capacity: {cpu: 8, memory: 64Gi}, pods: {start: 1s}}]
stacks: [kueue]
queues: {red: {cohort: all, quota: {cpu: 2}, borrow: any}, blue: {cohort: all, quota: {cpu: 3}, borrow: any}}
preemption: {within-queue: lower-priority, reclaim: any, while-borrowing: lower-priority}
steps:
  - submit: {name: lender, queue: red, priority: 2, count: 1, duration: 1h, requests: {cpu: 5}}
  - pause: 1s
  - submit: {name: large, queue: blue, priority: 1, count: 1, duration: 1h, requests: {cpu: 4}}
  - pause: 1s
  - submit: {name: small, queue: blue, priority: 0, count: 1, duration: 1h, requests: {cpu: 2}}
  - wait: {for: completed, timeout: 90s}
expect: ['outcome == "clogged"', "evicted >= 6"]
"""


class Ran:
    """The trial of a run that must have completed: its record, evictions with names, times and pods."""

    def __init__(self, start: Start, directory: Path, scenario: str) -> None:
        (directory / "scenario.yaml").write_text(scenario)
        process = start("run", "scenario.yaml", "--on", "local", "-o", "out")
        _, words = process.communicate(timeout=150)
        assert process.returncode == 0, words
        (trial,) = (directory / "out" / "trials").iterdir()
        self.record: dict[str, Any] = json.loads((trial / "trial.json").read_text())
        sent = [json.loads(line) for line in (trial / "submitted.jsonl").read_text().splitlines()]
        names = {line["number"]: line["workload"] for line in sent} | {-1: ""}
        self.evictions = pl.read_parquet(trial / "evictions.parquet").with_columns(
            pl.col("workload", "by").replace_strict(names, return_dtype=pl.String)
        )
        self.times = pl.read_csv(directory / "out" / "times.csv", infer_schema_length=None)
        self.pods = pl.read_csv(directory / "out" / "pods.csv")

    def evicted(self) -> list[tuple[str, str, str]]:
        """Workload, reason and by whom, each without its number."""
        rows = self.evictions.filter(pl.col("event") == "evicted").select("workload", "reason", "by").rows()
        return [(one.partition("-")[0], reason, by.partition("-")[0]) for one, reason, by in rows]

    def check_books(self) -> None:
        """Every eviction is followed by an admission of the same workload, and nothing makes the trial doubtful."""
        assert self.record["validity"]["reasons"] == []
        for _, events in self.evictions.group_by("workload"):
            said = events.sort("at_ns")["event"].to_list()
            assert said == ["evicted", "readmitted"] * (len(said) // 2)


def test_a_queue_takes_its_quota_back_and_a_priority_takes_its_place_and_gangs_run_again(
    start: Start, tmp_path: Path
) -> None:
    ran = Ran(start, tmp_path, TEAMS)
    ran.check_books()
    evicted = ran.evicted()
    assert {("long", "reclaimed", "back"), ("long", "preempted", "urgent")} == set(evicted)
    assert evicted.count(("long", "reclaimed", "back")) >= 1
    again = set(ran.evictions["workload"])
    ends = {row["workload"]: row["completed_s"] for row in ran.times.iter_rows(named=True)}
    assert max(ends[name] for name in ends if name.startswith(("back", "urgent"))) < min(ends[name] for name in again)
    runs = ran.pods.filter(pl.col("workload").is_in(again)).group_by("workload")
    took = runs.agg(pl.col("finished_s").min() - pl.col("started_s").max())["finished_s"]
    assert (took >= 9.0).all(), "an evicted gang runs its whole time again, from when all its pods run"


def test_idle_quota_is_shared_by_weight_and_each_flavor_has_its_own_nodes(start: Start, tmp_path: Path) -> None:
    ran = Ran(start, tmp_path, FAIR)
    ran.check_books()
    assert set(ran.evicted()) == {("first", "fair-sharing", "second")}
    assert len(ran.evicted()) == 3, "one of four borrowed cores is red's share, by its weight of 1 to 3"
    of_red = ran.pods.filter(pl.col("workload").str.starts_with("first"))["node"]
    of_blue = ran.pods.filter(pl.col("workload").str.starts_with("second"))["node"]
    assert (of_red == "old-0").sum() >= 2
    assert set(of_blue) <= {"new-0", "new-1"}


def test_three_workloads_of_real_kueue_evict_each_other_for_ever_and_the_trial_says_so(
    start: Start, tmp_path: Path
) -> None:
    ran = Ran(start, tmp_path, LIVELOCK)
    assert {("lender", "reclaimed", "small"), ("small", "preempted", "large")} == set(ran.evicted())
    clog = ran.record["clog"]
    assert clog["kind"] == "livelock"
    assert set(clog["workloads"]) == {"lender-0", "large-0", "small-0"}
