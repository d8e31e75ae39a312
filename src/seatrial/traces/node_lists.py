"""Lists of nodes: a CSV or Parquet file with a row per node. Rows alike become one kind: thousands of nodes are a few groups."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from seatrial.model.randomness import arrays, stream_seed
from seatrial.traces import mapped_tables
from seatrial.traces.columns import CUT
from seatrial.traces.mapped_tables import Columns
from seatrial.traces.problem import TraceProblem
from seatrial.traces.reading import fingerprint

NODE_FIELDS = ("cpu", "memory", "gpus", "gpu-model")
OPENB_NODES: Columns = {
    "cpu": ("cpu_milli", "milli"), "memory": ("memory_mib", "MiB"), "gpus": ("gpu", ""), "gpu-model": ("model", ""),
}  # fmt: skip
LONGEST_WORD = 20  # of a model in the name of a group


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes that are alike. `word`: their model of GPU as part of a name, with a number if several kinds have it."""

    word: str
    count: int
    cpu_milli: int
    memory_bytes: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class NodePart:
    """The part of a list that is wanted: `head` nodes (0: all), or a share of them, always the same with the same seed."""

    head: int = 0
    share: float = 1.0
    seed: int = 1


def model_label(model: str) -> str:
    """A model of GPU as the value of a label, as NVIDIA's feature discovery writes it: `NVIDIA A100` is `NVIDIA-A100`."""
    return re.sub(r"[^-A-Za-z0-9_.]+", "-", model.strip()).strip("-_.")[:63]


def node_kinds(path: Path, columns: Columns, part: NodePart) -> list[NodeKind]:
    """The kinds of nodes in a list, in the order in which they appear. A line that is no node is a mistake: a fleet that lacks
    nodes would give figures of another one."""
    before = fingerprint(path)
    try:
        mapping = columns or _known_columns(path)
        _check(path, mapping)
        nodes = mapped_tables.scan(path, mapping).collect()
    except OSError as error:
        raise TraceProblem(
            f"{path.name}: {(error.strerror or str(error)).lower()}", "name a file that you can read"
        ) from None
    except pl.exceptions.PolarsError as error:
        raise TraceProblem(
            f"{path.name} cannot be read as a table: {str(error).splitlines()[0]}", "repair it"
        ) from None
    if fingerprint(path) != before:
        raise TraceProblem(f"{path.name} changed while it was read", "wait until it is written, then try again")
    return _kinds(_part(_sound(path, nodes), part))


def _known_columns(path: Path) -> Columns:
    names = mapped_tables.column_names(path)
    if {"cpu_milli", "memory_mib"} <= set(names):
        return {field: (name, unit) for field, (name, unit) in OPENB_NODES.items() if name in names}
    own = {field: (field, "") for field in NODE_FIELDS if field in names}
    if "cpu" in own:
        return own
    listed = ", ".join(names[:12]) or "none"
    raise TraceProblem(
        f"{path.name} is no list of nodes that is known; it has the columns {listed}",
        "say which column is what: columns: {cpu: …, memory: {column: …, unit: GiB}, gpus: …, gpu-model: …}",
    )


def _check(path: Path, mapping: Columns) -> None:
    there = mapped_tables.column_names(path)
    for field, (name, _) in mapping.items():
        if field not in NODE_FIELDS:
            raise TraceProblem(f"a node has no '{field}'", "", f"columns.{field}", field, NODE_FIELDS)
        if name not in there:
            raise TraceProblem(f"{path.name} has no column '{name}'", "", f"columns.{field}", name, there)
    missing = [field for field in ("cpu", "memory") if field not in mapping]
    if missing:
        raise TraceProblem(
            f"no column of {path.name} says how much {missing[0]} a node has", f"map `{missing[0]}`", "columns"
        )


def _sound(path: Path, nodes: pl.DataFrame) -> pl.DataFrame:
    for name in ("gpu_milli", "gpu_model"):
        if name not in nodes.columns:
            nodes = nodes.with_columns(pl.lit(None, dtype=pl.Int64 if name == "gpu_milli" else pl.String).alias(name))
    nodes = nodes.with_columns(pl.col("gpu_milli").fill_null(0), pl.col("gpu_model").fill_null(""))
    why = (
        pl.when(pl.col("fault").is_not_null()).then(pl.lit(CUT))
        .when(pl.col("cpu_milli").is_null()).then(pl.lit("no cpu"))
        .when(pl.col("memory_bytes").is_null()).then(pl.lit("no memory"))
        .when((pl.col("cpu_milli") < 1) | (pl.col("memory_bytes") < 1)).then(pl.lit("cpu or memory is not above 0"))
        .when((pl.col("gpu_milli") < 0) | (pl.col("gpu_milli") % 1000 != 0)).then(pl.lit("not a whole number of GPUs"))
    )  # fmt: skip
    wrong = nodes.select("line", why.alias("why")).drop_nulls()
    if wrong.height:
        line, first = wrong.row(0)
        more = f", and {wrong.height - 1:,} more such lines" if wrong.height > 1 else ""
        raise TraceProblem(f"{path.name}:{line}: {first}{more}", "repair or remove the lines")
    if not nodes.height:
        raise TraceProblem(f"{path.name} has no nodes", "name a list with nodes in it")
    return nodes


def _part(nodes: pl.DataFrame, part: NodePart) -> pl.DataFrame:
    if part.share < 1:
        order = arrays(stream_seed(part.seed, {}, 0, "trace nodes")).permutation(nodes.height)
        nodes = nodes[sorted(order[: max(round(nodes.height * part.share), 1)].tolist())]
    return nodes.head(part.head) if part.head else nodes


def _kinds(nodes: pl.DataFrame) -> list[NodeKind]:
    keys = ["gpu_model", "cpu_milli", "memory_bytes", "gpu_milli"]
    rows = nodes.group_by(keys, maintain_order=True).len().rows()
    words = [re.sub(r"[^a-z0-9]+", "-", row[0].lower()).strip("-")[:LONGEST_WORD].strip("-") for row in rows]
    seen: dict[str, int] = {}
    kinds = []
    for word, (model, cpu, memory, gpu_milli, count) in zip(words, rows, strict=True):
        seen[word] = seen.get(word, 0) + 1
        number = str(seen[word]) if words.count(word) > 1 else ""
        kinds.append(NodeKind("-".join(filter(None, (word, number))), count, cpu, memory, gpu_milli // 1000, model))
    return kinds
