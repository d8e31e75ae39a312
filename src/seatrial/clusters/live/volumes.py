"""Provisions volumes for claims on fake nodes: nothing mounts them, but the scheduler does not place a pod without.

We create a PersistentVolume that names the claim, and the real persistent-volume controller binds the two. Its reclaim policy
is `Retain`, because with `Delete` that controller would remove the directory of its `hostPath`; we delete the volume ourselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from seatrial.clusters.live.background_requests import BackgroundRequests
from seatrial.kube import Client
from seatrial.kube.resources import VOLUMES
from seatrial.kube.shapes import Object, Shape
from seatrial.kube.watching import DELETED, LISTED
from seatrial.model.labels import STUDY_LABEL, WORKLOAD_LABEL

NOWHERE = "/nonexistent"  # fake nodes look at no path


class _Requests(Shape):
    requests: dict[str, str] = msgspec.field(default_factory=dict)


class _ClaimSpec(Shape):
    access_modes: list[str] = msgspec.field(default_factory=list)
    resources: _Requests = msgspec.field(default_factory=_Requests)
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_name: str = ""


class VolumeClaim(Object):
    """A PersistentVolumeClaim."""

    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)


def volume_of(claim: VolumeClaim) -> dict[str, Any]:
    """A volume for this claim alone, as large as it requests, with our labels."""
    meta, spec = claim.metadata, claim.spec
    labels = {key: meta.labels[key] for key in (STUDY_LABEL, WORKLOAD_LABEL) if key in meta.labels}
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": meta.namespace, "name": meta.name,
                 "uid": meta.uid}  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(meta.uid), "labels": labels},
        "spec": {
            "capacity": {"storage": spec.resources.requests.get("storage", "1Gi")},
            "accessModes": spec.access_modes or ["ReadWriteOnce"],
            "volumeMode": spec.volume_mode,
            "storageClassName": spec.storage_class_name,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": reference,
            "hostPath": {"path": NOWHERE},
        },
    }


def volume_name(uid: str) -> str:
    """Name of the volume for the claim with this uid."""
    return f"seatrial-{uid}"


class VolumeBinder:
    """Gives every claim a volume. `problem` is told of requests that failed."""

    def __init__(self, client: Client, problem: Callable[[str], None]) -> None:
        self._client, self._background = client, BackgroundRequests(problem)
        self._made: dict[str, str] = {}  # uid of a claim → its volume
        self._listed: set[str] = set()

    def sees(self, event: str, claim: VolumeClaim | None) -> None:
        """Takes an event of a watch on claims; None for the claim ends a list."""
        if claim is None:
            for uid in self._made.keys() - self._listed:  # gone while nobody watched
                self._remove(uid)
            self._listed.clear()
            return
        uid = claim.metadata.uid
        if event == LISTED:
            self._listed.add(uid)
        if event == DELETED:
            self._remove(uid)
        elif uid not in self._made and claim.spec.volume_name in ("", volume_name(uid)):
            name = self._made[uid] = volume_name(uid)
            if not claim.spec.volume_name:
                made = self._client.create(VOLUMES, volume_of(claim), name)
                self._background.send(made, f"the claim {claim.metadata.name} got no volume")

    def _remove(self, uid: str) -> None:
        name = self._made.pop(uid, None)
        if name:
            self._background.send(self._client.delete(VOLUMES, name), f"the volume {name} could not be removed")

    async def stop(self) -> None:
        """Cancels requests in flight."""
        await self._background.stop()
