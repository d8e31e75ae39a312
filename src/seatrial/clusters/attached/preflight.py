"""Checks a foreign cluster before the first trial: permissions, clock, stacks, KWOK and existing nodes. Changes nothing.

A problem is reported before the study's directory is made. `doctor` shows the same answers one by one.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from seatrial.clusters import programs
from seatrial.clusters.access.target_access import access_to
from seatrial.clusters.attached.presence import stacks_there
from seatrial.clusters.kwok.fake_nodes import NODE_LEASES
from seatrial.clusters.live.session import priorities
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.kube import Access, ApiProblem, Client
from seatrial.kube.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
)
from seatrial.kube.reviews import UserReview, allowed, whoami
from seatrial.kube.shapes import Meta, Node, Object
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Permission, PresenceSigns, Stack
from seatrial.model.plan import Target, Trial

CLOCK_WARN_S = 1.0
CLOCK_MOST_S = 10.0  # beyond this, credentials and leases fail in confusing ways
KWOK_NAMESPACE, KWOK_NAME = "kube-system", "kwok-controller"

ALWAYS = (
    *(Permission(verb, NAMESPACES) for verb in ("create", "list", "delete")),
    *(Permission(verb, PODS) for verb in ("list", "watch")),
)
# KWOK acts as the user too, and watches pods of all namespaces to find those on its nodes.
FOR_FAKES = (
    *(Permission(verb, NODES) for verb in ("create", "list", "watch", "patch", "delete")),
    Permission("patch", NODES, "status"),
    Permission("patch", PODS, "status"),
    Permission("patch", PODS),
    Permission("delete", PODS),
    *(Permission(verb, LEASES, namespace=NODE_LEASES) for verb in ("create", "list", "watch", "update", "delete")),
)
FOR_EXISTING = (Permission("list", NODES),)
FOR_CLASSES = ("create", "get", "list", "delete")  # of a priority
# Asked for by the stacks whose queues are namespaces.
FOR_QUEUES = tuple(
    Permission(verb, kind) for kind in (RESOURCE_QUOTAS, LIMIT_RANGES) for verb in ("get", "create", "patch")
)
FOR_PRIORITIES = tuple(Permission(verb, PRIORITY_CLASSES) for verb in FOR_CLASSES)


def needs(trials: Sequence[Trial], stacks: Mapping[str, Stack]) -> tuple[Permission, ...]:
    """The permissions of these trials: those that every trial needs, and those of their nodes and stacks."""
    groups = [group for trial in trials for group in trial.node_groups()]
    wanted = [*ALWAYS]
    for trial in trials:
        wanted += stacks[trial.setup.stack].real.permissions(trial.setup)
    if any(not group.existing for group in groups):
        wanted += FOR_FAKES
    if any(group.existing for group in groups):
        wanted += FOR_EXISTING
    for trial in trials:
        classes = stacks[trial.setup.stack].real.priority_classes(trial.setup, priorities(trial), {}, preempt=True)
        wanted += [Permission(verb, kind) for kind in {made.resource for made in classes} for verb in FOR_CLASSES]
    return tuple(dict.fromkeys(wanted))


async def whom(client: Client) -> UserReview:
    """Our username there, and the offset of its clock; servers before 1.28 do not say."""
    try:
        return await whoami(client)
    except ApiProblem as problem:
        if problem.code != 404:
            raise
        return UserReview("the user of this context", (), 0.0)


async def denied(client: Client, wanted: Sequence[Permission]) -> list[Permission]:
    """The permissions that we lack."""
    slots = asyncio.Semaphore(8)

    async def ask(need: Permission) -> bool:
        async with slots:
            return await allowed(client, need.verb, need.resource, need.namespace, need.subresource)

    answers = await asyncio.gather(*(ask(need) for need in wanted))
    return [need for need, yes in zip(wanted, answers, strict=True) if not yes]


class _Container(msgspec.Struct):
    args: list[str] = []


class _PodSpec(msgspec.Struct):
    containers: list[_Container] = []


class _Template(msgspec.Struct):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class _DeploymentSpec(msgspec.Struct):
    template: _Template = msgspec.field(default_factory=_Template)


class _Deployment(msgspec.Struct):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _DeploymentSpec = msgspec.field(default_factory=_DeploymentSpec)


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


# kwokctl starts its KWOK with --manage-all-nodes=true; of flags that come twice KWOK takes the last (tried with v0.8.0).
LIMITED = (
    "limit it to its own nodes (manageNodesWithAnnotationSelector), or stop it; with kwokctl: create the cluster with "
    "--extra-args kwok-controller=manage-all-nodes=false "
    "--extra-args kwok-controller=manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake"
)


@dataclass(frozen=True, slots=True)
class ForeignKwok:
    """A KWOK that is not ours. `ours_too`: it would play our nodes as well."""

    place: str
    ours_too: bool


async def foreign_kwok(client: Client) -> ForeignKwok | None:
    """The KWOK that its own manifests install. As shipped it plays nodes with the annotation kwok.x-k8s.io/node=fake, which ours
    do not have. If it plays all nodes, or does not say which, it would fight with ours over every pod."""
    try:
        found = await client.find(DEPLOYMENTS, KWOK_NAME, KWOK_NAMESPACE, shape=_Deployment)
        config = await client.find(CONFIGMAPS, "kwok", KWOK_NAMESPACE, shape=_ConfigMap) if found else None
    except ApiProblem as problem:
        if problem.code == 403:
            return None  # we may not look; the leases will show it
        raise
    if found is None:
        return None
    options = _options(config.data.get("kwok.yaml", "") if config else "")
    for container in found.spec.template.spec.containers:
        options |= dict(arg.removeprefix("--").partition("=")[::2] for arg in container.args if arg.startswith("--"))
    everything = options.get("manage-all-nodes", "false") == "true"
    chosen = options.get("manage-nodes-with-annotation-selector") or options.get("manage-single-node")
    return ForeignKwok(f"{KWOK_NAMESPACE}/{KWOK_NAME}", everything or not chosen)


def _options(text: str) -> dict[str, str]:
    """The options of a KWOK configuration by the names of its flags."""
    try:
        documents = [d for d in yaml.safe_load_all(text) if isinstance(d, dict)]
    except yaml.YAMLError:
        return {}
    flags = {
        "manageAllNodes": "manage-all-nodes",
        "manageNodesWithAnnotationSelector": "manage-nodes-with-annotation-selector",
        "manageSingleNode": "manage-single-node",
    }
    given = {key: value for d in documents for key, value in (d.get("options") or {}).items()}
    return {flag: str(given[key]).lower() for key, flag in flags.items() if given.get(key) not in (None, "")}


def refuse_kwok(found: ForeignKwok | None) -> None:
    """Refuses a KWOK that would play our nodes."""
    if found is not None and found.ours_too:
        raise SetupProblem(
            f"a KWOK that takes all nodes runs on this cluster ({found.place}); it would fight with ours over the pods",
            LIMITED,
        )


def refuse_clock(off_s: float) -> None:
    """Refuses a server whose clock is far off."""
    if abs(off_s) > CLOCK_MOST_S:
        raise SetupProblem(
            clock_words(off_s),
            "set both by NTP (`timedatectl`, `chronyc tracking`); with clocks that far apart credentials and leases fail",
        )


def clock_words(off_s: float) -> str:
    """The offset of the server's clock in words."""
    return f"the clock of the API server is {abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'} ours"


