"""`seatrial submit` on a real API server: what is made, what is refused, what is taken up again, what is removed."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from seatrial.cli.submit import _wish
from seatrial.clusters import programs
from seatrial.clusters.access import kept_clusters
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.kube import Client, Resource
from seatrial.kube.resources import CLAIMS, JOBS, NAMESPACES, NEVER, PODS, SERVICES, create
from seatrial.kube.shapes import Object, Shape
from seatrial.model.errors import SetupProblem
from seatrial.model.labels import DURATION_ANNOTATION, STUDY_LABEL, WORKLOAD_LABEL
from seatrial.study import submission_sending
from seatrial.study.submission_sending import SubmissionProgress
from tests.conftest import COMMAND, Seatrial
from tests.submit.conftest import CLUSTER, Cluster, lines_of, python_env, study_of
from tests.waiting import eventually

pytestmark = pytest.mark.local

POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
BINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)  # fmt: skip
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
OPTIONS = ("type", "workloads", "parallel", "num-workers", "gpus", "delay", "project", "pvc", "stack", "template", "cluster",
           "context", "kubeconfig")  # fmt: skip


class Spec(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class Hard(Shape):
    hard: dict[str, str] = msgspec.field(default_factory=dict)


class Quota(Object):
    status: Hard = msgspec.field(default_factory=Hard)


def submit(out: Path, template: Path | None = None, **given: Any) -> SubmissionProgress:
    """`seatrial submit -o OUT --GIVEN …`, in this process."""
    named = {"cluster": CLUSTER} if "context" not in given else {}
    given = named | {name.replace("_", "-"): value for name, value in given.items()}
    assert set(given) <= set(OPTIONS)
    return submission_sending.begin(out, _wish({f"--{name}": given.get(name) for name in OPTIONS}, template), _nobody)


def resume(out: Path, retry_refused: bool = False) -> SubmissionProgress:
    return submission_sending.resume(out, {}, None, _nobody, retry_refused)


def _nobody(sent: int, refused: int, of: int) -> None:
    pass


def _start(*arguments: str, limit: int | None = None) -> subprocess.Popen[str]:
    def limited() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [*COMMAND, "submit", *arguments], env=python_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=limited,  # noqa: PLW1509
    )  # fmt: skip


def _wait_for_lines(out: Path, many: int, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        if sum(file.read_bytes().count(b"\n") for file in out.glob("trials/*/submitted.jsonl")) >= many:
            return
        time.sleep(0.005)


def _each_once(cluster: Cluster, out: Path, count: int, namespace: str = "") -> None:
    study = study_of(out)
    expected = Counter(f"training-{study}-{index}" for index in range(count))
    assert Counter(job.metadata.name for job in cluster.there(JOBS, study, namespace)) == expected
    assert Counter(line["workload"] for line in lines_of(out) if "refused" not in line) == expected


@pytest.fixture
def project(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of somebody else's."""
    name = request.node.name.replace("_", "-")[5:45].strip("-")
    cluster.create(NAMESPACES, name)
    yield name
    cluster.ask(lambda client: client.delete(NAMESPACES, name))


