"""Plays what fake nodes need besides KWOK, for all studies of a cluster at once: applications and volumes.

The keeper of a kept cluster does this, because workloads outlive the command that submitted them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from seatrial.clusters.live.applications import Applications
from seatrial.clusters.live.volumes import VolumeBinder, VolumeClaim
from seatrial.kube import ApiProblem, Client, Lost, Resource, Unreachable, watch
from seatrial.kube.resources import CLAIMS, PODS
from seatrial.kube.shapes import Pod
from seatrial.model.labels import GANG_LABEL

AGAIN_S = 1.0


async def play(client: Client, log: Callable[[str], None]) -> None:
    """Plays applications and provisions volumes until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(play_applications(client, log))
        group.create_task(bind_claims(client, log))


async def play_applications(client: Client, log: Callable[[str], None]) -> None:
    """Plays the applications of all gangs in the cluster."""
    applications = Applications(client, log)
    try:
        await _follow(client, PODS, Pod, applications.sees, GANG_LABEL, log)
    finally:
        await applications.stop()


async def bind_claims(client: Client, log: Callable[[str], None]) -> None:
    """Binds all claims of the cluster: our clusters have no other provisioner."""
    binder = VolumeBinder(client, log)
    try:
        await _follow(client, CLAIMS, VolumeClaim, binder.sees, "", log)
    finally:
        await binder.stop()


async def _follow(
    client: Client,
    resource: Resource,
    shape: type[Any],
    sees: Callable[[str, Any], None],
    label: str,
    log: Callable[[str], None],
) -> None:
    """Watches again whenever the API server went away."""
    while True:
        try:
            await watch(client, resource, shape, lambda _, event, thing: sees(event, thing), labelSelector=label)
        except (ApiProblem, Lost, Unreachable) as error:
            log(f"the watch of {resource.plural} ended and is begun again: {error}")
        await asyncio.sleep(AGAIN_S)
