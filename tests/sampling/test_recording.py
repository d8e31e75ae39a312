"""`seatrial record` beside a real API server: by a user with no other right, killed again and again; and what replays there."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from seatrial.clusters.access import kept_clusters
from seatrial.clusters.local.certificates import Authority, write_kubeconfig
from seatrial.model.control_plane import Identity
from seatrial.traces.reading import read
from tests.api import Api
from tests.conftest import Seatrial
from tests.sampling.conftest import JOB, NODES, Start
from tests.waiting import eventually

pytestmark = pytest.mark.local

COUNT = 12
TEAM = "recorded-team"
REPLAY = f"""
name: replay
nodes: [{NODES.removeprefix("- ").strip()}]
stacks: [default]
settings: {{qps: {{equal: 1000}}}}
steps:
  - submit: {{name: again, trace: out.parquet}}
  - wait: {{for: completed, timeout: 1m}}
"""


@pytest.fixture(scope="module")
def api(cluster: str) -> Api:
    return Api(kept_clusters.find(cluster).kubeconfig("admin"))


def reader(cluster: str) -> Path:
    """The kubeconfig of a user without any role."""
    found = kept_clusters.find(cluster)
    identity = Identity("reader", "reader", (), "")
    Authority.load(found.layout).issue_client(found.layout, identity)
    write_kubeconfig(found.layout, found.url, identity)
    return found.kubeconfig("reader")


def make_namespace(api: Api) -> None:
    """A namespace of its own: other tests leave workloads in theirs."""
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}
    assert api.call("POST", "/api/v1/namespaces", made)[0] == 201
    account = f"/api/v1/namespaces/{TEAM}/serviceaccounts/default"
    assert eventually(lambda: api.call("GET", account)[0] == 200)


def grant(api: Api, refusal: str, user: Path) -> None:
    """Applies the role that a refusal names, and nothing else."""
    for document in yaml.safe_load_all(refusal[refusal.index("apiVersion:") :]):
        path = f"/apis/{document['apiVersion']}/namespaces/{TEAM}/{document['kind'].lower()}s"
        code, answer = api.call("POST", path, document)
        assert code == 201, answer
    theirs = Api(user)
    assert eventually(lambda: theirs.call("GET", f"/api/v1/namespaces/{TEAM}/pods")[0] == 200)
    for forbidden in ("secrets", "configmaps", "events"):
        assert theirs.call("GET", f"/api/v1/namespaces/{TEAM}/{forbidden}")[0] == 403
    assert theirs.call("GET", "/api/v1/pods")[0] == 403


def lines(folder: Path, stage: str, of: str) -> set[str]:
    """The objects of which the recording has this stage so far."""
    seen = [
        json.loads(line)
        for path in folder.glob("*.recording/seen-*.jsonl")
        for line in path.read_text().splitlines()
        if line.endswith("}")
    ]
    return {one["uid"] for one in seen if one.get("stage", "") == stage and one.get("of", "pod") == of}


def ended(process: subprocess.Popen[str]) -> None:
    """Ctrl-C, and a good end."""
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 0, words


def sent(study: Path) -> list[dict[str, Any]]:
    """What was submitted, in the order of the load: the file has the order of the answers."""
    [path] = study.glob("trials/*/submitted.jsonl")
    return sorted((json.loads(line) for line in path.read_text().splitlines()), key=lambda line: line["index"])


def test_a_reader_that_is_killed_three_times_loses_nothing_and_what_it_recorded_replays_on_local_and_on_sim(
    start: Start, seatrial: Seatrial, tmp_path: Path, cluster: str, api: Api
) -> None:
    make_namespace(api)
    user = reader(cluster)
    where = ("--kubeconfig", user, "--context", f"seatrial-{cluster}", "-n", TEAM)
    record = ("record", *where, "-o", "out.parquet", "--no-anonymise")
    refused = seatrial(*record)
    assert refused.returncode == 3, "somebody without a role may not record"
    grant(api, refused.stderr, user)
    (tmp_path / "job.yaml").write_text(JOB.replace("DURATION", "1500ms"))
    recorder = start(*record)
    assert eventually(lambda: any(tmp_path.glob("*.recording/gaps-*"))), "its watches are not well"
    rounds = ("-n", str(COUNT), "-p", "3", "--delay", "1", "--template", "job.yaml")
    load = start("submit", "-o", "origin", *rounds, "--project", TEAM, "--cluster", cluster)
    for seen in (1, 4, 7):
        assert eventually(lambda seen=seen: len(lines(tmp_path, "", "job")) >= seen), "it does not go on"  # type: ignore[misc]
        recorder.kill()
        recorder.wait()
        recorder = start(*record)
    _, words = load.communicate(timeout=90)
    assert load.returncode == 0, words
    assert eventually(lambda: len(lines(tmp_path, "ended", "job")) == COUNT), "not all were seen to end"
    ended(recorder)
    trace = read(tmp_path / "out.parquet").jobs
    names = [line["workload"] for line in sent(tmp_path / "origin")]
    assert sorted(trace["job"].str.split("/").list.last()) == sorted(names), "all of them, and none twice"
    assert set(trace["outcome"]) == {"completed"} and set(trace["pods"]) == {1} and set(trace["cpu_milli"]) == {10}
    assert trace["censored"].null_count() == trace.height, "everything was seen from its beginning to its end"
    assert trace["duration_ns"].min() >= 0.4e9, "of 1.5 s, known to a second at worst"  # type: ignore[operator]
    replayed(seatrial, tmp_path, trace, "--on", "local", "--cluster", cluster)
    replayed(seatrial, tmp_path, trace, "--on", "sim")
    assert seatrial("clean", "-o", "origin").returncode == 0


def replayed(seatrial: Seatrial, folder: Path, trace: pl.DataFrame, *where: str) -> None:
    """The trace is replayed: the same jobs in the same order with the same waits to compare, on `sim` at the very same times."""
    (folder / "replay.yaml").write_text(REPLAY)
    done = seatrial("run", "replay.yaml", *where, "-o", "again", "--force")
    assert done.returncode == 0, done.stderr
    jobs = sent(folder / "again")
    assert [round(job["trace_wait_s"] * 1e9) for job in jobs] == trace["wait_ns"].to_list()
    assert [round(job["duration_s"] * 1e3) for job in jobs] == [round(ns / 1e6) for ns in trace["duration_ns"]]
    at = np.array([job["at_ns"] for job in jobs])
    late = (at - at[0]) - (trace["submit_ns"] - trace["submit_ns"][0]).to_numpy()
    assert len(at) == COUNT
    if where[-1] == "sim":
        assert np.abs(late).max() < 1e8, "ns: what came while nobody watched is due together, and sent one by one"
    [path] = folder.glob("again/trials/*/trial.json")
    trial = json.loads(path.read_text())
    assert trial["outcome"] == "completed"
    [rate] = trial["validity"]["rates"]
    assert 0 <= rate["late_p50_s"] <= rate["late_p99_s"]


DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "kubeflow.example.com"
OWNED = {
    "restartPolicy": "Never",
    "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "2"}}}],
}


def define(api: Api, kind: str) -> None:
    """A kind of its own, as an operator brings it."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": GROUP, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }  # fmt: skip
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}  # fmt: skip
    assert api.call("POST", DEFINITION, crd)[0] == 201
    assert eventually(lambda: api.call("GET", f"/apis/{GROUP}/v1/namespaces/default/{plural}")[0] == 200)


