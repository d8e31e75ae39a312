"""The real Coscheduling: gangs come whole, and where none is turned down only the permit wait frees what parts of gangs hold."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.stacks.coscheduling.real import CONTROLLER, SCHEDULER
from tests.conftest import Seatrial

pytestmark = pytest.mark.local

PERMIT_S = 5
# Four gangs of six pods crowd eight nodes; whether parts of them hold each other up is chance. Then seven nodes are taken, and
# half of a gang holds the eighth, which `late` waits for: only the permit wait gives it back.
SCENARIO = f"""
name: half-placed
nodes: [{{name: fake, count: 8, capacity: {{cpu: 3, memory: 32Gi}}, pods: {{start: 200ms}}}}]
setups:
  holding:
    stack: coscheduling
    settings: {{coscheduling: {{permit-wait: {PERMIT_S}s, reject-percentage: 100}}}}
steps:
  - submit: {{name: fits, gang: true, count: 3, pods: 2, duration: 1s, requests: {{cpu: 2, memory: 50M}}}}
  - submit: {{name: single, count: 2, duration: 1s, requests: {{cpu: 500m}}}}
  - wait: {{for: completed, timeout: 30s}}
  - submit: {{name: crowd, gang: true, count: 4, pods: 6, duration: 1s, requests: {{cpu: 2, memory: 50M}}}}
  - wait: {{for: completed, timeout: 100s}}
  - submit: {{name: blocker, count: 7, duration: 15s, requests: {{cpu: 2, memory: 50M}}}}
  - wait: {{for: running, of: blocker, timeout: 30s}}
  - submit: {{name: half, gang: true, count: 1, pods: 2, duration: 1s, requests: {{cpu: 2, memory: 50M}}}}
  - pause: 3s
  - submit: {{name: late, count: 1, duration: 1s, requests: {{cpu: 2, memory: 50M}}}}
  - wait: {{for: completed, timeout: 100s}}
expect: ["completed == 18"]
"""


@pytest.fixture(scope="session", autouse=True)
def built_too() -> None:
    ensure_binaries((SCHEDULER, CONTROLLER))


def test_gangs_come_whole_and_half_placed_ones_are_resolved_by_the_permit_wait(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    (tmp_path / "half-placed.yaml").write_text(SCENARIO)
    done = seatrial("run", "half-placed.yaml", "--on", "local", "-o", "out")
    assert done.returncode == 0, done.stderr
    times = pl.read_csv(tmp_path / "out" / "times.csv").sort("scheduled_s")
    pods = pl.read_csv(tmp_path / "out" / "pods.csv")
    bound = pods.group_by("workload").agg(pl.len(), apart=pl.col("bound_s").max() - pl.col("bound_s").min())
    bound = bound.join(times.select("workload", "size", "phase"), on="workload")
    assert (bound["len"] == bound["size"]).all()
    assert bound.filter(pl.col("phase") != "single")["apart"].max() < 2  # type: ignore[operator]
    half, late = (times.row(by_predicate=pl.col("phase") == phase, named=True) for phase in ("half", "late"))
    assert late["scheduled_s"] - half["created_s"] > PERMIT_S - 0.1, "half of a gang held what would have been enough"
    assert late["scheduled_s"] - late["created_s"] > 1, "it was there to take it"
