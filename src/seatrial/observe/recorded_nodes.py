"""The nodes of a cluster as groups of nodes that are alike, as a scenario has them: what schedulers look at, not what is
each node's own.

What is left out is counted and said: labels that differ on every node (host names, instance ids), taints that come and go with a
node's health, resources of which a node has nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from seatrial.kube.shapes import Node, condition
from seatrial.model.labels import GROUP_LABEL
from seatrial.model.plan import NodeGroup, Taint
from seatrial.model.units import parse_quantity
from seatrial.observe.anonymising import NameHider

ALIKE = (
    0.01  # machines of one kind differ by a few MiB that firmware and kernel keep: all of them get the smallest amount
)
OF_HEALTH = re.compile(r"node\.(kubernetes|cloudprovider\.kubernetes)\.io/")
HOST_NAME = "kubernetes.io/hostname"
MODEL, MACHINE = "nvidia.com/gpu.product", "node.kubernetes.io/instance-type"  # what a group is named after
LONGEST_NAME = 30
# Words that everybody has; all other names and values may say whose cluster it is.
PUBLIC_KEYS = re.compile(r"([a-z0-9-]+\.)*(kubernetes\.io|k8s\.io|nvidia\.com|amd\.com|intel\.com)/|type$")
PUBLIC_VALUES = re.compile(
    r"(beta\.)?kubernetes\.io/(arch|os)$|(node|beta)\.kubernetes\.io/instance-type$|nvidia\.com/|type$|node-role\.kubernetes\.io/"
)
_Kind = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...], tuple[Taint, ...]]


def node_groups_of(nodes: Sequence[Node], names: NameHider) -> tuple[list[NodeGroup], list[str]]:
    """Groups, the largest first, and what was left out or rounded."""
    notes: list[str] = []
    amounts = _levelled([_amounts(node, names) for node in nodes], notes)
    own = _of_each_node(nodes)
    if own:
        shown = "their names are hidden" if names.hides else ", ".join(sorted(own))
        notes.append(f"{len(own)} label{'s' * (len(own) > 1)} left out, with another value on every node: {shown}")
    counts: Counter[_Kind] = Counter()
    for node, resources in zip(nodes, amounts, strict=True):
        counts[_kind(node, resources, own, names)] += 1
    ailing = sum(_ails(node) for node in nodes)
    if ailing:
        notes.append(f"{ailing} node{'s' * (ailing > 1)} not ready or cordoned: written as if they were well")
    used: Counter[str] = Counter()
    groups = []
    for (capacity, labels, taints), count in counts.most_common():
        word = _word(dict(labels))
        used[word] += 1
        name = f"{word}-{used[word]}" if used[word] > 1 else word
        groups.append(NodeGroup(name, count, dict(capacity), dict(labels), taints))
    return groups, notes


def _kind(node: Node, resources: Mapping[str, int], own: set[str], names: NameHider) -> _Kind:
    labels = {
        _key(key, names): value if PUBLIC_VALUES.match(key) else names.name("value", value)
        for key, value in node.metadata.labels.items()
        if key not in own and key != GROUP_LABEL
    }
    taints = tuple(
        Taint(_key(t.key, names), t.value if PUBLIC_VALUES.match(t.key) else names.name("value", t.value), t.effect)
        for t in node.spec.taints
        if not OF_HEALTH.match(t.key)
    )
    return tuple(sorted(resources.items())), tuple(sorted(labels.items())), taints


def _key(key: str, names: NameHider) -> str:
    return key if PUBLIC_KEYS.match(key) else names.name("label", key)


def _amounts(node: Node, names: NameHider) -> dict[str, int]:
    """Allocatable resources of a node; missing ones are left out."""
    found = {}
    for resource, text in (node.status.allocatable or node.status.capacity).items():
        try:
            amount = parse_quantity(text, resource)
        except ValueError:
            continue
        if amount and not resource.startswith("attachable-volumes-"):
            foreign = "/" in resource and not PUBLIC_KEYS.match(resource) and names.hides
            found[f"example.com/{names.name('resource', resource)}" if foreign else resource] = amount
    return found


def _levelled(nodes: list[dict[str, int]], notes: list[str]) -> list[dict[str, int]]:
    """Bytes that differ by less than 1 % among nodes that are otherwise alike become the smallest of them."""
    for resource in ("memory", "ephemeral-storage"):
        alike: dict[tuple[tuple[str, int], ...], list[dict[str, int]]] = defaultdict(list)
        for node in nodes:
            if resource in node:
                others = {name: amount for name, amount in node.items() if name not in ("memory", "ephemeral-storage")}
                alike[tuple(sorted(others.items()))].append(node)
        changed = sum(_level(resource, group) for group in alike.values())
        if changed:
            notes.append(
                f"{resource} of {changed:,} nodes rounded down, by less than {ALIKE:.0%}, to that of nodes like them"
            )
    return nodes


def _level(resource: str, nodes: list[dict[str, int]]) -> int:
    smallest, changed = 0, 0
    for node in sorted(nodes, key=lambda one: one[resource]):
        if node[resource] > smallest * (1 + ALIKE) or not smallest:
            smallest = node[resource]
        elif node[resource] > smallest:
            node[resource] = smallest
            changed += 1
    return changed


def _of_each_node(nodes: Sequence[Node]) -> set[str]:
    """Labels that every node has, each with a value of its own."""
    values: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        for key, value in node.metadata.labels.items():
            values[key].append(value)
    unique = {key for key, found in values.items() if len(nodes) > 2 and len(set(found)) == len(nodes)}
    return unique | ({HOST_NAME} & values.keys())


def _ails(node: Node) -> bool:
    ready = condition(node.status.conditions, "Ready")
    return node.spec.unschedulable or ready is None or ready.status != "True"


def _word(labels: Mapping[str, str]) -> str:
    """What a group is called: by its GPU, else by its machine type."""
    named = labels.get(MODEL) or labels.get(MACHINE) or ""
    word = re.sub(r"[^a-z0-9]+", "-", named.lower()).strip("-")[:LONGEST_NAME].strip("-")
    return word if word and word[0].isalpha() else f"node-{word}".strip("-")
