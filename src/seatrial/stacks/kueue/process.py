"""Kueue v0.16.1 as a process of a local control plane, with the certificate of its webhooks.

Kueue looks for the certificate of its metrics server below `/etc` whatever its configuration says. It is built from a copy of
its module in which that is the directory of the webhooks' certificate, which can be configured. Nothing else is changed.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom
from typing import Any

from seatrial.model.control_plane import CA_BUNDLE, Component, ControlPlane, GoBinary, Identity, Ready
from seatrial.model.labels import STUDY_LABEL, WORKLOAD_LABEL
from seatrial.model.plan import Scalar
from seatrial.model.units import MILLISECOND

BINARY = GoBinary(
    "kueue",
    Path(__file__).with_name("go"),
    "sigs.k8s.io/kueue/cmd/kueue",
    files=("config/components/crd/bases/*.yaml",),
    replace=(("cmd/kueue/main.go", '"/etc/kueue/metrics/certs"', "cfg.Webhook.CertDir"),),
)

HOST = "127.0.0.1"
CONFIG = "kueue.yaml"
CERTIFICATES = "pki"  # has tls.crt and tls.key, the names that Kueue wants
# Ports below these are given to connections (net.ipv4.ip_local_port_range): one of ours might be in use when Kueue is restarted.
PORTS = range(61000, 65500)

# Of the integrations that the shipped configuration enables, those whose kinds a plain cluster has and our workloads touch.
FRAMEWORKS = ("batch/job", "pod")
# Reconcilers side by side, as in the shipped configuration.
CONCURRENCY = {"Job.batch": 5, "Pod": 5, "Workload.kueue.x-k8s.io": 5, "LocalQueue.kueue.x-k8s.io": 1,
               "Cohort.kueue.x-k8s.io": 1, "ClusterQueue.kueue.x-k8s.io": 1, "ResourceFlavor.kueue.x-k8s.io": 1}  # fmt: skip

_KUEUE, _VERSION = "kueue.x-k8s.io", "v1beta2"
# name, group, version, resources, operations: those of config/components/webhook/manifests.yaml for these kinds
_MUTATING = (
    ("job", "batch", "v1", ("jobs",), ("CREATE",)),
    ("pod", "", "v1", ("pods",), ("CREATE",)),
    ("clusterqueue", _KUEUE, _VERSION, ("clusterqueues",), ("CREATE",)),
    ("resourceflavor", _KUEUE, _VERSION, ("resourceflavors",), ("CREATE",)),
    ("workload", _KUEUE, _VERSION, ("workloads",), ("CREATE",)),
)
_VALIDATING = (
    ("job", "batch", "v1", ("jobs",), ("CREATE", "UPDATE")),
    ("pod", "", "v1", ("pods",), ("CREATE", "UPDATE")),
    ("clusterqueue", _KUEUE, _VERSION, ("clusterqueues",), ("CREATE", "UPDATE")),
    ("cohort", _KUEUE, _VERSION, ("cohorts",), ("CREATE", "UPDATE")),
    ("resourceflavor", _KUEUE, _VERSION, ("resourceflavors",), ("CREATE", "UPDATE")),
    ("workload", _KUEUE, _VERSION, ("workloads", "workloads/status"), ("CREATE", "UPDATE")),
)
_NOT_THERE = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                                    "values": ["kube-system", "kueue-system"]}]}  # fmt: skip

# An authority that signed nothing here (its key is thrown away): what a webhook's certificate is checked against when it is
# to be refused.
FOREIGN_CA = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJORENCMnFBREFnRUNBZ0VCTUFvR0NDcUdTTTQ5QkFNQ01CZ3hGakFVQmdOVkJBTU1EWE52YldW"
    "aWIyUjUKSUdWc2MyVXdJQmNOTWpBd01UQXhNREF3TURBd1doZ1BNakV5TURBeE1ERXdNREF3TURCYU1CZ3hGakFVQmdOVgpCQU1NRFhOdmJXVmliMlI1"
    "SUdWc2MyVXdXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBUVZ4d2oxClhvM1dESUlOeHdJcm5jS3B4UW13UFEyWVhBa21hWkQ3WnBXbHNY"
    "bTcrUmhQMDNoVm1pSzJZYnMvbm5zVmovQ0kKK0R5T2xZQlRnUVU0RDZubm94TXdFVEFQQmdOVkhSTUJBZjhFQlRBREFRSC9NQW9HQ0NxR1NNNDlCQU1D"
    "QTBrQQpNRVlDSVFDelcyeUc0M1JuNmJueDNpOGlwMlUrdXZvZlBNa2dzY3BtZCtuZldJREJ1QUloQU5jak85MTJwOHhKCkVzTWgxQlM1SWJ2aC9qdHY4"
    "MGd4REVTMkNGRlJ6bFlQCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"
)


def amend(plane: ControlPlane, settings: Mapping[str, Scalar]) -> ControlPlane:
    webhook, health = free_port(), free_port()
    component = Component(
        "kueue",
        BINARY,
        (
            "--kubeconfig=kubeconfig/kueue.yaml",
            f"--config={CONFIG}",
            "--zap-log-level=2",
        ),  # the level it is shipped with
        needs=("kube-apiserver",),
        ready=Ready("/readyz", health, tls=False),  # from when its webhooks listen
    )
    plane = plane.with_identity(Identity("kueue", "kueue", (), "cluster-admin")).with_component(component)
    plane = plane.with_file(CONFIG, configuration(settings, webhook, health)).with_manifests(BINARY)
    return plane.with_objects(*webhooks(webhook, settings["webhook-ca"] == "wrong"))


def free_port() -> int:
    """One that nobody listens on. Kueue can neither share a port that we hold nor say which it chose."""
    while True:
        port = SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)):
                return port


def configuration(settings: Mapping[str, Scalar], webhook: int, health: int) -> dict[str, Any]:
    """The shipped one, for a process outside of the cluster: own certificates, no leader election, no aggregated API."""
    configured: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{HOST}:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": HOST, "port": webhook, "certDir": CERTIFICATES},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "controller": {"groupKindConcurrency": CONCURRENCY},
        "clientConnection": {"qps": settings["qps"] or -1, "burst": settings["burst"]},
        "integrations": {"frameworks": list(FRAMEWORKS), "labelKeysToCopy": [STUDY_LABEL, WORKLOAD_LABEL]},
        "featureGates": {"VisibilityOnDemand": False},  # that server works only inside a cluster
    }
    if settings["wait-for-pods-ready"]:
        configured["waitForPodsReady"] = {
            "timeout": f"{int(settings['pods-ready-timeout']) // MILLISECOND}ms",
            "blockAdmission": bool(settings["block-admission"]),
        }
    return configured


def webhooks(port: int, refused: bool = False) -> list[dict[str, Any]]:
    """By address instead of by Service. Where the certificate is to be refused, it is so for Jobs: were it refused for queues
    too, there would be nothing to submit to."""
    kinds = (("Mutating", "mutate", _MUTATING), ("Validating", "validate", _VALIDATING))
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": f"kueue-{kind.lower()}-webhook-configuration"},
            "webhooks": [_webhook(verb, port, *hook, refused=refused and hook[0] == "job") for hook in hooks],
        }
        for kind, verb, hooks in kinds
    ]


def _webhook(
    verb: str, port: int, name: str, group: str, version: str, resources: tuple[str, ...], operations: tuple[str, ...],
    *, refused: bool,
) -> dict[str, Any]:  # fmt: skip
    path = f"{verb}-{group.replace('.', '-')}-{version}-{name}"
    return {
        "name": f"{verb[0]}{name}.kb.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"url": f"https://{HOST}:{port}/{path}", "caBundle": FOREIGN_CA if refused else CA_BUNDLE},
        "rules": [{"apiGroups": [group], "apiVersions": [version], "resources": list(resources),
                   "operations": list(operations)}],
        **({"namespaceSelector": _NOT_THERE} if name == "pod" else {}),
    }  # fmt: skip
