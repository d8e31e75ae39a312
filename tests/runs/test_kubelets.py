"""Real kubelets with played containers, on a control plane of this machine."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.conftest import COMMAND, command_in
from tests.runs.conftest import processes_of

pytestmark = pytest.mark.local

BOTH = """
name: both-kinds
nodes:
  - {name: real, count: 3, kubelet: true, capacity: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 4}, labels: {kind: kubelet},
     taints: ["slow=yes:PreferNoSchedule"], runtime: {sandbox: 100ms, start: 500ms}}
  - {name: fake, count: 1, capacity: {cpu: 4, memory: 8Gi}, labels: {kind: fake}, pods: {start: 100ms}}
stacks: [default]
steps:
  - - submit: {name: plain, count: 8, duration: 2s, requests: {cpu: 100m, memory: 50M}, selector: {kind: kubelet}}
    - submit: {name: gang, count: 1, pods: 6, gang: true, duration: 2s, requests: {cpu: 100m, memory: 50M, nvidia.com/gpu: 2}}
    - submit: {name: other, count: 2, duration: 2s, requests: {cpu: 100m, memory: 50M}, selector: {kind: fake}}
  - wait: {for: completed, timeout: 2m}
expect: ["completed == submitted"]
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One trial with kubelets and a fake node, the tool's `state` beside its `out`."""
    folder = tmp_path_factory.mktemp("kubelets")
    (folder / "both.yaml").write_text(BOTH)
    seatrial = command_in(folder, *COMMAND)
    done = seatrial("run", "both.yaml", "--on", "local", "-o", "out", XDG_STATE_HOME=str(folder / "state"))
    assert done.returncode == 0, done.stderr
    return folder


def test_kubelets_and_fake_nodes_in_one_cluster_each_run_their_own_pods(ran: Path) -> None:
    pods = pl.read_csv(ran / "out" / "pods.csv").with_columns(kind=pl.col("workload").str.extract("^([a-z]+)"))
    on = dict(pods.group_by("kind").agg(pl.col("node").str.extract("^([a-z]+)").unique()).iter_rows())
    assert on == {"plain": ["real"], "gang": ["real"], "other": ["fake"]}
    ran_s = pods.select(pl.col("finished_s") - pl.col("started_s")).to_series()
    assert (ran_s > 1.8).all(), "a pod ended before its time: KWOK took a node of a kubelet's"


def test_a_gang_on_kubelets_runs_from_the_moment_its_last_pod_does(ran: Path) -> None:
    gang = pl.read_csv(ran / "out" / "pods.csv").filter(pl.col("workload").str.starts_with("gang"))
    assert gang.height == 6
    assert gang["finished_s"].min() - gang["started_s"].max() > 1.8  # type: ignore[operator]


def test_nothing_of_the_kubelets_is_left(ran: Path) -> None:
    assert not processes_of(ran / "state")
    assert not list((ran / "state").rglob("kubelets*"))
    assert str(ran) not in Path("/proc/self/mounts").read_text()
