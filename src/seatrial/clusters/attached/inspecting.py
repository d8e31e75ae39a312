"""What a foreign cluster must be like before we begin, found out by asking and without changing anything.

`refuse` is asked before the first trial, so that a missing permission or somebody else's KWOK is said before anything was made.
`doctor` shows the same answers one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import yaml

from seatrial.clusters.attached.presence import SIGNS, stacks_there
from seatrial.clusters.priorities import priorities
from seatrial.kube import ApiProblem, Client, Resource
from seatrial.kube.resources import CONFIGMAPS, DEPLOYMENTS, JOBS, LEASES, NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from seatrial.kube.shapes import Meta, Node, Object
from seatrial.kube.standing import Standing, allowed, standing
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Trial

CLOCK_WARN_S = 1.0
CLOCK_MOST_S = 10.0  # beyond this, credentials and leases go wrong in ways that nobody understands
KWOK_NAMESPACE, KWOK_NAME = "kube-system", "kwok-controller"
_NODE_LEASES = "kube-node-lease"


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that we must be allowed to do."""

    verb: str
    resource: Resource
    subresource: str = ""
    namespace: str = ""  # empty: in all, because the namespace is not there yet

    def __str__(self) -> str:
        what = self.resource.plural + (f"/{self.subresource}" if self.subresource else "")
        return f"{self.verb} {what}" + (f" in {self.namespace}" if self.namespace else "")


ALWAYS = (
    *(Need(verb, NAMESPACES) for verb in ("create", "list", "delete")),
    *(Need(verb, JOBS) for verb in ("create", "list", "watch", "delete")),
    *(Need(verb, PODS) for verb in ("list", "watch")),
)
# KWOK acts as the user too, and watches pods of all namespaces to find those on its nodes.
FOR_FAKES = (
    *(Need(verb, NODES) for verb in ("create", "list", "watch", "patch", "delete")),
    Need("patch", NODES, "status"),
    Need("patch", PODS, "status"),
    Need("patch", PODS),
    Need("delete", PODS),
    *(Need(verb, LEASES, namespace=_NODE_LEASES) for verb in ("create", "list", "watch", "update", "delete")),
)
FOR_EXISTING = (Need("list", NODES),)
FOR_PRIORITIES = tuple(Need(verb, PRIORITY_CLASSES) for verb in ("create", "get", "list", "delete"))


def needs(trials: Sequence[Trial]) -> tuple[Need, ...]:
    groups = [group for trial in trials for group in trial.node_groups()]
    wanted = [*ALWAYS]
    if any(not group.existing for group in groups):
        wanted += FOR_FAKES
    if any(group.existing for group in groups):
        wanted += FOR_EXISTING
    if any(priorities(trial) for trial in trials):
        wanted += FOR_PRIORITIES
    return tuple(dict.fromkeys(wanted))


async def whom(client: Client) -> Standing:
    """Who we are there, and how far its clock is off; servers before 1.28 do not say."""
    try:
        return await standing(client)
    except ApiProblem as problem:
        if problem.code != 404:
            raise
        return Standing("the user of this context", (), 0.0)


async def denied(client: Client, wanted: Sequence[Need]) -> list[Need]:
    """Those of them that the server does not allow us."""
    slots = asyncio.Semaphore(8)

    async def ask(need: Need) -> bool:
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
    """Somebody else's KWOK. `ours_too`: it would play our nodes as well."""

    place: str
    ours_too: bool


async def foreign_kwok(client: Client) -> ForeignKwok | None:
    """The one that KWOK's own manifests install. As shipped it takes nodes with the annotation kwok.x-k8s.io/node=fake, which
    ours do not have; one that takes all nodes, or says nothing of what it takes, would fight with ours over every pod."""
    try:
        found = await client.find(DEPLOYMENTS, KWOK_NAME, KWOK_NAMESPACE, shape=_Deployment)
        config = await client.find(CONFIGMAPS, "kwok", KWOK_NAMESPACE, shape=_ConfigMap) if found else None
    except ApiProblem as problem:
        if problem.code == 403:
            return None  # we may not look; the leases show it later
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
    if found is not None and found.ours_too:
        raise SetupProblem(
            f"a KWOK that takes all nodes runs on this cluster ({found.place}); it would fight with ours over the pods",
            LIMITED,
        )


def refuse_clock(off_s: float) -> None:
    if abs(off_s) > CLOCK_MOST_S:
        raise SetupProblem(
            f"the clock of the API server is {_spelled(off_s)} ours",
            "set both by NTP (`timedatectl`, `chronyc tracking`); with clocks that far apart credentials and leases fail",
        )


def clock_words(off_s: float) -> str:
    return f"the clock of the API server is {_spelled(off_s)} ours"


def _spelled(off_s: float) -> str:
    return f"{abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'}"


async def existing_nodes(client: Client, selector: str) -> list[Node]:
    """The nodes that a scenario means with `existing`; none is a mistake worth stopping for."""
    nodes = (await client.list(NODES, shape=Node, labelSelector=selector)).items
    if not nodes:
        some = (await client.list(NODES, shape=Object, limit=3)).items
        names = ", ".join(node.metadata.name for node in some)
        raise SetupProblem(
            f"no node of this cluster matches `existing: {selector}`",
            f"`kubectl get nodes --show-labels` shows what they have (there are {names} …)"
            if names
            else "the cluster has no nodes at all; let the scenario make fake ones",
        )
    if all(node.spec.unschedulable for node in nodes):
        raise SetupProblem(
            f"all {len(nodes)} nodes that match `existing: {selector}` are cordoned", "uncordon some, or choose others"
        )
    return nodes


async def refuse(client: Client, trials: Sequence[Trial]) -> None:
    """Raises `SetupProblem` for the first reason not to begin."""
    await client.probe()
    us = await whom(client)
    refuse_clock(us.clock_off)
    lacking = await denied(client, needs(trials))
    if lacking:
        raise SetupProblem(
            f"'{us.user}' may not {'; '.join(str(need) for need in lacking)}",
            "have these permissions granted (`seatrial doctor --context` lists them), or name a context that has them",
        )
    await refuse_stacks(client, {trial.setup.stack for trial in trials})
    groups = [group for trial in trials for group in trial.node_groups()]
    if any(not group.existing for group in groups):
        refuse_kwok(await foreign_kwok(client))
    for selector in dict.fromkeys(group.existing for group in groups if group.existing):
        await existing_nodes(client, selector)


async def refuse_stacks(client: Client, wanted: set[str]) -> None:
    """A stack that is not installed would let every workload wait for ever. Of stacks without a sign nothing is known."""
    signs = tuple(sign for sign in SIGNS if sign.stack in wanted)
    for one in await stacks_there(client, signs) if signs else ():
        if one.lacks:
            raise SetupProblem(
                f"the stack '{one.stack}' is not on this cluster: there is no {one.lacks}",
                "install it there by its own documentation, or choose another with --stack or --setup",
            )
