"""A load from three machines is one load: every request that the server saw was counted, by the machine that sent it."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from seatrial import stacks as seatrial_stacks
from seatrial.clusters import programs
from seatrial.clusters.access import kept_clusters
from seatrial.clusters.kwok.stage_objects import default_stages
from seatrial.clusters.local import kept_planes
from seatrial.clusters.local.components import PlaneOptions
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.clusters.programs.toolchain import look_for_go
from seatrial.model.settings import CONTROL_PLANE, OWN, resolve
from tests.api import Api
from tests.conftest import COMMAND, Seatrial
from tests.ray_nodes import RayNodes, kill, ray_of
from tests.waiting import eventually

pytestmark = pytest.mark.local

LOAD = """
name: load
nodes: [{name: n, count: 1, capacity: {cpu: 4, memory: 8Gi}}]
setups: {three: {stack: default, client: {machines: 3}}}
steps:
  - create:
      name: fill
      count: 301
      rate: 100/s
      objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "one-${i}"}, data: {a: b}}
  - get: {name: look, of: fill, workers: 7, count: 500}
"""
WORKLOADS = """
name: workloads
nodes: [{name: n, count: 4, capacity: {cpu: 32, memory: 64Gi}}]
setups: {three: {stack: default, client: {machines: 3}}}
steps:
  - - submit: {name: steady, count: 31, rate: 20/s, duration: 1s, requests: {cpu: 10m}}
    - submit: {name: turns, count: 7, parallel: 3, delay: 500ms, duration: 1s, requests: {cpu: 10m}}
  - wait: {for: completed, timeout: 5m}
expect: ["completed == submitted"]
"""
ATTACHED = """
name: attached
nodes: {existing: "pool=batch"}
setups: {three: {stack: default, client: {machines: 3}}}
steps:
  - - create:
        name: fill
        count: 31
        rate: 30/s
        objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "its-${i}"}, data: {a: b}}
    - submit: {name: attached, count: 7, rate: 10/s, duration: 1s, requests: {cpu: 10m}}
  - wait: {for: completed, timeout: 5m}
