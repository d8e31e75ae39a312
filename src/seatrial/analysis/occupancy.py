"""Pods per node over time: a trial replayed node by node, and the free room at any moment.

A pod occupies its node from its binding until it finished or was lost, or else until its workload ended. Pods are taken to leave
earlier by the error of the times: a finding must not come from two clocks. Everything is arrays with an entry per pod or event: of
100,000 pods the replay takes a tenth of a second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from seatrial.analysis.stage_times import Lifecycle
from seatrial.model.fit import admits
from seatrial.model.lifecycle import COMPLETED, DELETED, FAILED, FINISHED, LOST, PODS_CREATED, SCHEDULED
from seatrial.model.plan import NodeGroup, PodShape, Taint, Toleration

PODS = "pods"
EXISTING = "existing"  # the group of nodes that are not ours; only their capacities are known
UNLIMITED = 1 << 40  # pods on a node without a limit on pods
NEVER = np.iinfo(np.int64).max
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Steps:
    """A number that changes at certain moments; 0 before the first."""

    at: Numbers
    value: Numbers

    @classmethod
    def of(cls, at: Numbers, change: Numbers) -> Steps:
        """Built from changes in any order; changes at the same time are summed."""
        order = np.argsort(at, kind="stable")
        at, value = at[order], np.cumsum(change[order])
        last = np.append(at[1:] != at[:-1], True) if len(at) else np.zeros(0, dtype=bool)
        return cls(at[last], value[last])

    def when(self, times: Numbers) -> Numbers:
        """Its values at these times."""
        place = np.searchsorted(self.at, times, side="right")
        return np.concatenate((np.zeros(1, dtype=np.int64), self.value))[place]


@dataclass(frozen=True)
class _Events:
    """Pods that came to a node or left it, ordered by node and time."""

    node: Numbers
    at: Numbers
    pod: Numbers  # place in the arrays of `Occupancy`
    comes: Mask
    used: Numbers  # resource × event: requests of the pods on the node after it


class Occupancy:
    """The pods and nodes of a trial as arrays. `phases` are the shapes of pods: a phase stands for its only one."""

    def __init__(self, seen: Lifecycle) -> None:
        self.seen = seen
        document = seen.trial.document
        self.phases = list(seen.trial.shapes)
        self.details = [seen.trial.shapes[name] for name in self.phases]
        asked = {name for phase in self.details for name, amount in (phase.get("requests") or {}).items() if amount}
        self.resources = [PODS, *sorted(asked - {PODS})]
        self.requests = np.array(
            [[_asked(phase, name) for phase in self.details] for name in self.resources], dtype=np.int64
        )
        self.spans = [span for span in document.get("nodes") or () if int(span.get("count", 1))]
        self.groups = sorted({str(span.get("group", "")) for span in self.spans})
        self.names = list(seen.nodes)
        self._groups_of_nodes()
        self._pods()

    # nodes

    def _groups_of_nodes(self) -> None:
        """Groups by node names: GROUP-INDEX, or GROUP-STUDY-INDEX on an existing cluster."""
        study = (self.seen.trial.document.get("target") or {}).get("study")
        number = {group: place for place, group in enumerate(self.groups)}
        other = number.get(EXISTING, -1)
        stems = (re.sub(r"-\d+$", "", name) for name in self.names)
        found = [number.get(stem.removesuffix(f"-{study}") if study else stem, other) for stem in stems]
        self.group = np.array(found, dtype=np.int64)
        capacity = np.array([self._capacity_of_group(group) for group in self.groups], dtype=np.int64)
        capacity = capacity.reshape(len(self.groups), len(self.resources))
        self.capacity = np.full((len(self.resources), len(self.names)), UNLIMITED, dtype=np.int64)
        known = self.group >= 0
        self.capacity[:, known] = capacity[self.group[known]].T
        self.known = known

    def _capacity_of_group(self, group: str) -> list[int]:
        """If nodes of a group differ it is not known which is which: each counts as the largest."""
        spans = [span.get("capacity") or {} for span in self.spans if str(span.get("group", "")) == group]
        return [max(_has(capacity, name) for capacity in spans) for name in self.resources]

    @cached_property
    def allowed(self) -> Mask:
        """Phase × group: whether labels and taints admit its pods to those nodes."""
        described = self.seen.trial.document.get("groups") or {}
        nodes = [_node_group(name, described.get(name) or {}) for name in self.groups]
        rows = [[name == EXISTING or admits(node, shape) for name, node in zip(self.groups, nodes, strict=True)]
                for shape in map(_shape, self.details)]  # fmt: skip
        return np.array(rows, dtype=bool).reshape(len(self.phases), len(self.groups))

    # pods

    @cached_property
    def phase_of_workloads(self) -> Numbers:
        """Per row of workloads the place of its phase; −1 for a phase that trial.json lacks."""
        numbers = {name: place for place, name in enumerate(self.phases)}
        phases = self.seen.workloads["shape"].replace_strict(numbers, default=-1, return_dtype=pl.Int64)
        return np.asarray(phases.to_numpy())

    @cached_property
    def priority(self) -> Numbers:
        """The priority of each phase."""
        return np.array([int(phase.get("priority", 0)) for phase in self.details], dtype=np.int64)

    def _pods(self) -> None:
        seen, end = self.seen, self.seen.end_ns
        ends = [stage.name for stage in (COMPLETED, FAILED, DELETED) if stage.name in seen.workloads.columns]
        of = seen.workloads.select(
            pl.col("number").alias("workload"),
            pl.Series("phase", self.phase_of_workloads, dtype=pl.Int64),
            pl.min_horizontal(*ends, pl.lit(end)).alias("over"),
        )
        columns = seen.pods.columns
        over = pl.coalesce(*(name for name in (FINISHED.name, LOST.name) if name in columns), "over")
        pods = (
            seen.pods.join(of, on="workload", how="inner", maintain_order="left")
            .filter(pl.col("phase") >= 0)
            .select("name", "workload", "phase", pl.col("node").fill_null(-1).cast(pl.Int64),
                    *(_time(stage.name, columns) for stage in (PODS_CREATED, SCHEDULED, LOST)),
                    over.clip(upper_bound=end).alias("gone"))
        )  # fmt: skip
        self.frame = pods
        self.workload = pods["workload"].to_numpy().astype(np.int64)
        self.phase = pods["phase"].to_numpy()
        self.node = pods["node"].to_numpy()
        self.created, self.bound, self.lost = (pods[s.name].to_numpy() for s in (PODS_CREATED, SCHEDULED, LOST))
        self.gone = pods["gone"].to_numpy() - max(seen.trial.errors_ns, default=0)

    @cached_property
    def placed(self) -> Numbers:
        """Pods that were bound to a node of a known group."""
        pods = np.flatnonzero((self.bound != NEVER) & (self.node >= 0) & (self.node < len(self.names)))
        return np.asarray(pods[self.known[self.node[pods]]])

    @cached_property
    def events(self) -> _Events:
        """Binding and leaving events. At the same time pods leave before others come: a node is free for the next pod at once."""
        pods = self.placed[self.gone[self.placed] > self.bound[self.placed]]
        both = np.concatenate((pods, pods))
        comes = np.arange(len(both)) < len(pods)
        at = np.concatenate((self.bound[pods], self.gone[pods]))
        order = np.lexsort((comes, at, self.node[both]))
        both, comes = both[order], comes[order]
        change = self.requests[:, self.phase[both]] * np.where(comes, 1, -1)
        return _Events(self.node[both], at[order], both, comes, np.cumsum(change, axis=1))

    # room

    def empty(self, phase: int) -> Steps:
        """How many pods of the phase all nodes together could hold if they were empty."""
        return Steps.of(*self._whole_nodes(self.requests[:, phase], self.allowed[phase]))

    def empty_for_any(self) -> Steps:
        """The same for any mixture of phases, at most: each pod counts with the smallest request of each resource."""
        return Steps.of(*self._whole_nodes(self.requests.min(axis=1), np.logical_or.reduce(self.allowed)))

    def _whole_nodes(self, requests: Numbers, allowed: Mask) -> tuple[Numbers, Numbers]:
        at: list[int] = []
        change: list[int] = []
        for span in self.spans:
            capacity = np.array([_has(span.get("capacity") or {}, name) for name in self.resources], dtype=np.int64)
            group = self.groups.index(str(span.get("group", "")))
            slots = int(_slots(capacity[:, None], requests)[0]) * int(span.get("count", 1)) * bool(allowed[group])
            at.append(int(span.get("from_ns") or 0))
            change.append(slots)
            if span.get("until_ns") is not None:
                at.append(int(span["until_ns"]))
                change.append(-slots)
        return np.array(at, dtype=np.int64), np.array(change, dtype=np.int64)

    def room(self, phase: int) -> Steps:
        """How many pods of the phase there was room for beside the pods on the nodes."""
        at, change = self._whole_nodes(self.requests[:, phase], self.allowed[phase])
        events, requests = self.events, self.requests[:, phase]
        may = self.allowed[phase][self.group[events.node]]
        after = _slots(self.capacity[:, events.node] - events.used, requests) * may
        empty = _slots(self.capacity[:, events.node], requests) * may
        first = np.append(True, events.node[1:] != events.node[:-1])[: len(after)]
        before = np.where(first, empty, np.concatenate((np.zeros(1, dtype=np.int64), after[:-1]))[: len(after)])
        return Steps.of(np.concatenate((at, events.at)), np.concatenate((change, after - before)))


def _slots(free: Numbers, requests: Numbers) -> Numbers:
    """How many pods fit into each column of `free`."""
    slots = np.full(free.shape[1], UNLIMITED, dtype=np.int64)
    for row, amount in enumerate(requests.tolist()):
        if amount:
            slots = np.minimum(slots, free[row] // amount)
    return np.maximum(slots, 0)


def _asked(phase: Mapping[str, Any], resource: str) -> int:
    return 1 if resource == PODS else int((phase.get("requests") or {}).get(resource, 0))


def _has(capacity: Mapping[str, Any], resource: str) -> int:
    return int(capacity.get(resource, UNLIMITED if resource == PODS else 0))


def _time(stage: str, columns: Sequence[str]) -> pl.Expr:
    time = pl.col(stage).fill_null(NEVER) if stage in columns else pl.lit(NEVER, dtype=pl.Int64)
    return time.alias(stage)


def _shape(phase: Mapping[str, Any]) -> PodShape:
    affinity = tuple((str(key), tuple(values)) for key, values in phase.get("affinity") or ())
    tolerations = tuple(Toleration(**toleration) for toleration in phase.get("tolerations") or ())
    return PodShape(phase.get("requests") or {}, phase.get("selector") or {}, affinity, tolerations)


def _node_group(name: str, group: Mapping[str, Any]) -> NodeGroup:
    taints = tuple(Taint(**taint) for taint in group.get("taints") or ())
    return NodeGroup(name, 1, {}, group.get("labels") or {}, taints)
