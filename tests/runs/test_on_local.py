"""The same scenario on the simulator and on a real control plane."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import COMMAND, Seatrial, command_in
from tests.runs.conftest import SCENARIO, processes_of

pytestmark = pytest.mark.local


def _trial(out: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads(next((out / "trials").glob("*/trial.json")).read_text())
    return document


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small scenario on both; the folder with `sim`, `local` and the tool's `state`."""
    folder = tmp_path_factory.mktemp("both")
    (folder / "small.yaml").write_text(SCENARIO)
    seatrial = command_in(folder, *COMMAND)
    for on in ("sim", "local"):
        more = ["--profile", "kube-scheduler"] if on == "local" else []
        done = seatrial("run", "small.yaml", "--on", on, "-o", on, *more, XDG_STATE_HOME=str(folder / "state"))
        assert done.returncode == 0, done.stderr
    return folder


def test_a_run_on_local_gives_what_a_run_on_the_simulator_gives(ran: Path) -> None:
    for name in ("times.csv", "pods.csv", "summary.csv"):
        sim, local = (pl.read_csv(ran / on / name) for on in ("sim", "local"))
        assert sim.columns == local.columns
        assert sim.height == local.height
    assert {p.name for p in (ran / "sim").iterdir()} == {p.name for p in (ran / "local").iterdir()}
    times = pl.read_csv(ran / "local" / "times.csv")
    stages = ["submitted_s", "created_s", "pods_created_s", "scheduled_s", "running_s", "finished_s", "completed_s"]
    for earlier, later in pairwise(stages):
        # A client's own stamp and the server's may differ by what the two clocks are read apart.
        assert ((times[later] - times[earlier]) > -0.005).all(), (earlier, later)
    pods = pl.read_csv(ran / "local" / "pods.csv")
    assert pods["node"].is_in(["fake-0", "fake-1", "fake-2"]).all()
    assert (pods["time_to_start_s"] > 0.69).all()
    assert ((times["run_s"] > 1.9) & (times["run_s"] < 4)).all()
    assert not processes_of(ran / "state")
    assert not list((ran / "state").rglob("*.key"))


def test_a_trial_on_local_says_how_far_its_times_can_be_trusted(ran: Path) -> None:
    trial = _trial(ran / "local")
    validity = trial["validity"]
    assert isinstance(validity, dict)
    assert validity["objects_created"] == validity["objects_seen"] == 12
    against = validity["watch_against_audit"]
    assert against["transitions"] == 12 * 6, "Job created and completed; pod created, bound, running, finished"
    assert 0 < against["median_ms"] <= against["p99_ms"] < 1000
    errors = {source["name"]: source["error_ns"] for source in trial["sources"]}  # type: ignore[attr-defined]
    assert errors["audit"] < errors["watch"] == pytest.approx(against["p99_ms"] * 1e6, abs=1)
    assert list((ran / "local").glob("trials/*/metrics.parquet"))
    profile = next((ran / "local").glob("trials/*/profiles/kube-scheduler-*.pprof")).read_bytes()
    assert profile.startswith(b"\x1f\x8b"), "gzipped, as pprof has it"
    assert not [p for p in (ran / "local").rglob("*") if "key" in p.name or "kubeconfig" in p.name], "no secrets"


def test_priorities_preempt_and_phases_side_by_side_keep_their_pace(seatrial: Seatrial, tmp_path: Path) -> None:
    """Both were wrong without a word: pods with a priority were refused, and the rare phase held back the frequent one."""
    text = (
        SCENARIO.split("nodes:")[0]
        + """nodes: [{name: fake, count: 1, capacity: {cpu: 2, memory: 32Gi}, pods: {start: 200ms}}]
stacks: [default]
settings: {qps: {equal: 500}}
steps:
  - submit: {name: low, count: 2, duration: 10m, requests: {cpu: 1}, priority: -5}
  - wait: {for: running, timeout: 1m}
  - - submit: {name: often, count: 8, duration: 1s, requests: {cpu: 250m}, priority: 1000, rate: 4/s}
    - submit: {name: rare, count: 2, duration: 1s, requests: {cpu: 250m}, priority: 1000, rate: 30/m}
  - wait: {for: completed, of: [often, rare], timeout: 1m}
expect: ["completed == 10"]
"""
    )
    (tmp_path / "low.yaml").write_text(text)
    done = seatrial("run", "low.yaml", "--on", "local", "-o", "out")
    assert done.returncode == 0, done.stderr
    trial = _trial(tmp_path / "out")
    rates = {rate["phase"]: rate for rate in trial["validity"]["rates"]}  # type: ignore[index]
    assert rates["often"]["late_s"] < 0.5 and rates["rare"]["late_s"] < 0.5
    times = pl.read_csv(tmp_path / "out" / "times.csv", infer_schema_length=None)
    often = times.filter(pl.col("workload").str.starts_with("often"))["submitted_s"].sort().to_list()
    assert all(0 < later - earlier < 0.75 for earlier, later in pairwise(often)), often
    assert times.filter(pl.col("workload").str.starts_with("low"))["completed_s"].is_null().all(), "they were evicted"
