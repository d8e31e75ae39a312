"""A kept cluster with nodes and a stack of its own: what is submitted there outlives whoever submits it."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from seatrial.clusters import programs
from seatrial.clusters.kwok.fake_nodes import CONNECTIONS
from seatrial.clusters.programs.binaries import ensure_binaries
from tests.conftest import COMMAND
from tests.waiting import eventually

pytestmark = pytest.mark.local

NODES = """
- {name: gpu, count: 150, capacity: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 8}, taints: ["kept=yes:NoSchedule"]}
- {name: cpu, count: 50, capacity: {cpu: 8, memory: 32Gi}, pods: {start: 200ms}}
"""

# Its own nodes would not do: a gang of three does not fit one node with four cores.
SCENARIO = """
name: small
nodes: [{name: own, count: 1, capacity: {cpu: 4, memory: 8Gi}}]
stacks: [kueue]
settings: {qps: {equal: 200}}
steps:
  - submit: {name: gang, count: 3, pods: 3, duration: 1s, requests: {cpu: 4}, gang: true}
  - submit: {name: one, count: 4, duration: 1s, requests: {cpu: 1}}
  - wait: {for: released, timeout: 80s}
expect: ["completed == submitted"]
"""

HELD = """
name: held
nodes: [{name: own, count: 1, capacity: {cpu: 4, memory: 8Gi}}]
stacks: [kueue]
settings: {qps: {equal: 200}, kueue: {stop-policy: Hold}, clog: {patience: 30s}}
steps:
  - submit: {name: short, count: 5, duration: 2s, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 80s}
expect: ['outcome == "clogged"']
"""

# A long runner leaves 2 of 8 cores of the quota; the head asks for 4, those behind it for 1.
LINE = """
name: line
nodes: [{name: own, count: 1, capacity: {cpu: 8, memory: 8Gi}}]
stacks: [kueue]
settings: {qps: {equal: 200}, kueue: {strategy: StrictFIFO, quota-cpu: "8"}}
steps:
  - submit: {name: long, count: 1, duration: 10m, requests: {cpu: 6}}
  - wait: {for: running, of: long, timeout: 60s}
  - submit: {name: head, count: 1, duration: 2s, requests: {cpu: 4}}
  - pause: 1s
  - submit: {name: tail, count: 3, duration: 2s, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 17s}
expect: ['outcome == "timeout"']
"""

TEAMS = """
name: teams
nodes: [{name: own, count: 1, capacity: {cpu: 4, memory: 8Gi}}]
priorities: {low: 10}
queues:
  red: {cohort: all, quota: {cpu: 8}}
  blue: {cohort: all, quota: {cpu: 8}}
cohorts: {all: {quota: {cpu: 4}}}
stacks: [kueue]
settings: {qps: {equal: 200}}
steps:
  - submit: {name: short, queue: each, priority: low, count: 5, duration: 1s, requests: {cpu: 4}}
  - wait: {for: completed, timeout: 80s}