expect: ["completed == submitted"]
"""
EVERYTHING = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def audited(own_state: Path) -> Iterator[kept_clusters.KeptCluster]:  # noqa: ARG001
    """A control plane that logs all requests."""
    binaries = ensure_binaries(programs.CONTROL_PLANE)
    settings = resolve((*CONTROL_PLANE, *OWN), "as shipped", {})
    options = PlaneOptions(stages=default_stages(), settings=settings, audit=True, audit_policy=EVERYTHING)
    yield kept_planes.up("audited", options, binaries)
    kept_planes.down("audited")


@pytest.fixture(scope="module")
def three() -> Iterator[RayNodes]:
    with ray_of({"num_cpus": 0}, *[{"num_cpus": 1}] * 3) as nodes:
        yield nodes


def test_the_sum_of_what_three_machines_counted_is_the_audit_log_request_by_request(
    seatrial: Seatrial, tmp_path: Path, audited: kept_clusters.KeptCluster, three: RayNodes
) -> None:
    (tmp_path / "load.yaml").write_text(LOAD)
    run = ("run", "load.yaml", "--on", "local", "--cluster", audited.name, "--ray", three.address, "-o", "out")
    done = seatrial(*run)
    assert done.returncode in (0, 1), done.stderr
    [trial] = (tmp_path / "out" / "trials").iterdir()
    record = json.loads((trial / "trial.json").read_text())
    assert record["outcome"] == "completed", record["detail"]
    sent = pl.read_parquet(trial / "requests.parquet").filter(pl.col("seen_by") == "client")
    logged = _audited(audited)
    assert Counter(sent.select("phase", "verb", "code").iter_rows()) == Counter(
        {("fill", "create", 201): 301, ("look", "get", 200): 500}
    )
    assert Counter((one["verb"], one["responseStatus"]["code"]) for one in logged) == Counter(
        sent.select("verb", "code").iter_rows()
    )
    made = [one["requestURI"] for one in logged if one["verb"] == "create"]
    rows = record["validity"]["load_machines"]
    by_machine = Counter((one["verb"], one["userAgent"].rpartition("machine-")[2]) for one in logged)
    counted = Counter({(_verb(row), str(n % 3)): row["requests"] for n, row in enumerate(rows)})
    assert by_machine == counted
    assert len(made) == 301
    assert sum(row["share"] for row in rows if row["phase"] == "fill") == pytest.approx(1)
    for row in rows:
        assert 0 < row["clock_error_ms"] < 1000
        assert abs(row["clock_offset_ms"]) <= row["clock_error_ms"], "all of them have the clock of this machine"
    assert [row["wanted_per_s"] for row in rows][:3] == pytest.approx([100 / 3] * 3, rel=0.02)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Machines that sent the load" in page


def test_workloads_from_three_machines_are_one_study_and_the_audit_log_has_them_by_machine(
    seatrial: Seatrial, tmp_path: Path, audited: kept_clusters.KeptCluster, three: RayNodes
) -> None:
    (tmp_path / "workloads.yaml").write_text(WORKLOADS)
    done = seatrial(
        "run", "workloads.yaml", "--on", "local", "--cluster", audited.name, "--ray", three.address, "-o", "out"
    )
    assert done.returncode == 0, done.stderr
    [trial] = (tmp_path / "out" / "trials").iterdir()
    record = json.loads((trial / "trial.json").read_text())
    assert record["outcome"] == "completed", record["detail"]
    lines = [json.loads(line) for line in (trial / "submitted.jsonl").read_text().splitlines()]
    names = {f"steady-{n}" for n in range(31)} | {f"turns-{n}" for n in range(7)}
    assert len(lines) == 38 and {line["workload"] for line in lines} == names
    assert sorted(line["number"] for line in lines) == list(range(38))
    assert not any(line.get("refused") for line in lines)
    assert all(line["error_ns"] > 0 for line in lines), "each time is known as well as the clock of its machine"
    # One after another on the common clock, whichever machine sent them: each third is of the same one.
    at = {line["workload"]: line["at_ns"] for line in lines}
    rounds = [[at[f"turns-{n}"] for n in one] for one in (range(3), range(3, 6), range(6, 7))]
    assert max(rounds[0]) < min(rounds[1]) and max(rounds[1]) < min(rounds[2])
    logged = [one for one in _sent_by_machines(audited) if one["objectRef"]["resource"] == "jobs"]
    made = [one["objectRef"]["name"] for one in logged if one["responseStatus"]["code"] == 201]
    assert sorted(made) == sorted(names), "each is created once, also if an answer was lost and the request sent again"
    rows = record["validity"]["load_machines"]
    assert {row["phase"] for row in rows} == {"steady", "turns"}
    for phase in ("steady", "turns"):
        by_machine = Counter(_machine(one) for one in logged if one["objectRef"]["name"].startswith(phase))
        mine = [row for row in rows if row["phase"] == phase]
        assert [row["requests"] for row in mine] == [by_machine[str(number)] for number in range(3)]
        assert sum(row["share"] for row in mine) == pytest.approx(1)
    assert [row["wanted_per_s"] for row in rows if row["phase"] == "steady"] == pytest.approx([20 / 3] * 3)
    assert all(row["achieved_per_s"] for row in rows if row["phase"] == "steady")


def test_a_cluster_is_reached_from_all_machines_by_its_kubeconfig(
    seatrial: Seatrial, tmp_path: Path, audited: kept_clusters.KeptCluster, three: RayNodes
) -> None:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    labels = {"pool": "batch", "kubernetes.io/hostname": "theirs"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs", "labels": labels}}
    api = Api(audited.kubeconfig("admin"))
    code, said = api.call("POST", "/api/v1/nodes", {**node, "status": {"capacity": amounts, "allocatable": amounts}})
    assert code == 201, said
    (tmp_path / "attached.yaml").write_text(ATTACHED)
    reached = (
        "--on",
        "kubeconfig",
        "--kubeconfig",
        str(audited.kubeconfig("admin")),
        "--context",
        "seatrial-audited",
        "--ray",
        three.address,
    )
    done = seatrial("run", "attached.yaml", *reached, "-o", "out")
    assert done.returncode == 0, done.stderr
    [trial] = (tmp_path / "out" / "trials").iterdir()
    record = json.loads((trial / "trial.json").read_text())
    assert record["target"]["removed"] is True
    names = {f"its-{n}" for n in range(31)} | {f"attached-{n}" for n in range(7)}
    logged = [one for one in _sent_by_machines(audited) if one["objectRef"].get("name") in names]
    assert {one["objectRef"]["name"] for one in logged if one["responseStatus"]["code"] == 201} == names
    rows = record["validity"]["load_machines"]
    counted = Counter({(row["phase"], str(n % 3)): row["requests"] for n, row in enumerate(rows)})
    phases = {"configmaps": "fill", "jobs": "attached"}
    assert counted == Counter((phases[one["objectRef"]["resource"]], _machine(one)) for one in logged)


def test_our_manifest_is_valid_for_the_crd_of_kuberay(audited: kept_clusters.KeptCluster) -> None:
    api = Api(audited.kubeconfig("admin"))
    code, said = api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _crd())
    assert code == 201, said
    name, found = "rayclusters.ray.io", "/apis/ray.io/v1/namespaces/default/rayclusters"
    assert eventually(lambda: api.call("GET", found)[0] == 200), name
    manifest = yaml.safe_load((Path(__file__).parents[2] / "examples" / "kuberay.yaml").read_text())
    strictly = f"{found}?dryRun=All&fieldValidation=Strict"
    code, said = api.call("POST", strictly, manifest)
    assert code == 201, said
    manifest["spec"]["workerGroupSpecs"][0]["rayStartParameters"] = {}
    code, said = api.call("POST", strictly, manifest)
    assert code == 400 and "rayStartParameters" in said["message"], "the schema is really asked"


def test_a_machine_that_is_lost_in_the_middle_ends_the_trial_with_its_name(
    tmp_path: Path, audited: kept_clusters.KeptCluster
) -> None:
    endless = (
        LOAD.replace("- create:", "- - create:").replace("      ", "        ").replace("count: 301", "count: 100000")
    )
    beside = "    - submit: {name: work, count: 3000, rate: 5/s, duration: 1s}\n  - get:"
    (tmp_path / "load.yaml").write_text(endless.replace("  - get:", beside))
    with ray_of({"num_cpus": 0}, *[{"num_cpus": 1}] * 3) as nodes:
        run = ("run", "load.yaml", "--on", "local", "--cluster", audited.name, "--ray", nodes.address, "-o", "out")
        process = subprocess.Popen([*COMMAND, *run], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        with process:
            assert eventually(lambda: len(list(nodes.temporary.glob("seatrial-load-*/requests-*.seg"))) == 3)
            assert eventually(lambda: any(one.stat().st_size for one in tmp_path.glob("out/trials/*/submitted.jsonl")))
            kill(nodes.raylets[2])
            assert process.stderr is not None
            said = process.stderr.read()
    assert process.returncode == 1, said
    [trial] = (tmp_path / "out" / "trials").iterdir()
    record = json.loads((trial / "trial.json").read_text())
    assert record["outcome"] == "failed"
    assert "was lost in the middle of the load" in record["detail"]
    assert not record["validity"]["valid"]
    submitted = [json.loads(line)["index"] for line in (trial / "submitted.jsonl").read_text().splitlines()]
    assert len(submitted) == len(set(submitted)) > 0, "what the machines told before is kept, each once"


def _crd() -> dict[str, Any]:
    """KubeRay's, from the Go module that Kueue is built with."""
    go, _ = look_for_go()
    assert go is not None
    ours = Path(seatrial_stacks.__file__).parent / "kueue" / "go"
    asked = [str(go.program), "mod", "download", "-json", "github.com/ray-project/kuberay/ray-operator"]
    said = subprocess.run(asked, cwd=ours, env=go.env, check=True, capture_output=True, text=True)
    folder = Path(json.loads(said.stdout)["Dir"]) / "config" / "crd" / "bases"
    found: dict[str, Any] = yaml.safe_load((folder / "ray.io_rayclusters.yaml").read_text())
    return found


def _verb(row: dict[str, Any]) -> str:
    return "create" if row["phase"] == "fill" else "get"


def _machine(logged: dict[str, Any]) -> str:
    return str(logged["userAgent"].rpartition("machine-")[2])


def _sent_by_machines(cluster: kept_clusters.KeptCluster) -> list[dict[str, Any]]:
    assert cluster.audit_log is not None
    lines = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]
    return [one for one in lines if " machine-" in one["userAgent"]]


def _audited(cluster: kept_clusters.KeptCluster) -> list[dict[str, Any]]:
    """What the server logged of the load."""
    assert cluster.audit_log is not None
    lines = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]
    return [one for one in lines if one["userAgent"].startswith("seatrial-load")]
