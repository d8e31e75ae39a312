"""Kueue's objects on a real cluster: what a trial creates, and what watches of them show.

A trial creates one ResourceFlavor, one ClusterQueue with a quota, and one LocalQueue in its namespace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from seatrial.kube.resources import JOBS, PODS, Resource
from seatrial.kube.shapes import Conditioned, Job, Pod, condition
from seatrial.kube.watching import DELETED
from seatrial.model.interfaces import Manifest
from seatrial.model.lifecycle import ADMITTED, QUEUED, RELEASED
from seatrial.model.plan import Amounts, Scalar
from seatrial.model.units import format_quantity
from seatrial.observe.observer import Observer, Watch, see_job, see_pod, source_of
from seatrial.stacks.job_objects import api_object
from seatrial.stacks.kueue import QUOTA_RESERVED, quota

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


def queues(
    settings: Mapping[str, Scalar], capacity: Amounts, labels: Mapping[str, str], namespace: str
) -> Sequence[Manifest]:
    """Objects without a namespace are named after our namespace: a foreign cluster may have queues already."""
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


_STAGES = {"QuotaReserved": QUOTA_RESERVED, "Admitted": ADMITTED, "Finished": RELEASED}  # by condition
_MISSING = "Inadmissible"  # reason of a workload whose queue is missing or inactive: Kueue does not look at it


def see_workload(observer: Observer, stamp: int, event: str, workload: Conditioned) -> None:
    """A Workload is named by Kueue; ours is the Job that owns it."""
    owners = [owner.name for owner in workload.metadata.owner_references if owner.kind == "Job"]
    if not owners or event == DELETED:
        return
    name = owners[0]
    source = source_of(event)
    observer.workload(name, QUEUED.name, stamp, source, workload.metadata.creation_timestamp)
    for kind, stage in _STAGES.items():
        found = condition(workload.status.conditions, kind)
        if found and found.status == "True":
            observer.workload(name, stage.name, stamp, source, found.last_transition_time)
    reserved = condition(workload.status.conditions, "QuotaReserved")
    waits = reserved is not None and reserved.status != "True"
    observer.says(name, reserved.message if reserved and waits else "")
    if reserved and waits and reserved.reason == _MISSING:
        observer.trouble(f"Kueue: {reserved.message}")


def see_queue(kind: str, observer: Observer, stamp: int, event: str, queue: Conditioned) -> None:  # noqa: ARG001
    """A queue that is not active admits nothing. Every queue is inactive for a moment after it was created."""
    active = condition(queue.status.conditions, "Active")
    text = f"{kind} {queue.metadata.name} is not active"
    if active and active.status == "False":
        observer.trouble(f"{text} ({active.reason}): {active.message}")
    else:
        observer.well(text)


def watches() -> tuple[Watch, ...]:
    """Jobs, pods, Workloads and queues."""
    told: set[str] = set()  # Jobs whose status says that they are suspended

    def see_held_job(observer: Observer, stamp: int, event: str, job: Job) -> None:
        """The Job controller needs minutes for thousands of suspended Jobs: each status it writes is progress."""
        held = condition(job.status.conditions, "Suspended")
        if held and job.metadata.name not in told:
            told.add(job.metadata.name)
            observer.ledger.achieved(stamp - observer.epoch)
        see_job(observer, stamp, event, job)

    return (
        Watch(JOBS, Job, see_held_job),
        Watch(PODS, Pod, see_pod),
        Watch(WORKLOADS, Conditioned, see_workload, labelled=False),
        *(Watch(kind, Conditioned, partial(see_queue, kind.kind)) for kind in (CLUSTER_QUEUES, LOCAL_QUEUES)),
    )
