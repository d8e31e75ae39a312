"""Turns the lines of a recording into a trace: a job per workload, whatever was seen twice, late, or in several processes.

A workload is what owns Jobs and pods: the Job, or the JobSet, PyTorchJob and so on that controls them. What belongs to a Job or
pod that is itself controlled (executors of Spark, by their driver) belongs to its owner. All of it is a pure function of the
lines: a recording can be made into a trace at any time.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from seatrial.record.recordings import BOUND, ENDED, GONE, JOB, POD, STARTED, UNSEEN, SeenLine, columns
from seatrial.traces.columns import AFTER, BEFORE, BOTH, COLUMNS, GAP

_KINDS = {
    "uid": pl.String, "of": pl.String, "stage": pl.String, "at_ns": pl.Int64, "error_ns": pl.Int64, "outcome": pl.String,
    "root": pl.String, "kind": pl.String, "name": pl.String, "group": pl.String, "user": pl.String, "queue": pl.String,
    "class_name": pl.String, "priority": pl.Int64, "pods": pl.Int64, "cpu_milli": pl.Int64, "memory_bytes": pl.Int64,
    "gpu_milli": pl.Int64, "gpu_model": pl.String, "gang": pl.Boolean,
}  # fmt: skip
_AMOUNTS = ("cpu_milli", "memory_bytes", "gpu_milli")
_TEXTS = ("name", "group", "user", "queue", "class_name", "gpu_model")


def trace_of(lines: Sequence[SeenLine]) -> pl.DataFrame:
    """The workloads in the order of their submission; `submit_ns` counts from the beginning of the recording."""
    frame = pl.DataFrame(columns(lines), schema=_KINDS).sort("error_ns", "at_ns", maintain_order=True)
    objects = _objects(frame)
    if not objects.height:
        return pl.DataFrame(schema={name: column.kind for name, column in COLUMNS.items()})
    objects = objects.join(_stages(frame), on="uid", how="left")
    return _jobs(_workloads(objects))


def _objects(frame: pl.DataFrame) -> pl.DataFrame:
    """A row per Job and pod, with the workload that it belongs to."""
    objects = frame.filter(pl.col("stage") == "").unique("uid", keep="first", maintain_order=True)
    roots = objects.select(
        pl.col("uid").alias("root"), pl.col("root").alias("owner"), pl.col("kind").alias("owner_kind"),
        pl.col("name").alias("owner_name"), pl.col("queue").alias("owner_queue"),
    )  # fmt: skip
    objects = objects.join(roots, on="root", how="left", maintain_order="left")
    return objects.with_columns(
        pl.coalesce("owner", "root").alias("root"),
        pl.coalesce("owner_kind", "kind").alias("kind"),
        pl.coalesce("owner_name", "name").alias("name"),
        pl.coalesce("owner_queue", "queue").alias("queue"),
    )


def _stages(frame: pl.DataFrame) -> pl.DataFrame:
    """When each object reached which stage: of several times the one with the smallest error, then the earliest."""
    reached = frame.filter(pl.col("stage") != "").unique(["uid", "stage"], keep="first", maintain_order=True)

    def of(stage: str, *columns: pl.Expr) -> pl.DataFrame:
        return reached.filter(pl.col("stage") == stage).select("uid", *columns)

    return (
        reached.select("uid").unique()
        .join(of(BOUND, pl.col("at_ns").alias("bound")), on="uid", how="left")
        .join(of(STARTED, pl.col("at_ns").alias("started")), on="uid", how="left")
        .join(of(ENDED, pl.col("at_ns").alias("ended"), pl.col("outcome").alias("how")), on="uid", how="left")
        .join(of(GONE, pl.col("at_ns").alias("gone"), (pl.col("outcome") == UNSEEN).alias("unseen")), on="uid", how="left")
    )  # fmt: skip


def _workloads(objects: pl.DataFrame) -> pl.DataFrame:
    """A row per workload. `end`: when it ended; `lost`: it was gone when a gap ended, and nobody saw how it ended."""
    is_job, is_pod = pl.col("of") == JOB, pl.col("of") == POD
    seen_gone = pl.when(~pl.col("unseen").fill_null(False)).then(pl.col("gone"))
    objects = objects.with_columns(
        pl.coalesce("ended", seen_gone).alias("end"),
        pl.coalesce("how", pl.when(seen_gone.is_not_null()).then(pl.lit("cancelled"))).alias("how"),
        (pl.col("unseen").fill_null(False) & pl.col("ended").is_null()).alias("lost"),
        pl.coalesce("bound", "started").alias("placed"),
    ).with_columns((pl.col("end") - pl.col("started")).alias("ran"))
    sized = is_pod | (pl.col("pods") > 0)
    completed = is_pod & (pl.col("how") == "completed")
    grouped = objects.sort("at_ns", maintain_order=True).group_by("root", maintain_order=True).agg(
        pl.col("kind").first(),
        *(pl.col(name).filter(pl.col(name) != "").first() for name in _TEXTS),
        pl.col("priority").max(),
        pl.col("gang").any(),
        *(pl.col(name).filter(sized).max() for name in _AMOUNTS),
        pl.col("at_ns").min().alias("submitted"),
        is_job.sum().alias("jobs"),
        (is_job & pl.col("end").is_null()).sum().alias("open_jobs"),
        (is_pod & pl.col("end").is_null()).sum().alias("open_pods"),
        (is_job & pl.col("lost")).any().alias("lost_jobs"),
        (is_pod & pl.col("lost")).any().alias("lost_pods"),
        pl.col("placed").filter(is_pod).drop_nulls().sort().alias("placed"),
        pl.col("started").filter(is_pod).min().alias("first_start"),
        pl.col("started").filter(is_pod).max().alias("last_start"),
        pl.col("end").filter(is_pod).max().alias("last_end"),
        pl.col("ran").filter(is_pod).max().alias("longest"),
        pl.col("ran").filter(completed).sum().alias("ran_in_all"),
        completed.sum().alias("completed"),
        (completed & pl.col("started").is_null()).any().alias("unmeasured"),
        pl.col("how").filter(_last(is_job)).alias("job_outcomes"),
        pl.col("how").filter(_last(is_pod)).alias("pod_outcomes"),
    )  # fmt: skip
    for name, of, by in (("asked", is_job, pl.col("pods")), ("peak", is_pod, pl.lit(1))):
        grouped = grouped.join(_most(objects.filter(of), by, name), on="root", how="left", maintain_order="left")
    return grouped.with_columns(pl.when(pl.col("asked") > 0).then("asked").otherwise("peak").alias("pods"))


def _last(kind: pl.Expr) -> pl.Expr:
    """The last ones, without those that were replaced: an operator that starts a workload again replaces what has failed."""
    last = pl.max_horizontal("end", "at_ns") >= pl.col("at_ns").filter(kind).max()
    return kind & (pl.col("end").is_null() | last)


def _most(objects: pl.DataFrame, by: pl.Expr, name: str) -> pl.DataFrame:
    """The most pods that the objects of a workload stand for at a time: one that was replaced is not one more."""
    come = objects.select("root", pl.col("at_ns").alias("at"), by.cast(pl.Int64).alias("by"))
    over = pl.coalesce("end", "gone")  # its end may be known better than its creation, and be before it
    after = pl.when(over.is_not_null()).then(pl.max_horizontal(over, pl.col("at_ns") + 1))
    go = objects.select("root", after.alias("at"), -by.cast(pl.Int64).alias("by")).drop_nulls("at")
    moves = pl.concat([come, go]).sort("root", "at", "by")
    return (
        moves.with_columns(pl.col("by").cum_sum().over("root").alias("there"))
        .group_by("root").agg(pl.col("there").max().alias(name))
    )  # fmt: skip


def _jobs(found: pl.DataFrame) -> pl.DataFrame:
    """The columns of a trace. A workload with Jobs is over when they are, any other when its pods are."""
    has_jobs = pl.col("jobs") > 0
    still_open = pl.when(has_jobs).then(pl.col("open_jobs") > 0).otherwise(pl.col("open_pods") > 0)
    lost = pl.when(has_jobs).then(pl.col("lost_jobs")).otherwise(pl.col("lost_pods"))
    outcomes = pl.when(has_jobs).then(pl.col("job_outcomes")).otherwise(pl.col("pod_outcomes"))
    before = pl.col("submitted") < 0
    in_turn = pl.col("completed") > pl.col("pods")  # more pods than at a time: one after another
    found = found.with_columns(
        (still_open | lost).alias("open"), lost.alias("lost"), outcomes.alias("outcomes"), before.alias("before"),
        pl.when(in_turn & ~has_jobs).then(pl.col("placed").list.first())
        .otherwise(pl.col("placed").list.get(pl.col("pods") - 1, null_on_oob=True)).alias("start"),
    )  # fmt: skip
    ran = (
        pl.when(in_turn).then(pl.col("ran_in_all") // pl.col("pods"))
        .when("gang").then(pl.col("last_end") - pl.col("last_start")).otherwise(pl.col("longest"))
    )  # fmt: skip
    early = (pl.col("first_start") < 0).fill_null(False)  # how long it had run before is not the recording's to say
    duration = (
        pl.when(pl.col("open") | early | pl.col("unmeasured")).then(None)
        .when(pl.col("first_start").is_null() & pl.col("outcomes").list.contains("cancelled")).then(0)
        .otherwise(ran)
    )  # fmt: skip
    outcome = (
        pl.when("open").then(None)
        .when(pl.col("outcomes").list.contains("failed")).then(pl.lit("failed"))
        .when(pl.col("outcomes").list.contains("cancelled")).then(pl.lit("cancelled"))
        .otherwise(pl.lit("completed"))
    )  # fmt: skip
    censored = (
        pl.when("lost").then(pl.lit(GAP))
        .when(pl.col("before") & pl.col("open")).then(pl.lit(BOTH))
        .when("before").then(pl.lit(BEFORE))
        .when("open").then(pl.lit(AFTER))
    )  # fmt: skip
    return found.select(
        pl.col("name").alias("job"),
        pl.col("submitted").clip(lower_bound=0).alias("submit_ns"),
        pl.when(~pl.col("before")).then((pl.col("start") - pl.col("submitted")).clip(lower_bound=0)).alias("wait_ns"),
        duration.clip(lower_bound=0).alias("duration_ns"),
        "pods",
        *(pl.when(pl.col(name) > 0).then(pl.col(name)).alias(name) for name in _AMOUNTS),
        "gpu_model",
        "user",
        "group",
        "queue",
        pl.coalesce("class_name", "kind").alias("class"),
        "priority",
        pl.when("gang").then(True).alias("gang"),
        outcome.alias("outcome"),
        censored.alias("censored"),
    ).sort("submit_ns", maintain_order=True)
