"""A run on somebody else's cluster: it does its work, and afterwards the cluster is as it was."""

from __future__ import annotations

import base64
import csv
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attached.conftest import CONTEXT, EXISTING, FAKES, SHARED, Foreign, Start, trial_of
from tests.conftest import Seatrial
from tests.waiting import eventually

pytestmark = pytest.mark.local
Scenario = Callable[..., Path]


def arguments(file: Path, foreign: Foreign, out: str = "out") -> tuple[str | Path, ...]:
    target = ("--on", "kubeconfig", "--context", CONTEXT, "--kubeconfig", foreign.kubeconfig)
    return ("run", file, *target, "-o", out)


def test_a_run_on_fake_nodes_completes_and_changes_nothing_foreign(
    foreign: Foreign, scenario: Scenario, start: Start, tmp_path: Path, own_state: Path
) -> None:
    before, _ = foreign.everything()
    process = start(*arguments(scenario(FAKES, "2s"), foreign))
    assert eventually(lambda: len(foreign.our_pods()) == 8)
    study = trial_of(tmp_path / "out")["target"]["study"]
    assert foreign.our_pods()[0]["metadata"]["namespace"] == f"seatrial-{study}", "known from the first moment"
    assert {pod["spec"]["priority"] for pod in foreign.our_pods()} == {7}
    _, errors = process.communicate(timeout=80)
    assert process.returncode == 0, errors
    after, ours = foreign.everything()
    assert after == before
    assert ours == []
    too_large = foreign.get("/api/v1/namespaces/team/pods/too-large")
    assert "nodeName" not in too_large["spec"], "a foreign pod landed on a node of ours"
    trial = trial_of(tmp_path / "out")
    assert trial["outcome"] == "completed" and trial["submitted"] == 8
    assert trial["validity"]["valid"], trial["validity"]["reasons"]
    assert trial["target"]["removed"] and trial["target"]["context"] == CONTEXT
    _check_what_the_study_says_of_its_target(tmp_path / "out", foreign)
    with (tmp_path / "out" / "pods.csv").open() as file:
        places = {row["node"] for row in csv.DictReader(file)}
    assert places and all(place.startswith(f"fake-{trial['target']['study']}-") for place in places)
    assert not [entry for entry in (own_state / "seatrial/clusters").iterdir() if entry.name.startswith("kwok-")]


def _check_what_the_study_says_of_its_target(out: Path, foreign: Foreign) -> None:
    """Enough to find the cluster again, and no secret anywhere."""
    target = json.loads((out / "study.json").read_text())["target"]
    assert target == {"context": CONTEXT, "kubeconfig": str(foreign.kubeconfig), "server": foreign.cluster.url}
    key = json.loads(foreign.kubeconfig.read_text())["users"][0]["user"]["client-key-data"]
    for file in out.rglob("*"):
        assert file.is_dir() or key[:200].encode() not in file.read_bytes()


def test_pods_go_to_existing_nodes_only_where_the_scenario_says_so(
    foreign: Foreign, scenario: Scenario, start: Start, tmp_path: Path
) -> None:
    before, _ = foreign.everything()
    process = start(*arguments(scenario(EXISTING, "2s"), foreign))
    assert eventually(lambda: len(foreign.our_pods()) == 8)
    container = foreign.our_pods()[0]["spec"]["containers"][0]
    assert (container["image"], container["command"]) == ("busybox", ["sleep", "2"])
    assert {(pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) for pod in foreign.our_pods()} == {(7, "Never")}
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    after, ours = foreign.everything()
    assert (after, ours) == (before, [])
    with (tmp_path / "out" / "pods.csv").open() as file:
        assert {row["node"] for row in csv.DictReader(file)} <= {"real-0", "real-1"}
    assert trial_of(tmp_path / "out")["nodes"][0]["count"] == 2


def test_teams_get_a_namespace_with_a_quota_each_and_nothing_is_left_of_them(
    foreign: Foreign, scenario: Scenario, start: Start, tmp_path: Path
) -> None:
    before, _ = foreign.everything()
    process = start(*arguments(scenario(SHARED, "2s"), foreign))
    assert eventually(lambda: len(foreign.our_pods()) == 8)
    own = f"seatrial-{trial_of(tmp_path / 'out')['target']['study']}"
    assert {pod["metadata"]["namespace"] for pod in foreign.our_pods()} == {f"{own}-red", f"{own}-blue"}
    quota = foreign.get(f"/api/v1/namespaces/{own}-blue/resourcequotas/queue")["status"]
    assert quota["hard"] == {"requests.cpu": "64", "requests.memory": "64Gi"}
    _, errors = process.communicate(timeout=80)
    assert process.returncode == 0, errors
    assert foreign.everything() == (before, [])
    validity = trial_of(tmp_path / "out")["validity"]
    assert validity["valid"], validity["reasons"]


