"""What Kueue admits to: one flavor, one ClusterQueue with a quota, one LocalQueue in the trial's namespace.

The quota is what the nodes have in all, or what the settings say. It covers every resource that a node has or the settings
name: a workload that asks for another one is never admitted. Pods are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.kube.resources import Resource
from seatrial.model.interfaces import Manifest
from seatrial.model.plan import Amounts, Scalar
from seatrial.model.units import format_quantity, parse_quantity
from seatrial.stacks.kueue import AS_NODES, SET_BY

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"
FLAVORS = Resource(GROUP, VERSION, "resourceflavors", "ResourceFlavor", namespaced=False)
TOPOLOGIES = Resource(GROUP, VERSION, "topologies", "Topology", namespaced=False)
CLUSTER_QUEUES = Resource(GROUP, VERSION, "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES = Resource(GROUP, VERSION, "localqueues", "LocalQueue")
WORKLOADS = Resource(GROUP, VERSION, "workloads", "Workload")

RUNS = "None"  # the stop policy of a queue that admits
QUEUE = "seatrial"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
HOSTNAME = "kubernetes.io/hostname"


def quota(settings: Mapping[str, Scalar], capacity: Amounts) -> dict[str, int]:
    """Resource → how much is admitted at a time."""
    amounts = {name: amount for name, amount in capacity.items() if amount and name != "pods"}
    for setting, resource in SET_BY.items():
        if settings[setting] != AS_NODES:
            amounts[resource] = parse_quantity(str(settings[setting]), resource)
    return amounts


def manifests(
    settings: Mapping[str, Scalar], capacity: Amounts, labels: Mapping[str, str], namespace: str
) -> Sequence[Manifest]:
    """What belongs to no namespace is named after ours: on a cluster of somebody else's there may be queues already."""
    amounts = quota(settings, capacity)
    resources = [{"name": name, "nominalQuota": format_quantity(amount, name)} for name, amount in amounts.items()]
    group = {"coveredResources": list(amounts), "flavors": [{"name": namespace, "resources": resources}]}
    cluster_queue = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "queueingStrategy": settings["strategy"],
        "resourceGroups": [group],
        "stopPolicy": settings["stop-policy"],
    }
    specs: list[tuple[Resource, str, dict[str, Any]]] = [
        (FLAVORS, namespace, {}),
        (CLUSTER_QUEUES, namespace, cluster_queue),
        (LOCAL_QUEUES, QUEUE, {"clusterQueue": namespace}),
    ]
    if settings["topology"]:
        # All flavors of the queue have a topology, so every workload is placed by it without asking.
        specs[0] = (FLAVORS, namespace, {"nodeLabels": dict(labels), "topologyName": namespace})
        specs.insert(0, (TOPOLOGIES, namespace, {"levels": [{"nodeLabel": HOSTNAME}]}))
    until = "Active" if settings["stop-policy"] == RUNS else ""
    return [
        Manifest(kind, name, _object(kind, name, labels, spec), until if kind is LOCAL_QUEUES else "")
        for kind, name, spec in specs
    ]


def _object(kind: Resource, name: str, labels: Mapping[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": spec,
    }