async def existing_nodes(client: Client, selector: str) -> list[Node]:
    """The nodes that a scenario selects with `existing`; it is an error if there are none."""
    nodes = (await client.list(NODES, shape=Node, labelSelector=selector)).items
    if not nodes:
        some = (await client.list(NODES, shape=Object, limit=3)).items
        names = ", ".join(node.metadata.name for node in some)
        raise SetupProblem(
            f"no node of this cluster matches `existing: {selector}`",
            f"`kubectl get nodes --show-labels` shows their labels (there are {names} …)"
            if names
            else "the cluster has no nodes at all; let the scenario create fake nodes",
        )
    if all(node.spec.unschedulable for node in nodes):
        raise SetupProblem(
            f"all {len(nodes)} nodes that match `existing: {selector}` are cordoned", "uncordon some, or choose others"
        )
    return nodes


async def refuse(client: Client, trials: Sequence[Trial], stacks: Mapping[str, Stack]) -> None:
    """Raises `SetupProblem` for the first reason not to begin."""
    await client.probe()
    us = await whom(client)
    refuse_clock(us.clock_off)
    lacking = await denied(client, needs(trials, stacks))
    if lacking:
        raise SetupProblem(
            f"'{us.user}' may not {'; '.join(str(need) for need in lacking)}",
            "have these permissions granted (`seatrial doctor --context` lists them), or name a context that has them",
        )
    await refuse_stacks(client, {trial.setup.stack: stacks[trial.setup.stack].real.signs for trial in trials})
    groups = [group for trial in trials for group in trial.node_groups()]
    if any(not group.existing for group in groups):
        refuse_kwok(await foreign_kwok(client))
    for selector in dict.fromkeys(group.existing for group in groups if group.existing):
        await existing_nodes(client, selector)


