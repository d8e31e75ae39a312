"""The programs of a control plane, each an ordinary Go dependency pinned in a folder of its own under `go/`."""

from __future__ import annotations

from pathlib import Path

from seatrial.model.control_plane import GoBinary

KUBERNETES = "v1.36.3"

_GO = Path(__file__).with_name("go")
_MAJOR, _MINOR = KUBERNETES.removeprefix("v").split(".")[:2]

# Without the stamps the server calls itself `v0.0.0-master+$Format…`, which kubectl refuses to parse.
_STAMPS = tuple(
    (f"{package}.{variable}", value)
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for variable, value in (("gitVersion", KUBERNETES), ("gitMajor", _MAJOR), ("gitMinor", _MINOR))
)


def _kubernetes(name: str) -> GoBinary:
    return GoBinary(name, _GO / "kubernetes", f"k8s.io/kubernetes/cmd/{name}", _STAMPS)


ETCD = GoBinary("etcd", _GO / "etcd", "go.etcd.io/etcd/server/v3")
KUBE_APISERVER = _kubernetes("kube-apiserver")
KUBE_CONTROLLER_MANAGER = _kubernetes("kube-controller-manager")
KUBE_SCHEDULER = _kubernetes("kube-scheduler")
# As shipped, KWOK begins every watch with a list of all pods. An API server at its limit closes watches, and KWOK then restarts
# pods that it has just started (docs/local.md). With this change a watch continues where the last one ended.
_FROM_THE_BEGINNING = "if !o.EnableListPager || o.EnableStreamWatch {"
_WHERE_IT_ENDED = "if (!o.EnableListPager || o.EnableStreamWatch) && !opts.AllowWatchBookmarks {"
KWOK = GoBinary(
    "kwok", _GO / "kwok", "sigs.k8s.io/kwok/cmd/kwok",
    replace=(("pkg/utils/informer/event.go", _FROM_THE_BEGINNING, _WHERE_IT_ENDED),),
)  # fmt: skip

# Many kubelets in one process, over a container runtime that plays containers, or containerd (docs/kubelets.md).
KUBELETS = GoBinary("kubelets", _GO / "kubelets", ".", _STAMPS)

# What real containers run: our whole image, and the network plugin of containerd.
POD = GoBinary("pod", _GO / "pod", ".")

# What a cluster runs, in the order in which they are built.
CONTROL_PLANE = (ETCD, KWOK, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER)

KUBECTL = _kubernetes("kubectl")
KWOKCTL = GoBinary("kwokctl", _GO / "kwok", "sigs.k8s.io/kwok/cmd/kwokctl")
KWOK_AS_SHIPPED = GoBinary("kwok-as-shipped", KWOK.module, KWOK.package)

# Only for tests and benchmarks.
PEERS = (KUBECTL, KWOKCTL)
