"""A queue where there is none but Kubernetes: a namespace with a ResourceQuota.

The API server refuses a pod that would exceed the quota; the Job controller tries again after 1 s, 2 s, 4 s … 60 s
(MaxJobApiBackOff, pkg/controller/job/job_controller.go), so a Job may get its pods a minute after there is room for them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace

from seatrial.kube.resources import LIMIT_RANGES, RESOURCE_QUOTAS
from seatrial.model.fleet import Queue
from seatrial.model.interfaces import Manifest
from seatrial.model.units import format_quantity
from seatrial.stacks.job_objects import api_object

NAME = "queue"  # of the objects in a queue's namespace
LONGEST = 63  # of a namespace's name
_PLAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# Once a quota limits these, the API server refuses pods that do not say what they request of them (validationSet in
# pkg/quota/v1/evaluator/core/pods.go). A pod that is silent about another resource uses none of it.
_MUST_BE_SAID = ("cpu", "memory")


def namespace_of(queue: str, own: str) -> str:
    """`OWN-QUEUE`. A digest is added if that is too long, is not a namespace's name, or ends in a number, as the namespaces of a
    load do."""
    plain = f"{own}-{queue}"
    if _PLAIN.fullmatch(plain) and len(plain) <= LONGEST and not queue.isdigit():
        return plain
    digest = hashlib.sha256(queue.encode()).hexdigest()[:8]
    word = re.sub(r"[^a-z0-9]+", "-", queue.lower())[: LONGEST - len(own) - len(digest) - 2].strip("-")
    return "-".join(part for part in (own, word, digest) if part)


def limits_of(queue: Queue) -> dict[str, int]:
    """Resource → the most that its pods may request together: of all flavors, because a namespace knows none."""
    total: dict[str, int] = {}
    for quota in queue.quotas:
        for resource, amount in quota.nominal.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def objects(queue: Queue, labels: Mapping[str, str], namespace: str) -> list[Manifest]:
    """Its ResourceQuota, and before it a LimitRange: by that a pod that does not request cpu or memory requests 0."""
    limits = limits_of(queue)
    silent = {resource: "0" for resource in _MUST_BE_SAID if resource in limits}
    made: list[Manifest] = []
    if silent:
        made.append(
            api_object(LIMIT_RANGES, NAME, labels, {"limits": [{"type": "Container", "defaultRequest": silent}]})
        )
    if limits:
        hard = {_limited(resource): format_quantity(amount, resource) for resource, amount in limits.items()}
        # Until the controller has written what is used, the API server refuses every pod ("status unknown for quota").
        made.append(api_object(RESOURCE_QUOTAS, NAME, labels, {"hard": hard}, until=".hard"))
    return [replace(manifest, namespace=namespace) for manifest in made]


def _limited(resource: str) -> str:
    """A quota's name for requests of a resource; pods are counted, not requested."""
    return resource if resource == "pods" else f"requests.{resource}"
