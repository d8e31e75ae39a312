"""Kueue on a real cluster; on `local` Kueue v0.16.1 as a process, with the certificate of its webhooks.

Kueue looks for the certificate of its metrics server below `/etc` whatever its configuration says. It is built from a copy of
its module in which that path is the directory of the webhooks' certificate, which can be configured. Nothing else is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.kube.resources import JOBS, Resource
from seatrial.model.control_plane import CA_BUNDLE, Component, ControlPlane, GoBinary, Identity, Ready
from seatrial.model.interfaces import Manifest, Permission, PresenceSigns
from seatrial.model.labels import STUDY_LABEL, WORKLOAD_LABEL
from seatrial.model.plan import Amounts, Setup, Workload
from seatrial.model.units import MILLISECOND
from seatrial.observe.observer import Watch
from seatrial.stacks.default.real import DefaultReal, permissions
from seatrial.stacks.free_ports import HOST, free_port
from seatrial.stacks.job_objects import job, priority_classes, with_service
from seatrial.stacks.kueue.kinds import (
    CLUSTER_QUEUES,
    COHORTS,
    FLAVORS,
    GROUP,
    LOCAL_QUEUES,
    PRIORITY_LABEL,
    QUEUE,
    QUEUE_LABEL,
    TOPOLOGIES,
    VERSION,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from seatrial.stacks.kueue.objects import queues
from seatrial.stacks.kueue.workload_conditions import watches

BINARY = GoBinary(
    "kueue",
    Path(__file__).with_name("go"),
    "sigs.k8s.io/kueue/cmd/kueue",
    files=("config/components/crd/bases/*.yaml",),
    replace=(("cmd/kueue/main.go", '"/etc/kueue/metrics/certs"', "cfg.Webhook.CertDir"),),
)

CONFIG = "kueue.yaml"
CERTIFICATES = "pki"  # has tls.crt and tls.key, the names that Kueue wants

# Of the integrations that the shipped configuration enables, those whose kinds a plain cluster has and our workloads touch.
FRAMEWORKS = ("batch/job", "pod")
# Reconcilers side by side, as in the shipped configuration.
CONCURRENCY = {"Job.batch": 5, "Pod": 5, "Workload.kueue.x-k8s.io": 5, "LocalQueue.kueue.x-k8s.io": 1,
               "Cohort.kueue.x-k8s.io": 1, "ClusterQueue.kueue.x-k8s.io": 1, "ResourceFlavor.kueue.x-k8s.io": 1}  # fmt: skip

# Of fair sharing: what Kueue does if its configuration names none, and what the one that it ships has in a comment.
STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")

# Webhooks of config/components/webhook/manifests.yaml for these kinds: name, group, version, what is validated when created or
# updated. The first resource is mutated too when created, unless it is a cohort.
Hook = tuple[str, str, str, tuple[str, ...]]
HOOKS: Sequence[Hook] = (
    ("job", "batch", "v1", ("jobs",)),
    ("pod", "", "v1", ("pods",)),
    ("clusterqueue", GROUP, VERSION, ("clusterqueues",)),
    ("cohort", GROUP, VERSION, ("cohorts",)),
    ("resourceflavor", GROUP, VERSION, ("resourceflavors",)),
    ("workload", GROUP, VERSION, ("workloads", "workloads/status")),
)
SUBMITTED = ("job", "appwrapper")  # kinds of workloads
_NOT_THERE = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                                    "values": ["kube-system", "kueue-system"]}]}  # fmt: skip

# A foreign authority (its key was thrown away): the API server refuses a webhook's certificate that is checked against it.
FOREIGN_CA = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJORENCMnFBREFnRUNBZ0VCTUFvR0NDcUdTTTQ5QkFNQ01CZ3hGakFVQmdOVkJBTU1EWE52YldW"
    "aWIyUjUKSUdWc2MyVXdJQmNOTWpBd01UQXhNREF3TURBd1doZ1BNakV5TURBeE1ERXdNREF3TURCYU1CZ3hGakFVQmdOVgpCQU1NRFhOdmJXVmliMlI1"
    "SUdWc2MyVXdXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBUVZ4d2oxClhvM1dESUlOeHdJcm5jS3B4UW13UFEyWVhBa21hWkQ3WnBXbHNY"
    "bTcrUmhQMDNoVm1pSzJZYnMvbm5zVmovQ0kKK0R5T2xZQlRnUVU0RDZubm94TXdFVEFQQmdOVkhSTUJBZjhFQlRBREFRSC9NQW9HQ0NxR1NNNDlCQU1D"
    "QTBrQQpNRVlDSVFDelcyeUc0M1JuNmJueDNpOGlwMlUrdXZvZlBNa2dzY3BtZCtuZldJREJ1QUloQU5jak85MTJwOHhKCkVzTWgxQlM1SWJ2aC9qdHY4"
    "MGd4REVTMkNGRlJ6bFlQCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"
)


class KueueReal(DefaultReal):
    """Suspended Jobs, and queues that admit them. A stack whose objects Kueue holds back derives from this."""

    frameworks: Sequence[str] = FRAMEWORKS
    hooks: Sequence[Hook] = HOOKS
    signs: PresenceSigns | None = PresenceSigns("clusterqueues.kueue.x-k8s.io", ("kueue-controller-manager",))

    def permissions(self, setup: Setup) -> Sequence[Permission]:
        topology = bool(setup.settings.get("kueue", {}).get("topology"))
        cohorts = (COHORTS,) if setup.fleet.cohorts else ()
        global_kinds = (FLAVORS, CLUSTER_QUEUES, *cohorts, *((TOPOLOGIES,) if topology else ()))
        return (
            *super().permissions(setup),
            *(p for kind in global_kinds for p in permissions(kind, "get", "create", "patch", "list", "delete")),
            *permissions(CLUSTER_QUEUES, "watch"),
            *permissions(LOCAL_QUEUES, "get", "create", "patch", "list", "watch"),
            *permissions(WORKLOADS, "list", "watch"),
        )

    def programs(self) -> Sequence[GoBinary]:
        return (BINARY,)

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:
        own = setup.settings["kueue"]
        webhook, health = free_port(), free_port()
        component = Component(
            "kueue",
            BINARY,
            # the log level it is shipped with
            ("--kubeconfig=kubeconfig/kueue.yaml", f"--config={CONFIG}", "--zap-log-level=2"),
            needs=("kube-apiserver",),
            ready=Ready("/readyz", health, tls=False),  # from when its webhooks listen
            must_watch=3,  # its certificates
        )
        plane = plane.with_identity(Identity("kueue", "kueue", (), "cluster-admin")).with_component(component)
        plane = plane.with_file(CONFIG, configuration(setup, webhook, health, self.frameworks)).with_manifests(BINARY)
        return plane.with_objects(*webhooks(webhook, own["webhook-ca"] == "wrong", self.hooks))

    def priority_classes(
        self, setup: Setup, values: Sequence[int], labels: Mapping[str, str], *, preempt: bool
    ) -> Sequence[Manifest]:
        """With queues a priority is Kueue's alone: pods with a PriorityClass would be preempted by kube-scheduler as well."""
        if not setup.fleet.queues:
            return super().priority_classes(setup, values, labels, preempt=preempt)
        return priority_classes(WORKLOAD_PRIORITY_CLASSES, values, labels, {})

    def prepare(self, setup: Setup, capacity: Amounts, labels: Mapping[str, str], namespace: str) -> Sequence[Manifest]:
        return queues(setup, capacity, labels, namespace)

    def namespace(self, queue: str, own: str) -> str:  # noqa: ARG002
        """One namespace for all: a queue is a LocalQueue in it."""
        return own

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """A suspended Job in our LocalQueue, or in that of the workload's queue."""
        body = job(workload, labels)
        body["metadata"]["labels"] = {**queue_labels(workload, body), **body["metadata"]["labels"]}
        body["spec"]["suspend"] = True
        return with_service(workload, labels, Manifest(JOBS, workload.name, body))

    def watches(self) -> Sequence[Watch]:
        return watches()

    def queue(self) -> tuple[Resource, str] | None:
        return LOCAL_QUEUES, QUEUE_LABEL