def test_a_distributed_workload_is_a_gang_with_a_service_and_a_claim_all_labelled(
    cluster: Cluster, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    sent = submit(out, type="distributed", workloads=2, num_workers=3, gpus=1, pvc=True)
    assert (sent.sent, sent.refusals) == (2, 0)
    study = study_of(out)
    names = {f"distributed-{study}-{index}" for index in range(2)}
    for kind in (JOBS, SERVICES, CLAIMS):
        found = cluster.there(kind, study)
        assert {one.metadata.name for one in found} == names
        assert {one.metadata.labels[WORKLOAD_LABEL] for one in found} == names
    name = f"distributed-{study}-0"
    spec = cluster.ask(lambda client: client.get(JOBS, name, f"seatrial-{study}", shape=Spec)).spec
    assert (spec["parallelism"], spec["completions"], spec["completionMode"]) == (4, 4, "Indexed")
    pod = spec["template"]
    assert pod["metadata"]["labels"][STUDY_LABEL] == study
    [volume] = pod["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == name
    [container] = pod["spec"]["containers"]
    assert container["volumeMounts"][0]["name"] == volume["name"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    [trial] = out.glob("trials/*/trial.json")
    record = json.loads(trial.read_text())
    assert record["outcome"] == "running"
    assert record["target"]["study"] == study
    assert [line["pods"] for line in lines_of(out)] == [4, 4]


def test_an_interactive_pod_has_no_end_and_has_completed_when_it_runs(cluster: Cluster, tmp_path: Path) -> None:
    from seatrial.observe.observer import PLAIN_WATCHES, Observer
    from seatrial.record.ledger import Ledger
    from seatrial.record.segments import Segment
    from seatrial.stacks import find

    out = tmp_path / "out"
    submit(out, type="interactive", workloads=2)
    study = study_of(out)
    observer = Observer(Ledger(find("default").stages, Segment(tmp_path)))
    for line in lines_of(out):
        observer.workloads[line["workload"]] = observer.ledger.workload(0, line["pods"])
        observer.interactive.add(line["workload"])

    async def until_they_run(client: Client) -> None:
        async with asyncio.timeout(60):
            while observer.ledger.counts[observer.ledger.number["completed"]] < 2:
                for watch in PLAIN_WATCHES:
                    found = await client.list(
                        watch.resource, f"seatrial-{study}", shape=watch.shape, labelSelector=f"{STUDY_LABEL}={study}"
                    )
                    for thing in found.items:
                        watch.handle(observer, 1, "LISTED", thing)
                await asyncio.sleep(0.05)

    cluster.ask(until_they_run)
    counts, number = observer.ledger.counts, observer.ledger.number
    assert (counts[number["running"]], counts[number["finished"]]) == (2, 0)
    pods = cluster.there(PODS, study)
    assert [DURATION_ANNOTATION in pod.metadata.annotations for pod in pods] == [False, False]


def test_what_a_quota_refuses_is_recorded_and_sent_again_only_when_asked(
    cluster: Cluster, tmp_path: Path, project: str
) -> None:
    cluster.create(QUOTAS, "few", {"hard": {"count/jobs.batch": "3"}}, project)
    _until_counted(cluster, project)
    out = tmp_path / "out"
    sent = submit(out, workloads=8, parallel=2, project=project)
    assert sent.sent == 3
    [(why, many)] = sent.refused.items()
    assert many == 5
    assert "exceeded quota: few" in why
    refused = [line for line in lines_of(out) if "refused" in line]
    assert len(refused) == 5
    assert all("exceeded quota" in line["refused"] for line in refused)
    again = resume(out)
    assert (again.sent, again.refusals) == (3, 5)
    cluster.ask(lambda client: client.delete(QUOTAS, "few", project))
    last = resume(out, retry_refused=True)
    assert (last.sent, last.refusals) == (8, 0)
    _each_once(cluster, out, 8, project)


def _until_counted(cluster: Cluster, namespace: str) -> None:
    """A quota holds once its controller has counted what is there."""

    def counted() -> bool:
        return bool(cluster.ask(lambda client: client.get(QUOTAS, "few", namespace, shape=Quota)).status.hard)

    assert eventually(counted), "nobody looks after quotas"


def test_what_an_admission_policy_refuses_does_not_stop_the_others(
    cluster: Cluster, tmp_path: Path, project: str
) -> None:
    """It says no to every workload whose name ends in 1; it is asked until it is at work."""
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": project}}}
    said = {"expression": "!object.metadata.name.endsWith('1')", "message": "no ones"}
    cluster.create(POLICIES, project, {"matchConstraints": {**here, "resourceRules": [rule]}, "validations": [said]})
    cluster.create(BINDINGS, project, {"policyName": project, "validationActions": ["Deny"]})
    cluster.ask(lambda client: _until_denied(client, project))
    out = tmp_path / "out"
    sent = submit(out, workloads=12, project=project)
    assert sent.sent == 10
    [(why, many)] = sent.refused.items()
    assert many == 2
    assert "denied request: no ones" in why
    assert {line["index"] for line in lines_of(out) if "refused" in line} == {1, 11}
    for kind in (BINDINGS, POLICIES):
        cluster.ask(lambda client, kind=kind: client.delete(kind, project))  # type: ignore[misc]


async def _until_denied(client: Client, namespace: str) -> None:
    """The server's own watch of policies has to bring this one; nothing is made meanwhile."""
    pod = {"containers": [{"name": "a", "image": "b"}], "restartPolicy": "Never"}
    body = {"metadata": {"name": "try-1"}, "spec": {"template": {"spec": pod}}}
    request = msgspec.structs.replace(create(JOBS, body, "try-1", namespace), if_lost=NEVER)
    request = msgspec.structs.replace(request, path=f"{request.path}?dryRun=All")
    async with asyncio.timeout(60):
        while b"no ones" not in (await client.send(request)).body:
            await asyncio.sleep(0.05)


def test_a_namespace_that_we_may_not_write_refuses_each_workload_with_the_servers_reason(
    cluster: Cluster, tmp_path: Path, project: str
) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for user in config["users"]:
        user["user"]["as"] = "somebody"
    config["contexts"][0]["name"] = "theirs"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    out = tmp_path / "out"
    sent = submit(out, workloads=3, project=project, context="theirs", kubeconfig=str(tmp_path / "kubeconfig"))
    assert sent.sent == 0
    [(why, many)] = sent.refused.items()
    assert many == 3
    assert 'User "somebody" cannot create resource "jobs"' in why


def test_a_job_of_our_name_counts_only_with_our_label(cluster: Cluster, tmp_path: Path) -> None:
    """The lines of workloads 1 and 2 are lost; 1 is somebody else's by now, 2 is what a killed process had sent."""
    out = tmp_path / "out"
    submit(out, workloads=3)
    study = study_of(out)
    [file] = out.glob("trials/*/submitted.jsonl")
    first, _, third = sorted(file.read_text().splitlines(), key=lambda line: json.loads(line)["index"])
    file.write_text(f"{first}\n{third[:40]}")
    name, namespace = f"training-{study}-1", f"seatrial-{study}"
    body = cluster.ask(lambda client: client.get(JOBS, name, namespace, shape=Spec)).spec
    for made in ("selector", "template"):
        body[made].get("metadata", {}).pop("labels", None)
    del body["selector"]

    async def replace(client: Client) -> None:
        await client.delete(JOBS, name, namespace, propagation="Orphan")
        while await client.find(JOBS, name, namespace, shape=Object):
            pass
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}
        await client.create(JOBS, job, name, namespace)

    cluster.ask(replace)
    sent = resume(out)
    assert sent.torn
    assert (sent.sent, sent.refusals) == (2, 1)
    lines = {line["index"]: line for line in lines_of(out)}
    assert "does not carry the label of this run" in lines[1]["refused"]
    assert "refused" not in lines[2]
    assert lines[2]["error_ns"] == 10**9
    before = json.loads(third)["at_ns"]
    assert abs(lines[2]["at_ns"] - before) <= 2 * 10**9


def test_a_field_that_the_server_does_not_know_is_said_with_its_place(tmp_path: Path) -> None:
    text = "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - {name: a, imag: b}\n"
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(Exception, match=r"mine\.yaml:7:25: the API server says: .*containers\[0\]\.imag"):
        submit(tmp_path / "out", template=tmp_path / "mine.yaml")
    assert not (tmp_path / "out").exists()


def test_a_missing_project_and_a_busy_out_are_said_before_anything_is_made(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(SetupProblem, match="there is no namespace 'nowhere'"):
        submit(out, project="nowhere")
    assert not out.exists()
    submit(out)
    lock = os.open(out, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(SetupProblem, match=f"process {os.getpid()} is writing the study in"):
        resume(out)
    os.close(lock)
    assert resume(out).sent == 1


def test_a_command_submits_and_its_failure_is_the_reason(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = ensure_binaries([programs.KUBECTL])["kubectl"]
    monkeypatch.chdir(tmp_path)
    way = f"{kubectl} --kubeconfig {{kubeconfig}} -n {{namespace}} create -f {{file}}"
    (tmp_path / "seatrial.toml").write_text(f'[submit]\ncommand = "{way}"\n')
    out = tmp_path / "out"
    assert submit(out, workloads=4, parallel=4).sent == 4
    _each_once(cluster, out, 4)
    [file] = out.glob("trials/*/submitted.jsonl")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
    assert resume(out).sent == 4  # kubectl says AlreadyExists, and they are ours
    _each_once(cluster, out, 4)

    (tmp_path / "seatrial.toml").write_text("[submit]\ncommand = \"sh -c 'echo {name} is unwanted >&2; exit 3'\"\n")
    sent = submit(tmp_path / "other", workloads=3)
    assert dict(sent.refused) == {"NAME is unwanted": 3}
    assert cluster.there(JOBS, study_of(tmp_path / "other")) == []


def test_interrupted_it_says_how_to_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with _start("-o", str(out), "-n", "1000", "-p", "4", "--delay", "0.1", "--cluster", CLUSTER) as process:
        _wait_for_lines(out, 10, process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"seatrial submit -o {out} --resume" in said
    assert json.loads((out / "study.json").read_text())["run"]["state"] == "interrupted"
    assert 10 <= len(lines_of(out)) < 1000


def test_a_full_disk_leaves_whole_lines_and_a_remedy(cluster: Cluster, tmp_path: Path) -> None:
    """A limit on the size of files is as good as a disk of that size."""
    out = tmp_path / "out"
    with _start("-o", str(out), "-n", "200", "-p", "5", "--cluster", CLUSTER, limit=16_000) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "no space left" in said
    assert "free some space" in said
    [file] = out.glob("trials/*/submitted.jsonl")
    assert file.read_bytes().endswith(b"\n")
    assert 0 < len(lines_of(out)) < 200
    assert resume(out).sent == 200
    _each_once(cluster, out, 200)


def test_clean_removes_what_out_submitted_and_only_that(
    cluster: Cluster, tmp_path: Path, project: str, seatrial: Seatrial
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    submit(ours, type="distributed", workloads=2, pvc=True, project=project)
    submit(theirs, workloads=2, project=project)
    done = seatrial("clean", "-o", ours)
    assert done.returncode == 0, done.stderr
    for kind in (JOBS, SERVICES, CLAIMS, PODS):
        assert cluster.there(kind, study_of(ours)) == []
    assert f"jobs of {study_of(ours)} (2," in done.stdout
    assert len(cluster.there(JOBS, study_of(theirs), project)) == 2
    assert cluster.ask(lambda client: client.find(NAMESPACES, project, shape=Object)) is not None


def test_the_api_server_dies_in_between_and_nothing_is_lost_or_made_twice(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with _start("-o", str(out), "-n", "60", "-p", "4", "--delay", "0.2", "--cluster", CLUSTER) as process:
        _wait_for_lines(out, 12, process)
        assert process.poll() is None
        os.kill(kept_clusters.find(CLUSTER).pids["kube-apiserver"], signal.SIGKILL)
        said, wrong = process.communicate(timeout=180)
    assert (process.returncode, said[:35]) == (0, "60 of 60 workloads submitted after "), wrong
    _each_once(cluster, out, 60)