expect: ["completed == submitted"]
"""
FAIR = TEAMS.replace("stacks:", "preemption: {fair-sharing: true}\nstacks:")


@dataclass(frozen=True)
class Place:
    """Where the cluster `mine` is kept, and how to talk to it."""

    directory: Path
    kubectl: Path

    def seatrial(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        surroundings = {**os.environ, "XDG_STATE_HOME": str(self.directory / "state"), "COLUMNS": "200"}
        return subprocess.run(
            [*COMMAND, *arguments], cwd=self.directory, env=surroundings, capture_output=True, text=True, timeout=150,
            check=False,
        )  # fmt: skip

    def get(self, kind: str) -> list[dict[str, Any]]:
        config = self.directory / "state" / "seatrial" / "clusters" / "mine" / "kubeconfig" / "seatrial.yaml"
        answer = subprocess.run(
            [self.kubectl, "--kubeconfig", config, "get", kind, "-A", "-o", "json"],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        items: list[dict[str, Any]] = json.loads(answer.stdout)["items"]
        return items

    def run(self, scenario: str, out: str, *options: str) -> subprocess.CompletedProcess[str]:
        (self.directory / f"{out}.yaml").write_text(scenario)
        return self.seatrial("run", f"{out}.yaml", "--on", "local", "--cluster", "mine", "-o", out, *options)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("kept")
    (directory / "nodes.yaml").write_text(NODES)
    here = Place(directory, ensure_binaries([programs.KUBECTL])["kubectl"])
    up = here.seatrial("cluster", "up", "mine", "--nodes", "nodes.yaml", "--stack", "kueue", "--qps", "200")
    assert up.returncode == 0, up.stderr
    assert "It has 200 fake nodes and the stack 'kueue'." in up.stdout
    assert "200 fake nodes: done" in up.stderr
    yield here
    assert here.seatrial("cluster", "down", "mine").returncode == 0
    assert not list((directory / "state").rglob("*.key"))


def test_its_status_shows_nodes_and_stack(place: Place) -> None:
    rows = [line.split() for line in place.seatrial("cluster", "status").stdout.splitlines()]
    assert rows[1][0] == "mine"
    assert (rows[1][-3], rows[1][-2]) == ("kueue", "200")
    shown = place.seatrial("cluster", "status", "mine").stdout
    assert "150 gpu, 50 cpu" in shown
    assert "kueue" in shown


def test_a_scenario_runs_on_its_nodes_twice_and_leaves_it_as_it_was(place: Place) -> None:
    before = {node["metadata"]["name"] for node in place.get("nodes")}
    assert len(before) == 200
    done = place.run(SCENARIO, "twice", "--repeat", "2")
    assert done.returncode == 0, done.stderr
    assert "on the 200 nodes of the cluster 'mine'" in done.stderr
    pods = pl.read_csv(place.directory / "twice" / "pods.csv")
    assert pods.group_by("trial").len()["len"].to_list() == [13, 13]
    assert set(pods["node"]) <= before
    gangs = pods.filter(pl.col("workload").str.starts_with("gang")).group_by("trial", "workload")
    together = gangs.agg(pl.col("started_s").max(), pl.col("finished_s").min())
    assert (together["finished_s"] - together["started_s"] >= 1.0).all(), "a gang runs its time from when all run"
    assert {node["metadata"]["name"] for node in place.get("nodes")} == before


def test_the_controller_manager_finds_nothing_to_add_to_its_nodes(place: Place) -> None:
    """It patched each of them twice, and was busy with that when the first workloads came."""
    log = place.directory / "state" / "seatrial" / "clusters" / "mine" / "audit.log"
    whole, _, _ = log.read_text().rpartition("\n")  # the last line may be on its way
    patched: dict[str, set[str]] = defaultdict(set)
    for request in map(json.loads, whole.splitlines()):
        if (request["verb"], request["objectRef"]["resource"]) == ("patch", "nodes"):
            patched[request["userAgent"].rpartition("/")[2]].add(request["objectRef"]["name"])
    assert not patched["node-controller"], "labels"
    # Of the first hundred the ttl controller wants something else: where it looks at them late, it patches those, and where it
    # hears of others before them, those that were made side by side with them.
    assert patched["ttl-controller"] <= {f"gpu-{number}" for number in range(100 + CONNECTIONS)}


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        (("released", "completed"), ("--stack", "default"), "runs the stack 'kueue', not 'default'"),
        (("equal: 200}", "equal: 7}"), (), "and the kept cluster 'mine' was started with"),
        (("  - wait", "  - nodes: {cordon: own}\n  - wait"), (), "changes nodes, and those of"),
    ],
)
def test_what_it_cannot_be_is_refused_with_the_reason(
    place: Place, change: tuple[str, str], options: tuple[str, ...], says: str
) -> None:
    done = place.run(SCENARIO.replace(*change), "no", *options)
    assert done.returncode == 3, done.stderr
    assert says in done.stderr
    assert not (place.directory / "no").exists()


def test_gangs_with_claims_complete_though_nobody_is_there_and_go_with_their_volumes(place: Place) -> None:
    assert place.seatrial("templates", "--write", "templates").returncode == 0
    template = place.directory / "templates" / "distributed.yaml"
    template.write_text(template.read_text().replace("seatrial.dev/duration: 10s", "seatrial.dev/duration: 1s"))
    asked = ("-t", "distributed", "-n", "4", "-p", "4", "--num-workers", "2", "--pvc", "--template", str(template))
    done = place.seatrial("submit", *asked, "--cluster", "mine", "-o", "sent")
    assert done.returncode == 0, done.stderr

    def completed() -> bool:
        conditions = [job.get("status", {}).get("conditions", []) for job in place.get("jobs")]
        return sum(any(c["type"] == "Complete" and c["status"] == "True" for c in of) for of in conditions) == 4

    assert eventually(completed)
    claims, volumes = place.get("persistentvolumeclaims"), place.get("persistentvolumes")
    assert [claim["status"]["phase"] for claim in claims] == ["Bound"] * 4
    assert {claim["spec"]["volumeName"] for claim in claims} == {volume["metadata"]["name"] for volume in volumes}
    assert all(pod["spec"]["nodeName"] for pod in place.get("pods"))
    cleaned = place.seatrial("clean", "-o", "sent")
    assert cleaned.returncode == 0, cleaned.stderr
    assert not place.get("persistentvolumes")
    assert not place.get("jobs")
    assert eventually(
        lambda: not [ns for ns in place.get("namespaces") if ns["metadata"]["name"].startswith("seatrial-")]
    )
    assert len(place.get("nodes")) == 200


def test_a_queue_that_is_not_active_is_quoted_in_the_diagnosis(place: Place) -> None:
    done = place.run(HELD, "held")
    assert done.returncode == 0, done.stderr
    (trial,) = (place.directory / "held" / "trials").glob("*/trial.json")
    said = json.loads(trial.read_text())
    assert said["clog"]["kind"] == "not acting"
    assert "is not active (Stopped): Can't admit new workloads" in said["detail"]
    assert said["clog"]["at_ns"] < 60e9  # by its silence, not by the time-out of the wait (80 s)


def test_a_time_out_behind_the_head_of_a_strict_queue_names_the_head(place: Place) -> None:
    done = place.run(LINE, "line")
    assert done.returncode == 0, done.stderr
    (trial,) = (place.directory / "line" / "trials").glob("*/trial.json")
    said = json.loads(trial.read_text())
    assert (said["timed_out"]["kind"], said["timed_out"]["workloads"]) == ("head of line", ["head-0"])
    assert said["timed_out"]["waiters"] == ["tail-0", "tail-1", "tail-2"]
    assert "it requests cpu 4 and cpu 2 is left of the quota" in said["detail"]


def test_queues_of_a_fleet_run_there_and_nothing_of_them_stays(place: Place) -> None:
    done = place.run(TEAMS, "teams")
    assert done.returncode == 0, done.stderr
    kinds = ("resourceflavors", "cohorts", "clusterqueues", "workloadpriorityclasses")
    assert eventually(lambda: not any(place.get(f"{kind}.kueue.x-k8s.io") for kind in kinds))


def test_a_kueue_without_fair_sharing_does_not_run_a_scenario_that_asks_for_it(place: Place) -> None:
    done = place.run(FAIR, "fair")
    assert done.returncode == 3, done.stderr
    assert (
        "the scenario has fair sharing on, and the Kueue of this cluster is configured with fair sharing off"
        in done.stderr
    )
    assert "or use a control plane of the trial's own" in done.stderr
    assert eventually(lambda: not place.get("clusterqueues.kueue.x-k8s.io"))
