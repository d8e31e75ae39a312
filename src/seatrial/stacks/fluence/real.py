"""Fluence on a real cluster where it is installed: Jobs whose pods name its scheduler and their group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.kube.resources import JOBS
from seatrial.model.interfaces import Manifest, PresenceSigns
from seatrial.model.plan import Workload
from seatrial.stacks import job_objects
from seatrial.stacks.default.real import DefaultReal

SCHEDULER = "fluence"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
SIZE_LABEL = "fluence.group-size"


class FluenceReal(DefaultReal):
    """Fluence's controller creates the PodGroups; nothing of it can be built for `local`."""

    signs = PresenceSigns("podgroups.scheduling.x-k8s.io", ("fluence", "fluence-controller-manager"))

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """With the labels that Fluence's webhook would add; its controller makes the PodGroup from them."""
        made = job_objects.manifests(workload, labels, SCHEDULER)
        for manifest in made:
            if manifest.resource == JOBS:
                template: dict[str, Any] = manifest.body["spec"]["template"]
                own = {**template["metadata"]["labels"], GROUP_LABEL: workload.name, SIZE_LABEL: str(workload.pods)}
                template["metadata"]["labels"] = own
        return made
