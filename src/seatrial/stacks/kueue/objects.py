"""Kueue's objects on a real cluster. Without queues in the scenario a trial makes one ResourceFlavor, one ClusterQueue with a quota
and one LocalQueue in its namespace; with queues those of `fleet_objects`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.kube.resources import Resource
from seatrial.model.interfaces import Manifest
from seatrial.model.plan import Amounts, Setup
from seatrial.model.units import format_quantity
from seatrial.stacks.job_objects import api_object
from seatrial.stacks.kueue import quota
from seatrial.stacks.kueue.fleet_objects import fleet_objects
from seatrial.stacks.kueue.kinds import CLUSTER_QUEUES, FLAVORS, HOSTNAME, LOCAL_QUEUES, QUEUE, RUNS, TOPOLOGIES


def queues(setup: Setup, capacity: Amounts, labels: Mapping[str, str], namespace: str) -> Sequence[Manifest]:
    """Objects without a namespace are named after our namespace: a foreign cluster may have queues already."""
    if setup.fleet.queues:
        return fleet_objects(setup, labels, namespace)
    settings = setup.settings["kueue"]
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
        # Every flavor of the queue has a topology, so Kueue places every workload by it without being asked.
        specs[0] = (FLAVORS, namespace, {"nodeLabels": dict(labels), "topologyName": namespace})
        specs.insert(0, (TOPOLOGIES, namespace, {"levels": [{"nodeLabel": HOSTNAME}]}))
    until = "Active" if settings["stop-policy"] == RUNS else ""
    return [api_object(kind, name, labels, spec, until if kind is LOCAL_QUEUES else "") for kind, name, spec in specs]