def owner(api: Api, kind: str, name: str) -> dict[str, Any]:
    """An object of that kind; returns the reference to it."""
    path = f"/apis/{GROUP}/v1/namespaces/default/{kind.lower()}s"
    code, made = api.call("POST", path, {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}})
    assert code == 201, made
    uid = made["metadata"]["uid"]
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def test_pods_and_jobs_of_foreign_kinds_are_one_job_for_each_owner(
    start: Start, tmp_path: Path, cluster: str, api: Api
) -> None:
    for kind in ("PyTorchJob", "JobSet"):
        define(api, kind)
    training, group = owner(api, "PyTorchJob", "mnist"), owner(api, "JobSet", "group")
    recorder = start("record", "--cluster", cluster, "-n", "default", "-o", "out.parquet", "--no-anonymise")
    assert eventually(lambda: any(tmp_path.glob("*.recording/gaps-*"))), "its watches are not well"
    lasting = {"annotations": {"seatrial.dev/duration": "500ms"}}
    for name in ("mnist-master-0", "mnist-worker-0"):
        meta = {"name": name, "ownerReferences": [training], **lasting}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": OWNED}
        assert api.call("POST", "/api/v1/namespaces/default/pods", pod)[0] == 201
    for name, pods in (("group-leader-0", 1), ("group-workers-0", 3)):
        template = {"metadata": lasting, "spec": OWNED}
        job = {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "ownerReferences": [group]},
            "spec": {"parallelism": pods, "completions": pods, "template": template},
        }  # fmt: skip
        assert api.call("POST", "/apis/batch/v1/namespaces/default/jobs", job)[0] == 201
    assert eventually(lambda: len(lines(tmp_path, "ended", "pod")) == 6 and len(lines(tmp_path, "ended", "job")) == 2)
    ended(recorder)
    rows = {row["job"]: row for row in read(tmp_path / "out.parquet").jobs.to_dicts()}
    assert {name: (row["class"], row["pods"], row["cpu_milli"], row["outcome"]) for name, row in rows.items()} == {
        "default/mnist": ("PyTorchJob", 2, 2000, "completed"),
        "default/group": ("JobSet", 4, 2000, "completed"),
    }
    assert all(row["wait_ns"] is not None and row["duration_ns"] is not None for row in rows.values())
    for reference in (training, group):
        api.call("DELETE", f"{DEFINITION}/{reference['kind'].lower()}s.{GROUP}")


CHAIN = "job,submit,duration,after,think\n1,0,1,,\n2,1,1,1,1.5\n3,90,1,2,0.5\n"
CLOSED = """
name: closed
nodes: [{name: fake, count: 1, capacity: {cpu: 8, memory: 8Gi}}]
stacks: [default]
settings: {qps: {equal: 1000}}
steps:
  - submit: {name: users, trace: chain.csv, think: true, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 1m}
"""


def test_a_closed_loop_on_local_submits_after_the_end_of_the_job_before_and_not_by_the_clock(
    seatrial: Seatrial, tmp_path: Path, cluster: str
) -> None:
    (tmp_path / "chain.csv").write_text(CHAIN)
    (tmp_path / "closed.yaml").write_text(CLOSED)
    done = seatrial("run", "closed.yaml", "--on", "local", "--cluster", cluster, "-o", "out")
    assert done.returncode == 0, done.stderr
    times = {row["workload"]: row for row in pl.read_csv(tmp_path / "out" / "times.csv").to_dicts()}
    first, second, third = (times[f"users-{number}"] for number in range(3))
    assert second["submitted_s"] >= first["completed_s"] + 1.5, "1.5 s after the end of the first, and not after 1 s"
    assert third["submitted_s"] >= second["completed_s"] + 0.5
    assert third["submitted_s"] < 85, "by the clock it would have been 90 s"