@pytest.mark.parametrize(("by", "what", "namespaces"), [("study", FAKES, 1), ("context", SHARED, 2)])
def test_killed_in_the_middle_everything_is_found_by_label_and_removed(
    foreign: Foreign,
    scenario: Scenario,
    start: Start,
    seatrial: Seatrial,
    own_state: Path,
    by: str,
    what: str,
    namespaces: int,
) -> None:
    before, _ = foreign.everything()
    process = start(*arguments(scenario(what, "60s"), foreign))
    assert eventually(lambda: sum(pod["status"]["phase"] == "Running" for pod in foreign.our_pods()) == 8)
    assert len({pod["metadata"]["namespace"] for pod in foreign.our_pods()}) == namespaces
    [left] = [entry for entry in (own_state / "seatrial/clusters").iterdir() if entry.name.startswith("kwok-")]
    kwok = json.loads((left / "state.json").read_text())["processes"]["kwok"]["pid"]
    assert (left / "kubeconfig.yaml").stat().st_mode & 0o777 == 0o600
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert eventually(lambda: not _alive(kwok)), "KWOK outlived the run"
    assert not foreign.nothing_of_ours()
    target = ("--context", CONTEXT, "--kubeconfig", foreign.kubeconfig, "--yes")
    cleaned = seatrial("clean", *(("-o", "out") if by == "study" else target))
    assert cleaned.returncode == 0, cleaned.stderr
    assert "removed from seatrial-foreign: nodes" in cleaned.stdout
    assert "removed from seatrial-foreign: priorityclasses" in cleaned.stdout
    assert f"removed on this machine: {left.name}" in cleaned.stdout
    assert not left.exists()
    assert foreign.everything() == (before, [])
    again = seatrial("clean", *(("-o", "out") if by == "study" else target))
    assert (again.returncode, again.stdout) == (0, "seatrial-foreign: nothing was removed.\n")


def test_interrupted_it_removes_everything_itself(
    foreign: Foreign, scenario: Scenario, start: Start, tmp_path: Path
) -> None:
    before, _ = foreign.everything()
    process = start(*arguments(scenario(FAKES, "60s"), foreign))
    assert eventually(lambda: len(foreign.our_pods()) == 8)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert foreign.everything() == (before, [])
    assert trial_of(tmp_path / "out")["outcome"] == "interrupted"


def _through_a_plugin(foreign: Foreign, folder: Path) -> Path:
    """The same user, but by an exec plugin beside the kubeconfig: KWOK must be able to run it too."""
    document = json.loads(foreign.kubeconfig.read_text())
    secret = document["users"][0]["user"]
    status = {
        "clientCertificateData": base64.b64decode(secret["client-certificate-data"]).decode(),
        "clientKeyData": base64.b64decode(secret["client-key-data"]).decode(),
    }
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (folder / "answer.json").write_text(json.dumps(answer))
    plugin = folder / "plugin"
    plugin.write_text(f"#!/bin/sh\ncat {folder}/answer.json\n")
    plugin.chmod(0o700)
    command = {"apiVersion": answer["apiVersion"], "command": "./plugin", "interactiveMode": "Never"}
    document["users"][0]["user"] = {"exec": command}
    file = folder / "config.yaml"
    file.write_text(json.dumps(document))
    return file


def test_killed_kwok_is_started_again_and_the_run_completes(
    foreign: Foreign, scenario: Scenario, start: Start, own_state: Path, tmp_path: Path
) -> None:
    config = _through_a_plugin(foreign, tmp_path)
    file = scenario(FAKES, "5s")
    process = start("run", file, "--on", "kubeconfig", "--context", CONTEXT, "--kubeconfig", config, "-o", "out")
    assert eventually(lambda: len(foreign.our_pods()) == 8)
    [folder] = [entry for entry in (own_state / "seatrial/clusters").iterdir() if entry.name.startswith("kwok-")]
    os.kill(json.loads((folder / "state.json").read_text())["processes"]["kwok"]["pid"], signal.SIGKILL)
    touched = lambda pod: "seatrial.dev/touched" in pod["metadata"].get("annotations", {})  # noqa: E731
    assert eventually(lambda: any(map(touched, foreign.our_pods()))), "the new KWOK may have passed over them"
    _, errors = process.communicate(timeout=80)
    assert process.returncode == 0, errors
    assert "kwok" in trial_of(tmp_path / "out")["validity"]["deaths"][0]


def test_clean_asks_before_it_removes_what_it_was_not_told_about(foreign: Foreign, seatrial: Seatrial) -> None:
    """An object of somebody else's, without our label, in a namespace called like ours, must stay."""
    labelled = {"name": "seatrial-x", "labels": {"seatrial.dev/study": "x"}}
    foreign.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled})
    foreign.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "seatrial-y"}})
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "ours", "labels": {"seatrial.dev/study": "x"}}}  # fmt: skip
    foreign.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    try:
        target = ("--context", CONTEXT, "--kubeconfig", foreign.kubeconfig)
        asked = seatrial("clean", *target)
        assert asked.returncode == 2
        assert "namespaces of x (1, since" in asked.stdout and "clusterroles of x" in asked.stdout
        assert not foreign.nothing_of_ours()
        done = seatrial("clean", *target, "--yes")
        assert done.returncode == 0, done.stderr
        assert foreign.nothing_of_ours()
        assert foreign.api.call("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/ours")[0] == 404
        assert foreign.get("/api/v1/namespaces/seatrial-y")["status"]["phase"] == "Active"
    finally:
        foreign.api.call("DELETE", "/api/v1/namespaces/seatrial-y")
        assert eventually(lambda: foreign.api.call("GET", "/api/v1/namespaces/seatrial-y")[0] == 404)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    time.sleep(0.01)
    return True
