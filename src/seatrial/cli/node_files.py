"""Nodes named on the command line: a scenario, a YAML list of node groups, or a list of nodes (CSV or Parquet)."""

from __future__ import annotations

from pathlib import Path

from seatrial.model.errors import UsageProblem
from seatrial.model.plan import NodeGroup

LISTS = (".csv", ".parquet", ".gz", ".tsv")


def groups_in(file: Path, fractions: str = "whole") -> list[tuple[NodeGroup, ...]]:
    """The nodes of each set-up of a scenario; of a list, these alone. `fractions`: how a list's GPUs are counted."""
    from seatrial import stacks
    from seatrial.scenario.document import node_list, read
    from seatrial.scenario.expansion import expand

    if file.suffix in LISTS:
        return [_of_a_list(file, fractions)]
    known = {stack: stacks.find(stack).settings for stack in stacks.names()}
    trials = expand(node_list(file) or read(file), on="sim", stacks=known, stages=stacks.stages(), repeat=1)
    return [trial.setup.nodes for trial in trials]


def _of_a_list(file: Path, fractions: str) -> tuple[NodeGroup, ...]:
    from seatrial.cli.output import nearest_named
    from seatrial.scenario.node_trace_fields import NodeTraceFields

    fields = NodeTraceFields.model_validate({"trace": str(file.absolute()), "fractions": fractions})
    with nearest_named():
        return fields.groups(Path())


def nodes_to_compare(file: Path, fractions: str = "whole") -> tuple[NodeGroup, ...]:
    """The nodes of the first set-up whose nodes are known without a cluster."""
    for groups in groups_in(file, fractions):
        if not any(group.existing for group in groups):
            return groups
    raise UsageProblem(f"{file} has no nodes of a known size", "name a list of nodes, or a scenario with node groups")