def queue_labels(workload: Workload, body: dict[str, Any]) -> dict[str, str]:
    """Labels by which an object names its queue and priority; the Job's pods then have no PriorityClass."""
    named = {QUEUE_LABEL: workload.queue or QUEUE}
    if workload.queue and workload.shape.priority:
        named[PRIORITY_LABEL] = body["spec"]["template"]["spec"].pop("priorityClassName")
    return named


def configuration(setup: Setup, webhook: int, health: int, frameworks: Sequence[str] = FRAMEWORKS) -> dict[str, Any]:
    """The shipped configuration, for a process outside the cluster: own certificates, no leader election, no aggregated API."""
    settings = setup.settings["kueue"]
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
        "integrations": {"frameworks": list(frameworks), "labelKeysToCopy": [STUDY_LABEL, WORKLOAD_LABEL]},
        "featureGates": {"VisibilityOnDemand": False},  # that API server works only inside a cluster
    }
    if setup.fleet.preemption.fair_sharing:
        configured["fairSharing"] = {"preemptionStrategies": list(STRATEGIES)}
    if settings["wait-for-pods-ready"]:
        configured["waitForPodsReady"] = {
            "timeout": f"{int(settings['pods-ready-timeout']) // MILLISECOND}ms",
            "blockAdmission": bool(settings["block-admission"]),
        }
    return configured


def webhooks(port: int, refused: bool = False, hooks: Sequence[Hook] = HOOKS) -> list[dict[str, Any]]:
    """Webhooks by address instead of by Service. `refused` applies to the webhooks of what is submitted only: if it applied to
    queues too, there would be nothing to submit to."""
    mutating = [(name, group, version, kinds[:1]) for name, group, version, kinds in hooks if name != "cohort"]
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": f"kueue-{kind.lower()}-webhook-configuration"},
            "webhooks": [
                _webhook(verb, port, *hook, operations, FOREIGN_CA if refused and hook[0] in SUBMITTED else CA_BUNDLE)
                for hook in chosen
            ],
        }
        for kind, verb, chosen, operations in (
            ("Mutating", "mutate", mutating, ["CREATE"]),
            ("Validating", "validate", hooks, ["CREATE", "UPDATE"]),
        )
    ]


def _webhook(
    verb: str, port: int, name: str, group: str, version: str, kinds: Sequence[str], operations: list[str], ca: str
) -> dict[str, Any]:
    path = f"{verb}-{group.replace('.', '-')}-{version}-{name}"
    return {
        "name": f"{verb[0]}{name}.kb.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"url": f"https://{HOST}:{port}/{path}", "caBundle": ca},
        "rules": [{"apiGroups": [group], "apiVersions": [version], "resources": list(kinds), "operations": operations}],
        **({"namespaceSelector": _NOT_THERE} if name == "pod" else {}),
    }
