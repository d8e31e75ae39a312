"""What `seatrial record` needs to be allowed: to list and watch pods and Jobs, or to list nodes. It asks before it begins.

A missing permission is named, with the role that gives it: the administrator of the cluster need not look it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import yaml

from seatrial.kube import ApiProblem, Client
from seatrial.kube.resources import JOBS, NAMESPACES, NODES, PODS
from seatrial.kube.reviews import UserReview, allowed, whoami
from seatrial.kube.shapes import Object
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Permission

ROLE = "seatrial-record"
NOT_ALLOWED = (401, 403, 404)  # servers before 1.28 have no such review, others forbid it
OF_NODES = (Permission("list", NODES),)


def of_workloads(namespace: str) -> tuple[Permission, ...]:
    """Permissions to record workloads, of one namespace or of all."""
    return tuple(Permission(verb, kind, namespace=namespace) for kind in (PODS, JOBS) for verb in ("list", "watch"))


async def check(client: Client, wanted: Sequence[Permission], namespace: str = "") -> UserReview:
    """Returns our user on the server. Raises `SetupProblem` for what is missing, and for a namespace that does not exist."""
    await client.probe()
    us = await _whom(client)
    if namespace:
        await _refuse_missing(client, namespace)
    try:
        answers = await asyncio.gather(*(allowed(client, one.verb, one.resource, one.namespace) for one in wanted))
    except ApiProblem as problem:
        if problem.code not in NOT_ALLOWED:
            raise
        return us  # we may not ask: the first list will show it
    lacking = [one for one, yes in zip(wanted, answers, strict=True) if not yes]
    if lacking:
        raise SetupProblem(
            f"'{us.user}' may not {', '.join(str(one) for one in lacking)}",
            "have this applied by an administrator of the cluster (kubectl apply -f FILE):\n"
            + role(wanted, us.user, namespace),
        )
    return us


async def _whom(client: Client) -> UserReview:
    try:
        return await whoami(client)
    except ApiProblem as problem:
        if problem.code not in NOT_ALLOWED:
            raise
        return UserReview("the user of this context", (), 0.0)


async def _refuse_missing(client: Client, namespace: str) -> None:
    """A list of a namespace that does not exist is empty, not an error. Who may not look is believed."""
    try:
        await client.get(NAMESPACES, namespace, shape=Object)
    except ApiProblem as problem:
        if problem.code == 404:
            raise SetupProblem(
                f"the cluster has no namespace '{namespace}'",
                "`kubectl get namespaces` shows those that it has; without -n all of them are recorded",
            ) from None
        if problem.code != 403:
            raise


def role(wanted: Sequence[Permission], user: str, namespace: str = "") -> str:
    """The role that gives these permissions, bound to the user, as YAML to apply."""
    kinds = dict.fromkeys(one.resource for one in wanted)
    rules = [
        {"apiGroups": [kind.group], "resources": [kind.plural],
         "verbs": [one.verb for one in wanted if one.resource == kind]}
        for kind in kinds
    ]  # fmt: skip
    where = {"namespace": namespace} if namespace else {}
    version, kind = "rbac.authorization.k8s.io/v1", "Role" if namespace else "ClusterRole"
    meta = {"name": ROLE, **where}
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    documents = [
        {"apiVersion": version, "kind": kind, "metadata": meta, "rules": rules},
        {"apiVersion": version, "kind": f"{kind}Binding", "metadata": meta,
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ROLE}, "subjects": [subject]},
    ]  # fmt: skip
    return "---\n".join(yaml.safe_dump(document, sort_keys=False, default_flow_style=None) for document in documents)
