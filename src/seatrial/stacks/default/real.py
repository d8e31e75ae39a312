"""Plain Kubernetes on a real cluster: a workload is a Job, and nothing has to be built or installed.

The real sides of other stacks derive from this and override what differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from seatrial.kube.resources import JOBS, LIMIT_RANGES, PRIORITY_CLASSES, RESOURCE_QUOTAS, Resource
from seatrial.model.control_plane import ControlPlane, GoBinary
from seatrial.model.interfaces import Manifest, Permission, PresenceSigns, RealSide
from seatrial.model.plan import Amounts, Setup, Workload
from seatrial.observe.observer import PLAIN_WATCHES, Watch
from seatrial.stacks import job_objects, namespace_quotas


class DefaultReal(RealSide):
    """Jobs, watched with their pods."""

    creates: Resource = JOBS
    signs: PresenceSigns | None = None

    def permissions(self, setup: Setup) -> Sequence[Permission]:
        made = (RESOURCE_QUOTAS, LIMIT_RANGES) if any(self.namespace(q.name, "") for q in setup.fleet.queues) else ()
        of_queues = (permission for kind in made for permission in permissions(kind, "get", "create", "patch"))
        return (*permissions(JOBS, "create", "list", "watch", "delete"), *of_queues)

    def programs(self) -> Sequence[GoBinary]:
        return ()

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:  # noqa: ARG002
        return plane

    def priority_classes(
        self, setup: Setup, values: Sequence[int], labels: Mapping[str, str], *, preempt: bool  # noqa: ARG002
    ) -> Sequence[Manifest]:  # fmt: skip
        """PriorityClasses. They are cluster-wide, so they are named after the study and carry its label.

        Without `preempt` pods are scheduled first but evict no others: on existing nodes pods may belong to other users.
        """
        policy = {"preemptionPolicy": "PreemptLowerPriority" if preempt else "Never"}
        return job_objects.priority_classes(PRIORITY_CLASSES, values, labels, policy)

    def prepare(
        self, setup: Setup, capacity: Amounts, labels: Mapping[str, str], namespace: str  # noqa: ARG002
    ) -> Sequence[Manifest]:  # fmt: skip
        """A quota per queue, in its namespace."""
        placed = [(queue, self.namespace(queue.name, namespace)) for queue in setup.fleet.queues]
        made = [each for queue, where in placed for each in namespace_quotas.objects(queue, labels, where)]
        return sorted(made, key=lambda manifest: manifest.resource.plural)  # kind after kind

    def namespace(self, queue: str, own: str) -> str:
        return namespace_quotas.namespace_of(queue, own) if queue else own

    def for_setup(self, setup: Setup) -> RealSide:  # noqa: ARG002
        return self

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        return job_objects.manifests(workload, labels)

    def watches(self) -> Sequence[Watch]:
        return PLAIN_WATCHES

    def evicted_for(self, logs: Path) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return ()

    def queue(self) -> tuple[Resource, str] | None:
        return None


def permissions(resource: Resource, *verbs: str) -> tuple[Permission, ...]:
    """One permission per verb."""
    return tuple(Permission(verb, resource) for verb in verbs)
