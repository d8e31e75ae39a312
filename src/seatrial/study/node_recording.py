"""`seatrial record nodes`: the nodes of a cluster as a file that a scenario reads. One list, nothing else."""

from __future__ import annotations

import asyncio
import csv
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
import yaml

from seatrial.clusters.access import recording_rights
from seatrial.kube import Access, Client
from seatrial.kube.resources import NODES
from seatrial.kube.shapes import Node
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.plan import NodeGroup
from seatrial.model.units import format_quantity
from seatrial.observe.anonymising import NameHider
from seatrial.observe.recorded_nodes import MODEL, node_groups_of
from seatrial.record.files import atomic_write

SUFFIXES = (".yaml", ".yml", ".csv")
GPU = "nvidia.com/gpu"
_COLUMNS = ("name", "cpu", "memory", "gpus", "gpu-model")  # as a list of nodes is read


@dataclass(frozen=True, slots=True)
class RecordedNodes:
    """The nodes that were written."""

    groups: tuple[NodeGroup, ...]
    notes: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many nodes."""
        return sum(group.count for group in self.groups)


def record_nodes(access: Access, out: Path, selector: str = "", anonymise: bool = False) -> RecordedNodes:
    """Lists the nodes and writes them: groups of nodes as YAML, or a row per node as CSV."""
    if out.suffix not in SUFFIXES:
        raise UsageProblem(f"-o {out}: nodes are written as YAML or CSV", "let the name end in .yaml or .csv")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        nodes = runner.run(_listed(access, selector))
    if not nodes:
        which = f" with the labels '{selector}'" if selector else ""
        raise SetupProblem(f"the cluster has no nodes{which}", "see `kubectl get nodes --show-labels`")
    groups, notes = node_groups_of(nodes, NameHider(secrets.token_bytes(32) if anonymise else b""))
    if out.suffix == ".csv":
        dropped = sum(bool(group.labels.keys() - {MODEL}) or bool(group.taints) for group in groups)
        if dropped:
            notes.append(
                "labels and taints are not in a CSV, other resources than cpu, memory and GPUs neither: -o nodes.yaml has them"
            )
    with atomic_write(out) as part:
        _write_csv(groups, part) if out.suffix == ".csv" else part.write_text(_as_yaml(groups), encoding="utf-8")
    return RecordedNodes(tuple(groups), tuple(notes))


async def _listed(access: Access, selector: str) -> list[Node]:
    query: dict[str, Any] = {"labelSelector": selector} if selector else {}
    async with Client(access) as client:
        await recording_rights.check(client, recording_rights.OF_NODES)
        return [node async for page in client.pages(NODES, shape=Node, **query) for node in page.items]


def _as_yaml(groups: Sequence[NodeGroup]) -> str:
    """The groups, as the `nodes` of a scenario are written."""
    written: list[dict[str, Any]] = []
    for group in groups:
        amounts = {resource: format_quantity(amount, resource) for resource, amount in group.capacity.items()}
        numbers = {resource: int(text) if text.isdigit() else text for resource, text in amounts.items()}
        one: dict[str, Any] = {"name": group.name, "count": group.count, "capacity": numbers}
        if group.labels:
            one["labels"] = dict(group.labels)
        if group.taints:
            one["taints"] = [str(taint) for taint in group.taints]
        written.append(one)
    return yaml.safe_dump(written, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)


def _write_csv(groups: Sequence[NodeGroup], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(_COLUMNS)
        for group in groups:
            cpu, memory = group.capacity.get("cpu", 0) / 1000, group.capacity.get("memory", 0)
            gpus, model = group.capacity.get(GPU, 0), group.labels.get(MODEL, "")
            lines.writerows((f"{group.name}-{n}", f"{cpu:g}", memory, gpus, model) for n in range(group.count))
