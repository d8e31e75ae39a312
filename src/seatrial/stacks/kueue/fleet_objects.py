"""The objects of a shared fleet: ResourceFlavors, Cohorts, ClusterQueues and LocalQueues, by the queues of a set-up.

Cluster-wide objects are named after the trial's namespace and their name in the scenario: a foreign cluster may have a ClusterQueue
`red` already. LocalQueues are in the trial's namespace and have the name of the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from seatrial.model.fleet import ANY, LOWER, LOWER_OR_NEWER, NEVER, Flavor, FlavorQuota, Fleet, Preemption, Queue
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import GROUP_LABEL
from seatrial.model.plan import NodeGroup, Scalar, Setup
from seatrial.model.units import format_quantity
from seatrial.stacks.job_objects import api_object
from seatrial.stacks.kueue.kinds import (
    CLUSTER_QUEUES,
    COHORTS,
    FLAVORS,
    HOSTNAME,
    LOCAL_QUEUES,
    RUNS,
    TOPOLOGIES,
)

MOST_LABELS = MOST_TAINTS = (
    8  # of a ResourceFlavor (apis/kueue/v1beta2/resourceflavor_types.go: MaxProperties, MaxItems)
)
POLICIES = {NEVER: "Never", ANY: "Any", LOWER: "LowerPriority", LOWER_OR_NEWER: "LowerOrNewerEqualPriority"}
STOPS, GOES_ON = "MayStopSearch", "TryNextFlavor"  # flavorFungibility


def fleet_objects(setup: Setup, labels: Mapping[str, str], namespace: str) -> list[Manifest]:
    """The objects of the fleet, in order of creation: an object comes after those that it names."""
    fleet, settings = setup.fleet, setup.settings["kueue"]
    named = partial(cluster_name, namespace)
    made: list[Manifest] = []
    if settings["topology"]:
        made.append(api_object(TOPOLOGIES, namespace, labels, {"levels": [{"nodeLabel": HOSTNAME}]}))
    topology = namespace if settings["topology"] else ""
    for flavor in fleet.flavors or (Flavor(""),):
        spec = _flavor(flavor, setup.nodes, labels, topology)
        made.append(api_object(FLAVORS, named(flavor.name), labels, spec))
    for cohort in fleet.cohorts:
        spec = {
            **({"parentName": named(cohort.parent)} if cohort.parent else {}),
            **_groups(cohort.quotas, namespace),
            "fairSharing": {"weight": _weight(cohort.weight)},
        }
        made.append(api_object(COHORTS, named(cohort.name), labels, spec))
    until = "Active" if settings["stop-policy"] == RUNS else ""
    for queue in fleet.queues:
        spec = _cluster_queue(queue, fleet, settings, namespace)
        made.append(api_object(CLUSTER_QUEUES, named(queue.name), labels, spec))
    # Whether fair sharing is on is the same for all queues: the last to be made is the one to be asked.
    made[-1] = _checked(made[-1], until, fair_sharing=fleet.preemption.fair_sharing)
    made += [
        api_object(LOCAL_QUEUES, queue.name, labels, {"clusterQueue": named(queue.name)}, until)
        for queue in fleet.queues
    ]
    return made


def cluster_name(namespace: str, name: str) -> str:
    """Name of a cluster-wide object of the trial."""
    return f"{namespace}-{name}" if name else namespace


def _flavor(flavor: Flavor, groups: Sequence[NodeGroup], labels: Mapping[str, str], topology: str) -> dict[str, Any]:
    """Kueue adds the node labels to the selector of pods that it admits to the flavor, and skips a flavor whose taints they do not
    tolerate. A flavor of all nodes has neither, but with a topology it must name its nodes."""
    group = next((group for group in groups if group.name == flavor.nodes), None)
    spec: dict[str, Any] = {"topologyName": topology} if topology else {}
    if group is None:
        return {**spec, "nodeLabels": dict(labels)} if topology else spec
    own = dict(list(group.labels.items())[: MOST_LABELS - 1])
    spec["nodeLabels"] = {GROUP_LABEL: group.name, **own}
    taints = [{"key": t.key, "value": t.value, "effect": t.effect} for t in group.taints if _keeps_away(t.effect)]
    if taints:
        spec["nodeTaints"] = [{k: v for k, v in taint.items() if v} for taint in taints[:MOST_TAINTS]]
    return spec


def _keeps_away(effect: str) -> bool:
    return effect != "PreferNoSchedule"


def _cluster_queue(queue: Queue, fleet: Fleet, settings: Mapping[str, Scalar], namespace: str) -> dict[str, Any]:
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        **({"cohortName": cluster_name(namespace, queue.cohort)} if queue.cohort else {}),
        "queueingStrategy": settings["strategy"],
        **_groups(queue.quotas, namespace),
        "flavorFungibility": {
            "whenCanBorrow": STOPS if queue.borrows_first else GOES_ON,
            "whenCanPreempt": STOPS if queue.preempts_first else GOES_ON,
        },
        "preemption": _preemption(fleet.preemption),
        "fairSharing": {"weight": _weight(queue.weight)},
        "stopPolicy": settings["stop-policy"],
    }


def _preemption(rules: Preemption) -> dict[str, Any]:
    borrowing: dict[str, Any] = {"policy": POLICIES[rules.while_borrowing]}
    if rules.while_borrowing != NEVER and rules.while_borrowing_up_to is not None:
        borrowing["maxPriorityThreshold"] = rules.while_borrowing_up_to
    return {
        "withinClusterQueue": POLICIES[rules.within_queue],
        "reclaimWithinCohort": POLICIES[rules.reclaim],
        "borrowWithinCohort": borrowing,
    }


def _groups(quotas: Sequence[FlavorQuota], namespace: str) -> dict[str, Any]:
    """One resource group. Every flavor of a group has a quota of every resource: 0 where the scenario gives none."""
    covered = list(dict.fromkeys(resource for quota in quotas for resource in quota.nominal))
    if not covered:
        return {}
    flavors = [
        {
            "name": cluster_name(namespace, quota.flavor),
            "resources": [_resource(quota, resource) for resource in covered],
        }
        for quota in quotas
    ]
    return {"resourceGroups": [{"coveredResources": covered, "flavors": flavors}]}


def _resource(quota: FlavorQuota, resource: str) -> dict[str, str]:
    limits = {
        "nominalQuota": quota.nominal.get(resource, 0),
        "borrowingLimit": quota.borrow.get(resource),
        "lendingLimit": quota.lend.get(resource),
    }
    amounts = {key: format_quantity(amount, resource) for key, amount in limits.items() if amount is not None}
    return {"name": resource, **amounts}


def _weight(weight: float) -> str:
    """The weight as a quantity. Kueue counts weights in millionths at least."""
    return f"{weight:.9f}".rstrip("0").rstrip(".")


def _checked(manifest: Manifest, until: str, *, fair_sharing: bool) -> Manifest:
    """Kueue writes a share into the status of its queues only if its configuration has fair sharing. Where it is not ours to
    configure, a trial must not run with other rules than its scenario's."""

    def check(status: Mapping[str, Any]) -> tuple[str, str] | None:
        has = "fairSharing" in status
        if has == fair_sharing:
            return None
        on, off = ("on", "off") if fair_sharing else ("off", "on")
        return (
            f"the scenario has fair sharing {on}, and the Kueue of this cluster is configured with fair sharing {off}",
            f"set `preemption: {{fair-sharing: {str(has).lower()}}}` in the scenario, change `fairSharing` in the configuration"
            " of Kueue, or use a control plane of the trial's own (--on local without --cluster)",
        )

    return Manifest(manifest.resource, manifest.name, manifest.body, until, check if until else None)