def refuse_rivals(wanted: Mapping[str, PresenceSigns | None]) -> None:
    """Refuses stacks that cannot be on one cluster, before it is asked anything."""
    owners: dict[str, dict[str, str]] = {}  # CRD → version → stack
    for stack, sign in wanted.items():
        if sign is not None and sign.rivals:
            owners.setdefault(sign.crd, {})[sign.served] = stack
    for crd, versions in owners.items():
        if len(versions) > 1:
            raise SetupProblem(
                f"the stacks {' and '.join(sorted(versions.values()))} cannot be on one cluster: both own the CRD {crd}, in the "
                f"versions {' and '.join(sorted(versions))}",
                "choose one of them with --stack or --setup, or use --on local, where every trial has an API server of its own",
            )


async def refuse_stacks(client: Client, wanted: Mapping[str, PresenceSigns | None]) -> None:
    """Workloads of a stack that is not installed would wait for ever. A stack without signs needs nothing installed."""
    signs = {stack: sign for stack, sign in wanted.items() if sign is not None}
    for one in await stacks_there(client, signs) if signs else ():
        if one.rival:
            raise SetupProblem(
                f"the stack '{one.stack}' cannot be on this cluster beside {one.rival}: both own the CRD {signs[one.stack].crd}, "
                "in different versions",
                "remove one of both from the cluster, or use --on local, where every trial has an API server of its own",
            )
        if one.lacks:
            raise SetupProblem(
                f"the stack '{one.stack}' is not on this cluster: there is no {one.lacks}",
                "install it there by its own documentation, or choose another with --stack or --setup",
            )


def prepare(target: Target, trials: Sequence[Trial], stacks: Mapping[str, Stack]) -> Target:
    """The target with its server, for the record. Builds KWOK, which may take minutes, before the first trial."""
    refuse_rivals({trial.setup.stack: stacks[trial.setup.stack].real.signs for trial in trials})
    access = access_to(target)
    asyncio.run(_refuse(access, trials, stacks))
    if any(not group.existing for trial in trials for group in trial.node_groups()):
        ensure_binaries([programs.KWOK], Path(target.binaries) if target.binaries else None)
    return dataclasses.replace(target, server=access.server)


async def _refuse(access: Access, trials: Sequence[Trial], stacks: Mapping[str, Stack]) -> None:
    async with Client(access) as client:
        try:
            await refuse(client, trials, stacks)
        except ApiProblem as problem:
            raise SetupProblem(problem.message, problem.remedy) from problem
