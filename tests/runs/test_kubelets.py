"""Real kubelets with played containers, on a control plane of this machine."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import COMMAND, Seatrial, command_in
from tests.runs.conftest import Start, component_pid, processes_of
from tests.waiting import eventually

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


def test_a_run_killed_while_kubelets_run_leaves_nothing_after_the_next_command(
    start: Start, tmp_path: Path, own_state: Path, seatrial: Seatrial
) -> None:
    (tmp_path / "both.yaml").write_text(BOTH)
    run = start("run", "both.yaml", "--on", "local", "-o", "out")
    component_pid("kubelets")
    assert eventually(lambda: any(own_state.glob("seatrial/clusters/*/kubelets/*/pods/*"))), "no pod began to run"
    run.kill()
    run.communicate()
    assert seatrial("cluster", "status").returncode == 0
    assert not processes_of(own_state)
    assert not list(own_state.glob("seatrial/clusters/*/"))
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


TEAMS = """
name: teams-of-gangs
nodes:
  - {name: node, count: 3, kubelet: true, capacity: {cpu: 4, memory: 8Gi}, runtime: {sandbox: 100ms, start: 200ms}}
stacks: [volcano]
queues:
  red: {cohort: all, quota: {cpu: 6, memory: 12Gi}, borrow: any}
  blue: {cohort: all, quota: {cpu: 6, memory: 12Gi}, borrow: any}
steps:
  - submit: {name: gang, queue: each, sizes: [2, 3, 4], gang: true, duration: 2s, requests: {cpu: 1, memory: 50M}}
  - wait: {for: completed, timeout: 2m}
expect: ["completed == submitted"]
"""


def test_a_gang_scheduler_with_queues_works_on_kubelets_as_on_fake_nodes(seatrial: Seatrial, tmp_path: Path) -> None:
    """18 pods of gangs on twelve cores, so that some gang waits. Every stack: benchmarks/kubelets_stacks.py."""
    (tmp_path / "teams.yaml").write_text(TEAMS)
    done = seatrial("run", "teams.yaml", "--on", "local", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert _validity(tmp_path / "out")["runtime"]["started"] == 18
    gangs = pl.read_csv(tmp_path / "out" / "pods.csv").group_by("workload")
    together = gangs.agg(pl.col("finished_s").min() - pl.col("started_s").max())["finished_s"]
    assert len(together) == 6 and together.min() > 1.8, "a gang's pods run for 2 s from the moment the last one does"  # type: ignore[operator]
    used = pl.read_csv(tmp_path / "out" / "queues.csv")
    assert dict(used.select("queue", "completed").iter_rows()) == {"red": 3, "blue": 3}


FAULTS = """
name: faults
nodes:
  - {name: failing, count: 1, kubelet: true, capacity: {cpu: 4, memory: 8Gi}, labels: {kind: failing}, runtime: {start: 100ms}}
  - {name: full, count: 1, kubelet: true, capacity: {cpu: 4, memory: 8Gi}, labels: {kind: full}, runtime: {start: 100ms}}
  - {name: gone, count: 2, kubelet: true, capacity: {cpu: 4, memory: 8Gi}, labels: {kind: gone}, runtime: {start: 100ms}}
  - {name: slow, count: 1, kubelet: true, capacity: {cpu: 4, memory: 8Gi}, labels: {kind: slow}, runtime: {start: 100ms}}
  - {name: crashing, count: 1, kubelet: true, capacity: {cpu: 4, memory: 8Gi}, labels: {kind: crashing}, runtime: {start: 100ms}}
  - {name: down, count: 2, kubelet: true, capacity: {cpu: 4, memory: 8Gi}, labels: {kind: down}, runtime: {start: 100ms}}
stacks: [default]
settings: {kube-controller-manager: {--node-monitor-grace-period: 15s}}
steps:
  - - nodes: {trouble: failing, fail-every: 2}
    - nodes: {trouble: full, disk: full}
    - nodes: {trouble: slow, slow: 1s}
    - nodes: {trouble: crashing, crash-every: 2}
  - - submit: {name: failing, count: 4, duration: 1s, requests: {cpu: 100m}, selector: {kind: failing}}
    - submit: {name: gone, count: 2, duration: 4s, requests: {cpu: 3}, selector: {kind: gone}}
    - submit: {name: slow, count: 1, duration: 1s, requests: {cpu: 100m}, selector: {kind: slow}}
    - submit: {name: crashing, count: 2, duration: 1s, requests: {cpu: 100m}, selector: {kind: crashing}}
    - submit:
        name: down
        count: 2
        duration: 4s
        requests: {cpu: 3}
        selector: {kind: down}
        overlay: {spec: {template: {spec: {tolerations: [
          {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}]}}}}
  - pause: 2s
  - - nodes: {stop: gone, count: 1}
    - nodes: {stop: down, count: 1}
  - pause: 28s
  - nodes: {start: gone, count: 1}
  - wait: {for: completed, timeout: 90s}
