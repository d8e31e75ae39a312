"""Node groups from a list of nodes: `nodes: {trace: openb-nodes.csv}`. A group per kind of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from seatrial.model.plan import NodeGroup
from seatrial.scenario.field_types import AmountMap, Count, LabelKey, LabelText, ObjectName, TaintText, Text, choice
from seatrial.scenario.fields import Fields
from seatrial.scenario.pod_delays import DEFAULT_PODS, PodDelays
from seatrial.scenario.trace_fields import ColumnMap, ShareOfJobs
from seatrial.traces.options import GPU, GPU_MILLI, GPU_MODEL, IN_MILLI

if TYPE_CHECKING:
    from seatrial.traces.node_lists import NodeKind

LONGEST_GROUP = 40
WHOLE = "whole"


class NodeSampleFields(Fields):
    """A share of a list of nodes."""

    share: ShareOfJobs = Field(description="Above 0, at most 1.")
    seed: Annotated[int, Field(ge=0)] = Field(1, description="The same seed keeps the same nodes.")


class NodeTraceFields(Fields):
    """Nodes as a list has them: thousands of different ones."""

    trace: Text = Field(description="CSV or Parquet file with a row per node, relative to the scenario.")
    name: ObjectName = Field("node", description="Groups are called NAME-MODEL, nodes NAME-MODEL-0 and so on.")
    columns: ColumnMap | None = Field(
        None,
        description="Which column is cpu, memory, gpus and gpu-model: {cpu: cores, memory: {column: ram, unit: GiB}}.",
    )
    head: Count | None = Field(None, description="Only the first nodes.")
    sample: NodeSampleFields | None = Field(None, description="A share of the nodes: {share: 0.2, seed: 1}.")
    fractions: Annotated[str, choice("way with fractions", (WHOLE, IN_MILLI))] = Field(
        WHOLE, description="whole: GPUs as nvidia.com/gpu; milli: 1000 of nvidia.com/gpu-milli per GPU, instead."
    )
    capacity: AmountMap = Field({}, description="Further capacity of every node; pods (default 110).")
    labels: dict[LabelKey, LabelText] = Field(
        {}, description="Labels of all nodes; those with GPUs also have their model."
    )
    taints: list[TaintText] = Field([], description="Taints as key=value:Effect or key:Effect.")
    pods: PodDelays = Field(PodDelays.model_construct(), description="Start delays of pods.")

    def groups(self, folder: Path) -> tuple[NodeGroup, ...]:
        """The groups of the list; TraceProblem if it cannot be read."""
        from seatrial.traces.node_lists import NodePart, node_kinds  # polars: imported once a scenario has a list

        part = NodePart(self.head or 0, *((self.sample.share, self.sample.seed) if self.sample else ()))
        kinds = node_kinds((folder / self.trace).absolute(), self.columns or {}, part)
        return tuple(self._group(kind) for kind in kinds)

    def _group(self, kind: NodeKind) -> NodeGroup:
        from seatrial.traces.node_lists import model_label

        gpus = {GPU_MILLI: kind.gpus * 1000} if self.fractions == IN_MILLI else {GPU: kind.gpus}
        own = {"cpu": kind.cpu_milli, "memory": kind.memory_bytes, **(gpus if kind.gpus else {})}
        model = {GPU_MODEL: model_label(kind.model)} if kind.gpus and kind.model else {}
        # The name of a kind ends with what tells it apart, and so does what is left of a name that is too long.
        name = "-".join(filter(None, (self.name[: LONGEST_GROUP - len(kind.word) - 1].rstrip("-"), kind.word)))
        return NodeGroup(
            name, kind.count, {"pods": DEFAULT_PODS, **own, **self.capacity}, {**self.labels, **model}, tuple(self.taints),
            create=self.pods.create, start=self.pods.start,
        )  # fmt: skip
