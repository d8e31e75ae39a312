"""`seatrial doctor` says what is there and what is missing, a line each, and changes nothing."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attached.conftest import CONTEXT, Foreign
from tests.conftest import Seatrial
from tests.waiting import eventually

LINE = re.compile(r"(ok     |warn   |missing)  \S.*")
Scenario = Callable[..., Path]


def test_every_line_is_a_state_and_what_it_is_about(seatrial: Seatrial) -> None:
    done = seatrial("doctor", "--on", "local", HOME="/nonexistent")
    assert done.stdout and all(LINE.fullmatch(line) for line in done.stdout.splitlines())
    assert "warn     no kubeconfig: " in done.stdout, "not needed here, so no reason to fail"


def test_the_simulator_needs_nothing(seatrial: Seatrial, tmp_path: Path) -> None:
    done = seatrial("doctor", "--on", "sim", PATH=str(tmp_path))
    assert done.returncode == 0
    assert "missing" not in done.stdout and "Go" not in done.stdout


def test_without_go_and_programs_a_local_cluster_is_out_of_reach(seatrial: Seatrial, tmp_path: Path) -> None:
    """Python's own pip may be there to get Go with; then it is a warning only."""
    done = seatrial("doctor", "--on", "local", PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert re.search(r"^(warn|missing)  +Go 1\.26: there is no Go on PATH", done.stdout, re.MULTILINE)
    assert "programs not built yet: etcd, kwok, kube-apiserver" in done.stdout
    assert done.returncode == (3 if "missing  Go" in done.stdout else 0)
    assert not (tmp_path / "cache").exists(), "looking changes nothing"


def test_a_go_that_is_too_old_is_named(seatrial: Seatrial, tmp_path: Path) -> None:
    old = tmp_path / "go"
    old.write_text('#!/bin/sh\necho \'{"GOVERSION": "go1.19.1", "GOHOSTOS": "linux", "GOHOSTARCH": "amd64"}\'\n')
    old.chmod(old.stat().st_mode | stat.S_IEXEC)
    done = seatrial("doctor", "--on", "local", PATH=f"{tmp_path}:/usr/bin:/bin", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert f"Go 1.26: {old} is go1.19.1" in done.stdout


def test_an_unknown_kind_of_cluster_is_a_mistake(seatrial: Seatrial) -> None:
    done = seatrial("doctor", "--on", "moon")
    assert (done.returncode, done.stderr.count("\n")) == (2, 2)


CRDS, DEPLOYMENTS = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apps/v1/namespaces/team/deployments",
)


@contextmanager
def installed(foreign: Foreign, kind: str, group: str, version: str, scope: str, *deployments: str) -> Iterator[None]:
    """What is seen of a stack from outside: a kind and deployments."""
    plural = f"{kind.lower()}s"
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    meta = {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes"}}
    spec = {"group": group, "scope": scope, "names": names, "versions": [served]}
    kind_of = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    foreign.create(CRDS, {**kind_of, "metadata": meta, "spec": spec})
    labels = {"app": "stack"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    wanted = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    for name in deployments:
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": wanted}
        foreign.create(DEPLOYMENTS, deployment)
    try:
        assert eventually(lambda: group in str(foreign.get("/apis")))
        yield
    finally:
        for name in deployments:
            foreign.api.call("DELETE", f"{DEPLOYMENTS}/{name}")
        foreign.api.call("DELETE", f"{CRDS}/{plural}.{group}")
        services = "/apis/apiregistration.k8s.io/v1/apiservices"
        assert eventually(lambda: group not in str(foreign.get("/apis")) + str(foreign.get(services)))


@pytest.mark.local
def test_a_cluster_is_looked_at_and_stacks_are_found(foreign: Foreign, seatrial: Seatrial) -> None:
    with installed(foreign, "ClusterQueue", "kueue.x-k8s.io", "v1beta2", "Cluster", "kueue-controller-manager"):
        done = seatrial("doctor", "--context", CONTEXT, "--kubeconfig", foreign.kubeconfig)
    assert done.returncode == 0, done.stdout
    assert f"ok       context '{CONTEXT}': {foreign.cluster.url} runs v1.36.3" in done.stdout
    assert "ok       all 23 permissions that a run needs" in done.stdout
    assert "ok       stack kueue: kueue-controller-manager is there" in done.stdout
    assert "missing  stack volcano  install it (no podgroups.scheduling.volcano.sh)" in done.stdout
    assert "missing  stack gang  install it (no scheduling.k8s.io/v1alpha2)" in done.stdout
    assert all(LINE.fullmatch(line) for line in done.stdout.splitlines())


@pytest.mark.local
def test_mcad_and_the_appwrapper_operator_own_the_same_kind(foreign: Foreign, seatrial: Seatrial) -> None:
    """Only one of them can be there, whatever deployments say: the version that is served tells which."""
    both = ("mcad-controller", "appwrapper-controller-manager")
    with installed(foreign, "AppWrapper", "workload.codeflare.dev", "v1beta2", "Namespaced", *both):
        done = seatrial("doctor", "--context", CONTEXT, "--kubeconfig", foreign.kubeconfig)
    assert "ok       stack appwrapper: appwrapper-controller-manager is there" in done.stdout
    assert "missing  stack mcad  install it (no workload.codeflare.dev/v1beta1)" in done.stdout