expect: ["completed == submitted"]
"""


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One trial with every fault at once, each on nodes of its own."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "faults.yaml").write_text(FAULTS)
    done = command_in(folder, *COMMAND)(
        "run", "faults.yaml", "--on", "local", "-o", "out", XDG_STATE_HOME=str(folder / "state")
    )
    assert done.returncode == 0, done.stderr
    return folder / "out"


def _validity(out: Path) -> dict[str, Any]:
    trial = json.loads(next((out / "trials").glob("*/trial.json")).read_text())
    found: dict[str, Any] = trial["validity"]
    return found


def _said(out: Path, node: str, condition: str) -> list[str]:
    changes = _validity(out)["node_conditions"]
    return [one["status"] for one in changes if (one["node"], one["condition"]) == (node, condition)]


def test_a_start_that_failed_is_counted_and_tried_again(faults: Path) -> None:
    counts = _validity(faults)["runtime"]
    assert counts["start_failed"] >= 2
    assert counts["started"] == 13, "each of the 11 pods once, that of the crash and that of the eviction again"


def test_a_stopped_kubelet_makes_its_node_not_ready_and_reports_what_ended_meanwhile_when_it_is_back(
    faults: Path,
) -> None:
    assert _said(faults, "gone-0", "Ready") == ["Unknown", "True"]
    assert _said(faults, "gone-1", "Ready") == []
    pods = pl.read_csv(faults / "pods.csv").filter(pl.col("workload").str.starts_with("gone"))
    ended = dict(pods.select("node", "finished_s").iter_rows())
    assert ended["gone-1"] < 20 and ended["gone-0"] > 28


def test_a_pod_is_evicted_from_a_node_that_stays_down_and_runs_on_another(faults: Path) -> None:
    assert _said(faults, "down-0", "Ready") == ["Unknown"]
    pods = pl.read_csv(faults / "pods.csv").filter(pl.col("workload").str.starts_with("down"))
    [evicted] = pods.filter(pl.col("lost_s").is_not_null()).select("workload", "node").rows()
    assert evicted[1] == "down-0"
    assert pods.filter(pl.col("workload") == evicted[0])["node"].to_list() == ["down-0", "down-1"]
    [trial] = pl.read_csv(faults / "summary.csv").select("evicted", "node_gone").rows()
    assert trial == (1, 1)


def test_a_container_that_ends_with_an_error_is_lost_and_its_job_runs_another(faults: Path) -> None:
    assert _validity(faults)["runtime"]["crashed"] == 1
    pods = pl.read_csv(faults / "pods.csv").filter(pl.col("workload").str.starts_with("crashing"))
    assert pods.height == 3
    assert pods["lost_s"].count() == 1 and pods["finished_s"].count() == 2


def test_a_full_disk_shows_as_disk_pressure(faults: Path) -> None:
    assert _said(faults, "full-0", "DiskPressure") == ["True"]


def test_a_slow_runtime_shows_in_the_time_to_start_and_in_the_kubelets_own_measurements(faults: Path) -> None:
    pods = pl.read_csv(faults / "pods.csv")
    slow = pods.filter(pl.col("node") == "slow-0")["time_to_start_s"].item()
    usual = pods.filter(pl.col("node") == "gone-1")["time_to_start_s"].item()
    assert slow > usual + 3, "sandbox, container and start take a second longer each"
    metrics = pl.read_parquet(next((faults / "trials").glob("*/metrics.parquet")))
    mine = metrics.filter(pl.col("source") == "kubelets")
    assert {"kubelet_pleg_relist_duration_seconds_count", "kubelet_pod_start_sli_duration_seconds_count",
            "kubelet_runtime_operations_errors_total", "kubelet_pod_status_sync_duration_seconds_count",
            "kubelet_pod_worker_duration_seconds_count"} <= set(mine["metric"])  # fmt: skip


def test_the_stages_of_the_runtime_are_in_the_study_in_their_order(faults: Path) -> None:
    times = pl.read_csv(faults / "times.csv")
    order = ["scheduled_s", "sandbox_s", "pulled_s", "container_created_s", "running_s"]
    for earlier, later in pairwise(order):
        assert (times[later] - times[earlier]).min() > -0.1, (earlier, later)  # type: ignore[operator]
