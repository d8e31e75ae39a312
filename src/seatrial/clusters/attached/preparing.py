"""Everything that can be wrong with a foreign cluster is said here, before the study's directory is made."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from seatrial.clusters.attached.inspecting import refuse
from seatrial.clusters.local import programs
from seatrial.clusters.local.binaries import ensure_binaries
from seatrial.kube import Access, ApiProblem, Client, access_from
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Target, Trial


def access_to(target: Target) -> Access:
    """The way to the cluster that was named; none is picked by default."""
    file = Path(target.kubeconfig).expanduser() if target.kubeconfig else None
    return access_from(file, target.context or None, must_name=True)


def prepare(target: Target, trials: Sequence[Trial]) -> Target:
    """The target with its server, for the record. KWOK is built here, where that may take its time."""
    access = access_to(target)
    asyncio.run(_refuse(access, trials))
    if any(not group.existing for trial in trials for group in trial.node_groups()):
        ensure_binaries([programs.KWOK], Path(target.binaries) if target.binaries else None)
    return dataclasses.replace(target, server=access.server)


async def _refuse(access: Access, trials: Sequence[Trial]) -> None:
    async with Client(access) as client:
        try:
            await refuse(client, trials)
        except ApiProblem as problem:
            raise SetupProblem(problem.message, problem.remedy) from problem
