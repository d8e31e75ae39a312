"""Merges the observations of several processes (a run, samples, processes that were killed) with those sealed before.

Per object and stage the smallest error wins, then the earliest time. So a time once known is never lost or worsened, in any order
of merging and however often. A workload has the same number everywhere (`submitted.jsonl` has it); pods are joined by workload,
name and uid, or without uid (in the simulator) by how many pods of that name came before.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from seatrial.model.lifecycle import FINISHED, LOST, Stage
from seatrial.model.units import MILLISECOND
from seatrial.record.evictions import merge_evictions
from seatrial.record.locks import is_locked
from seatrial.record.segments import Observations, read_segment, remove_segment, sealed, write_sealed, writers

NO_ERROR_KNOWN = 2**62
Numbers = npt.NDArray[np.int64]
_IDENTITY = ["workload", "name", "uid", "nth"]
_SCHEMA = pl.Schema({"at_ns": pl.Int64, "object": pl.Int32, "stage": pl.Int16, "source": pl.Int16, "node": pl.Int32,
                     "detail": pl.Int32})  # fmt: skip
_POD_SCHEMA = pl.Schema({"pod": pl.Int32, "workload": pl.Int32, "name": pl.String, "uid": pl.String})
EMPTY = Observations(pl.DataFrame(schema=_SCHEMA), pl.DataFrame(schema=_POD_SCHEMA), [])


def read(directory: Path, stages: Sequence[Stage], errors: Sequence[int]) -> Observations:
    """All observations of a trial, sealed or not. Segments are read first: one that is sealed meanwhile is then in the table."""
    parts = [read_segment(directory, writer) for writer in writers(directory)]
    whole = sealed(directory)
    found = [part for part in (whole, *parts) if part is not None]
    return merge(found, stages, errors) if len(found) > 1 else found[0] if found else EMPTY


def seal(directory: Path, stages: Sequence[Stage], errors: Sequence[int]) -> Observations | None:
    """Merges segments without a writer into the sealed table, then removes them. Returns that table, or None while
    another process still writes."""
    with _alone(directory):
        names = writers(directory)
        ended = [writer for writer in names if not _grows(directory, writer)]
        parts = [sealed(directory), *(read_segment(directory, writer) for writer in ended)]
        found = [part for part in parts if part is not None]
        whole = merge(found, stages, errors) if len(found) > 1 else found[0] if found else EMPTY
        if ended:
            write_sealed(directory, whole)
        for writer in ended:
            remove_segment(directory, writer)
        return whole if ended == names else None


def error_of(errors: Sequence[int]) -> pl.Expr:
    """The error of a time: as its record says, else the bound of its source."""
    bound = pl.lit(NO_ERROR_KNOWN, dtype=pl.Int64)
    for source, error in enumerate(errors):
        bound = pl.when(pl.col("source") == source).then(pl.lit(error, dtype=pl.Int64)).otherwise(bound)
    return pl.when(pl.col("detail") > 0).then(pl.col("detail").cast(pl.Int64) * MILLISECOND).otherwise(bound)


def errors_of(source: Numbers, detail: Numbers, errors: Sequence[int]) -> Numbers:
    """The same for arrays."""
    bounds = np.array([*errors, NO_ERROR_KNOWN], dtype=np.int64)
    known = (source >= 0) & (source < len(errors))
    bound = bounds[np.where(known, source, len(errors))]
    return np.where(detail > 0, detail.astype(np.int64) * MILLISECOND, bound)


def merge(parts: Sequence[Observations], stages: Sequence[Stage], errors: Sequence[int]) -> Observations:
    """Pods and nodes of the first part keep their numbers; those of the others follow."""
    nodes = list(dict.fromkeys(name for part in parts for name in part.nodes))
    place = {name: number for number, name in enumerate(nodes)}
    pods, numbered = _joined_pods(parts)
    of_pods = [number for number, stage in enumerate(stages) if stage.of == "pod"]
    observed = pl.concat(
        _renumbered(part, pods_of, [place[name] for name in part.nodes], of_pods)
        for part, pods_of in zip(parts, numbered, strict=True)
    )
    best = _best(observed.with_columns(error_of(errors).alias("error")), nodes)
    evictions = merge_evictions([part.evictions for part in parts])
    return Observations(_without_mistaken_losses(best, stages).cast(_SCHEMA), pods, nodes, evictions)


def _joined_pods(parts: Sequence[Observations]) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """All pods, and per part its old numbers (`pod`) with the new ones (`now`)."""
    nth = pl.int_range(pl.len()).over("workload", "name", "uid").alias("nth")
    each = [part.pods.cast(_POD_SCHEMA).with_columns(nth) for part in parts]
    pods = pl.concat(each).unique(_IDENTITY, keep="first", maintain_order=True)
    pods = pods.with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias("now"))
    numbered = [
        part.join(pods.select(*_IDENTITY, "now"), on=_IDENTITY, how="left").select("pod", "now") for part in each
    ]
    return pods.select(pl.col("now").alias("pod"), "workload", "name", "uid"), numbered


def _renumbered(part: Observations, pods: pl.DataFrame, places: Sequence[int], of_pods: Sequence[int]) -> pl.DataFrame:
    """Records of a pod whose name was torn off are left out; so are numbers of such nodes."""
    nodes = pl.DataFrame({"node": range(len(places)), "place": places}, schema={"node": pl.Int32, "place": pl.Int32})
    mine = part.observed.cast(_SCHEMA).join(pods, left_on="object", right_on="pod", how="left")
    mine = mine.join(nodes, on="node", how="left").with_columns(pl.col("place").fill_null(-1).alias("node"))
    is_pod = pl.col("stage").is_in(list(of_pods))
    mine = mine.with_columns(pl.when(is_pod).then("now").otherwise("object").cast(pl.Int32).alias("object"))
    return mine.drop_nulls("object").select(list(_SCHEMA))


def _best(observed: pl.DataFrame, nodes: Sequence[str]) -> pl.DataFrame:
    """One record per object and stage; the node is that of the best record that names one. The order of equally good records does
    not depend on the order of the parts."""
    rank = {name: place for place, name in enumerate(sorted(nodes))}
    ranks = pl.DataFrame(
        {"node": range(len(nodes)), "rank": [rank[name] for name in nodes]}, schema={"node": pl.Int32, "rank": pl.Int32}
    )
    ordered = observed.join(ranks, on="node", how="left").sort(
        "stage", "object", "error", "at_ns", "source", "detail", "rank", nulls_last=True
    )
    named = pl.col("node").filter(pl.col("node") >= 0).first().fill_null(-1)
    others = [pl.col(name).first() for name in ("at_ns", "source", "detail")]
    best = ordered.group_by("stage", "object", maintain_order=True).agg(*others, named)
    return best.select(list(_SCHEMA)).sort("at_ns", "stage", "object")


def _without_mistaken_losses(best: pl.DataFrame, stages: Sequence[Stage]) -> pl.DataFrame:
    """A process that missed a pod's end took it for lost, while another saw it finish."""
    number = {stage.name: place for place, stage in enumerate(stages)}
    if LOST.name not in number:
        return best
    finished = best.filter(pl.col("stage") == number[FINISHED.name])["object"]
    mistaken = (pl.col("stage") == number[LOST.name]) & pl.col("object").is_in(finished.implode())
    return best.filter(~mistaken)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keeps other processes from sealing this trial. The last holder removed the lock file: then a new one is created."""
    path = directory / "sealing.lock"
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(path, descriptor):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _grows(directory: Path, writer: str) -> bool:
    """Whether its process still writes it."""
    return is_locked(directory / f"observed-{writer}.seg")
