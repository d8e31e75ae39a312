"""How a command reaches the cluster that it was given: a kept one by its name, any other by its context."""

from __future__ import annotations

from pathlib import Path

from seatrial.clusters.access import kept_clusters
from seatrial.kube import Access, access_from
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Target


def access_to(target: Target) -> Access:
    """Access to the cluster of the context; a context must be named."""
    file = Path(target.kubeconfig).expanduser() if target.kubeconfig else None
    return access_from(file, target.context or None, must_name=True)


def access_of(target: Target, ran_on: str = "") -> Access:
    """Access to the target. Refused if the study `ran_on` another server than the context names now: nothing would be found."""
    if target.cluster:
        return access_from(kept_clusters.find(target.cluster).kubeconfig())
    access = access_to(target)
    if ran_on and access.server != ran_on:
        raise SetupProblem(
            f"the study ran on {ran_on}, and the context '{access.context}' names {access.server}",
            "name the context of the cluster that it ran on with --context (and --kubeconfig)",
        )
    return access
