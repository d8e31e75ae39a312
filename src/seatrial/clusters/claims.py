"""Gives claims on fake nodes a volume, as a provisioner would: nothing mounts it, yet the scheduler lets no pod go without.

A PersistentVolume with a reference to the claim is made, and the real persistent-volume controller binds the two. It is kept when
the claim goes (`Retain`), because with `Delete` that controller would remove the directory that a `hostPath` names; so we
delete it ourselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from seatrial.clusters.errands import Errands
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


class Claim(Object):
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)


def volume_of(claim: Claim) -> dict[str, Any]:
    """As large as was asked for, with our marks, for this claim alone."""
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
    return f"seatrial-{uid}"


class Binder:
    """`sees` takes every event of a watch on claims."""

    def __init__(self, client: Client, problem: Callable[[str], None]) -> None:
        self._client, self._errands = client, Errands(problem)
        self._made: dict[str, str] = {}  # uid of a claim → its volume
        self._listed: set[str] = set()

    def sees(self, event: str, claim: Claim | None) -> None:
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
                self._errands.send(made, f"the claim {claim.metadata.name} got no volume")

    def _remove(self, uid: str) -> None:
        name = self._made.pop(uid, None)
        if name:
            self._errands.send(self._client.delete(VOLUMES, name), f"the volume {name} could not be removed")

    async def stop(self) -> None:
        await self._errands.stop()
