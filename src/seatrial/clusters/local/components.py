"""The control plane before a stack amends it: one function per component, each returning a plain description.

Flags follow kubeadm where that shows in figures (own identities, Node and RBAC authorization, Priority & Fairness, admission)
and differ where a throw-away cluster is better served: no fsync, no leader election (a killed controller manager would be
missed for 15 s), etcd on a Unix socket that only the owner can open.

Controllers share the identity `system:kube-controller-manager` instead of a service account each. With service accounts the
manager fetches some forty tokens through its own 20 requests per second, and nothing moves for 4.7 s after its start (measured;
0.1 s without). Every controller still has its own rate limit and user agent, and fairness puts both kinds of identity on the
same level with the same flows. The setting `--use-service-account-credentials: true` brings service accounts back.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from seatrial.clusters import programs
from seatrial.clusters.kwok.kwok_process import STAGES, kwok, kwok_config
from seatrial.clusters.programs.versions import at_version
from seatrial.clusters.supervision import directories
from seatrial.clusters.supervision.ports import HOST, Ports
from seatrial.clusters.supervision.spawning import roomy
from seatrial.model.control_plane import Component, ControlPlane, GoBinary, Identity, Override, Ready
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.plan import Scalar
from seatrial.model.settings import Settings

ADMIN = Identity("admin", "seatrial-admin", ("system:masters",))  # for set-up only: exempt from fairness
USER = Identity(directories.USER, "seatrial", (), "cluster-admin")  # for the user and the load
IDENTITIES = (
    ADMIN,
    USER,
    Identity("kube-controller-manager", "system:kube-controller-manager", (), "cluster-admin"),
    Identity("kube-scheduler", "system:kube-scheduler"),
    Identity("kwok", "kwok", ("system:nodes",), "seatrial:kwok"),  # so that heartbeats are classified like kubelets'
    Identity("kubelets", "kubelets", ("system:nodes",), "system:node"),  # of all our kubelets together
)

# In the cluster's directory, which is removed with it.
KUBELETS_FILE, KUBELETS_SOCKET, KUBELETS_ROOT, RUNTIME_LOG = "kubelets.json", "kubelets.sock", "kubelets", "runtime.log"
INFLIGHT = ("max-requests-inflight", "max-mutating-requests-inflight")
QUOTA_BYTES = 8 * 2**30

_KWOK_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch", "update"]},
    {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["patch", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch", "update", "delete"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"],
    },
]
_KWOK_ROLE: Mapping[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "seatrial:kwok"},
    "rules": _KWOK_RULES,
}

# Every write that makes a transition, once answered; not heartbeats and events, which outnumber the rest.
AUDIT_POLICY: Mapping[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {
            "level": "None",
            "resources": [
                {"group": "", "resources": ["events", "serviceaccounts/token"]},
                {"group": "events.k8s.io"},
                {"group": "authentication.k8s.io"},
                {"group": "authorization.k8s.io"},
            ],
        },
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """How a control plane differs from the default one."""

    settings: Settings | None = None  # component → setting → value, as `model.settings.resolve` gives them
    stages: str = ""  # KWOK stages as YAML; without them there is no KWOK
    managed_nodes: str = ""  # label selector of the nodes that KWOK plays; empty: all
    audit: bool = True
    audit_policy: Mapping[str, Any] | None = None
    kubelets: Mapping[str, Any] | None = None  # the file of their process (`kubelet_nodes`); None: no kubelets
    port: int = 0  # of the API server; 0: a free one
    overrides: Mapping[str, Override] | None = None


def describe(options: PlaneOptions, ports: Ports) -> ControlPlane:
    """The control plane with these options: ports reserved, settings rendered, ready for a stack to amend."""
    port = ports.reserve(options.port)
    settings = options.settings or {}
    components = [etcd(), kube_apiserver(port, options.audit, settings.get("kube-apiserver", {}))]
    components.append(kube_controller_manager(ports.reserve(), settings.get("kube-controller-manager", {})))
    components.append(kube_scheduler(ports.reserve()))
    files: dict[str, str | Mapping[str, Any]] = {
        "scheduler.yaml": scheduler_config(settings.get("kube-scheduler", {})),
    }
    if options.audit:
        files["audit-policy.yaml"] = options.audit_policy or AUDIT_POLICY
    if options.stages:
        components.append(kwok(options.managed_nodes))
        files["kwok.yaml"] = kwok_config(settings.get("kwok", {}))
        files[STAGES] = options.stages
    if options.kubelets is not None:
        components.append(kubelets())
        files[KUBELETS_FILE] = options.kubelets
    plane = ControlPlane(f"https://{HOST}:{port}", tuple(components), IDENTITIES, files, (_KWOK_ROLE,))
    return _with_flags(plane, settings)


def for_fake_nodes(plane: ControlPlane) -> ControlPlane:
    """Without the taint for nodes that are not Ready: ours are Ready from the start, and the controller manager would remove the
    taint from one after another with its 20 requests per second, 50 s for 1,000 nodes."""
    server = plane.component("kube-apiserver").flag("--disable-admission-plugins", "TaintNodesByCondition")
    return plane.with_component(server)


def etcd() -> Component:
    """On Unix sockets: nobody can take its port, and no other user of the machine can read Secrets from it."""
    nowhere = "http://localhost:1"  # required, must look like an address; never dialled in a cluster of one
    return Component(
        "etcd",
        programs.ETCD,
        (
            "--name=etcd", "--data-dir=etcd", "--unsafe-no-fsync=true",
            f"--quota-backend-bytes={QUOTA_BYTES}",
            "--listen-client-urls=unix://etcd.sock", f"--advertise-client-urls={nowhere}",
            "--listen-peer-urls=unix://etcd-peer.sock", f"--initial-advertise-peer-urls={nowhere}",
            f"--initial-cluster=etcd={nowhere}",
            "--heartbeat-interval=20", "--election-timeout=100",  # a lone member elects itself 0.7 s sooner
            "--log-level=warn",
        ),
        ready=Ready(socket="etcd.sock"),
        env=roomy(1 / 8),
    )  # fmt: skip


def kube_apiserver(port: int, audit: bool, settings: Mapping[str, Scalar]) -> Component:
    """With the settings `fairness` and the limits of requests in flight."""
    logged = (
        ("--audit-policy-file=audit-policy.yaml", "--audit-log-path=audit.log", "--audit-log-maxsize=0")  # not rotated
        if audit
        else ()
    )
    limits = [f"--{name}={settings[name]}" for name in INFLIGHT if name in settings]
    return Component(
        "kube-apiserver",
        programs.KUBE_APISERVER,
        (
            "--etcd-servers=unix://etcd.sock",
            *_serving(port),
            f"--advertise-address={HOST}",
            "--endpoint-reconciler-type=none",  # 127.0.0.1 cannot be an endpoint of the service `kubernetes`
            "--client-ca-file=pki/ca.crt",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            "--service-account-key-file=pki/service-accounts.pub",
            "--service-account-signing-key-file=pki/service-accounts.key",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            f"--enable-priority-and-fairness={str(settings.get('fairness', 'on') == 'on').lower()}",
            *limits,
            *logged,
        ),
        needs=("etcd",),
        ready=Ready("/readyz", port),
        env=roomy(1 / 4),
    )


def kube_controller_manager(port: int, settings: Mapping[str, Scalar]) -> Component:
    """With the settings `qps`, `burst` and `job-syncs`."""
    component = Component(
        "kube-controller-manager",
        programs.KUBE_CONTROLLER_MANAGER,
        (
            *_client("kube-controller-manager"),
            *_serving(port),
            "--leader-elect=false",
            "--use-service-account-credentials=false",  # see the module's docstring
            "--root-ca-file=pki/ca.crt",
            "--service-account-private-key-file=pki/service-accounts.key",
        ),
        needs=("kube-apiserver",),
        ready=Ready("/healthz", port),
        env=roomy(1 / 8),
    )
    if "qps" in settings:
        component = component.flag("--kube-api-qps", _qps(settings["qps"]))
    for setting, flag in (("burst", "--kube-api-burst"), ("job-syncs", "--concurrent-job-syncs")):
        if setting in settings:
            component = component.flag(flag, settings[setting])
    return component


def kube_scheduler(port: int) -> Component:
    """Its settings are in `scheduler.yaml`."""
    return Component(
        "kube-scheduler",
        programs.KUBE_SCHEDULER,
        ("--config=scheduler.yaml", *_client("kube-scheduler")[1:], *_serving(port)),
        needs=("kube-apiserver",),
        ready=Ready("/readyz", port),
        env=roomy(1 / 8),
    )


def kubelets() -> Component:
    """All kubelets of the cluster in one process. Which nodes there are is in a file; a line to its socket has the file read."""
    return Component(
        "kubelets",
        programs.KUBELETS,
        (
            "--kubeconfig=kubeconfig/kubelets.yaml",
            f"--config={KUBELETS_FILE}",
            f"--control={KUBELETS_SOCKET}",
            f"--root={KUBELETS_ROOT}",
            f"--runtime-log={RUNTIME_LOG}",
            "--tls-cert-file=pki/serving.crt",
            "--tls-private-key-file=pki/serving.key",
        ),
        needs=("kube-apiserver",),
        ready=Ready("/healthz"),
        lock="kubelets.lock",
        env={**roomy(1 / 4), "GOGC": "100"},  # with 400 a hundred kubelets held 560 MB
    )


def scheduler_config(settings: Mapping[str, Scalar]) -> dict[str, Any]:
    """With the settings `qps` and `burst`."""
    connection: dict[str, Any] = {"kubeconfig": "kubeconfig/kube-scheduler.yaml"}
    if "qps" in settings:
        connection["qps"] = _qps(settings["qps"])
    if "burst" in settings:
        connection["burst"] = settings["burst"]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": {"leaderElect": False},
    }


def _client(identity: str) -> tuple[str, ...]:
    file = f"kubeconfig/{identity}.yaml"
    return (
        f"--kubeconfig={file}",
        f"--authentication-kubeconfig={file}",
        f"--authorization-kubeconfig={file}",
        "--client-ca-file=pki/ca.crt",
    )


def _serving(port: int) -> tuple[str, ...]:
    return (
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        "--permit-port-sharing=true",  # with our reservation, see `ports`
        "--tls-cert-file=pki/serving.crt",
        "--tls-private-key-file=pki/serving.key",
    )


def _qps(value: Scalar) -> float | int:
    """Our 0 means no limit; for client-go 0 means its default of 5, and a negative number no limit."""
    number = float(value)
    return -1 if number == 0 else int(number) if number.is_integer() else number


# Settings that the functions above render; every component also takes `args`, `feature-gates` and `--any-flag`.
_RENDERED = {
    "kube-apiserver": {"fairness", "audit", "cores", *INFLIGHT},  # cores: the simulator's
    "kube-scheduler": {"qps", "burst", "cycle", "cycle-per-node"},  # the last two are the simulator's
    "kube-controller-manager": {"qps", "burst", "job-syncs"},
    "kwok": {"parallelism"},
}


def _with_flags(plane: ControlPlane, settings: Settings) -> ControlPlane:
    for component in plane.components:
        amended = component
        for setting, value in settings.get(component.name, {}).items():
            amended = _with_flag(amended, setting, value)
        plane = plane.with_component(amended)
    return plane


def _with_flag(component: Component, setting: str, value: Scalar) -> Component:
    if setting in _RENDERED.get(component.name, ()):
        return component
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if setting == "args":
        return _with_args(component, tuple(shlex.split(text)))
    if setting == "feature-gates":
        gates = dict(pair.partition("=")[::2] for pair in text.split(",") if pair)
        return component.gates(**{name: on.strip().lower() == "true" for name, on in gates.items()})
    if setting.startswith("--"):
        return component.flag(setting, text)
    known = ", ".join(sorted(_RENDERED.get(component.name, set()) | {"args", "feature-gates"}))
    raise UsageProblem(
        f"{component.name} has no setting '{setting}'", f"It has {known}, and any of its flags, written --flag: value."
    )


def _with_args(component: Component, args: tuple[str, ...]) -> Component:
    for arg in args:
        name, _, value = arg.partition("=")
        component = component.flag(name, value or "true")
    return component


def _other_version(component: Component, version: str) -> GoBinary:
    if not isinstance(component.binary, GoBinary):
        raise UsageProblem(f"{component.name} has no other versions here", "Name a `binary` instead.")
    return at_version(component.binary, version)


def override(plane: ControlPlane, overrides: Mapping[str, Override]) -> ControlPlane:
    """What the user names for a component overrides stack and settings. An unknown component is an error."""
    for name, wanted in overrides.items():
        if name not in {c.name for c in plane.components}:
            known = ", ".join(c.name for c in plane.components)
            raise UsageProblem(f"there is no component '{name}'", f"There are {known}.")
        component = plane.component(name)
        for file in (wanted.binary, wanted.config):
            if file and not file.is_file():
                raise SetupProblem(f"{name}: there is no file {file}", "Name one that exists.")
        if wanted.binary:
            component = replace(component, binary=wanted.binary.absolute())
        elif wanted.version:
            component = replace(component, binary=_other_version(component, wanted.version))
        if (
            wanted.config and name == "kwok"
        ):  # KWOK reads several: ours with its options stays, that with the stages is replaced
            ours, theirs = f"--config={STAGES}", f"--config={wanted.config.absolute()}"
            component = replace(component, args=tuple(theirs if arg == ours else arg for arg in component.args))
        elif wanted.config:
            component = component.flag("--config", wanted.config.absolute())
        plane = plane.with_component(_with_args(component, wanted.args))
    return plane
