"""From the lines of a recording to a trace: a job per workload, whatever was seen twice, late, or in several processes.

A workload is what owns Jobs and pods: the Job, or the JobSet, PyTorchJob and so on that controls them. Pods of a Job that is
itself controlled belong to its owner. All of it is a pure function of the lines: a recording can be made into a trace at any time.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from seatrial.record.recordings import ENDED, GONE, JOB, POD, STARTED, UNSEEN, SeenLine, columns
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
    roots = objects.filter(pl.col("of") == JOB).select(
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
        .join(of(STARTED, pl.col("at_ns").alias("started")), on="uid", how="left")
        .join(of(ENDED, pl.col("at_ns").alias("ended"), pl.col("outcome").alias("how")), on="uid", how="left")
        .join(of(GONE, pl.col("at_ns").alias("gone"), (pl.col("outcome") == UNSEEN).alias("unseen")), on="uid", how="left")
    )  # fmt: skip


def _workloads(objects: pl.DataFrame) -> pl.DataFrame:
    """A row per workload. `over`: when it ended; `lost`: it was gone when a gap ended, and nobody saw how it ended."""
    is_job, is_pod = pl.col("of") == JOB, pl.col("of") == POD
    seen_gone = pl.when(~pl.col("unseen").fill_null(False)).then(pl.col("gone"))
    objects = objects.with_columns(
        pl.coalesce("ended", seen_gone).alias("end"),
        pl.coalesce("how", pl.when(seen_gone.is_not_null()).then(pl.lit("cancelled"))).alias("how"),
        (pl.col("unseen").fill_null(False) & pl.col("ended").is_null()).alias("lost"),
    ).with_columns((pl.col("end") - pl.col("started")).alias("ran"))
    sized = (is_pod | (pl.col("pods") > 0))  # fmt: skip
    peaks = _peaks(objects.filter(is_pod))
    grouped = objects.sort("at_ns", maintain_order=True).group_by("root", maintain_order=True).agg(
        pl.col("kind").first(),
        *(pl.col(name).filter(pl.col(name) != "").first() for name in _TEXTS),
        pl.col("priority").max(),
        pl.col("gang").any(),
        *(pl.col(name).filter(sized).max() for name in _AMOUNTS),
        pl.col("at_ns").min().alias("submitted"),
        pl.col("pods").filter(is_job).sum().alias("asked"),
        is_job.sum().alias("jobs"),
        (is_job & pl.col("end").is_null()).sum().alias("open_jobs"),
        (is_pod & pl.col("end").is_null()).sum().alias("open_pods"),
        (is_job & pl.col("lost")).any().alias("lost_jobs"),
        (is_pod & pl.col("lost")).any().alias("lost_pods"),
        pl.col("started").filter(is_pod).min().alias("first_start"),
        pl.col("started").filter(is_pod).max().alias("last_start"),
        pl.col("end").filter(is_pod).max().alias("last_end"),
        pl.col("ran").filter(is_pod).max().alias("longest"),
        (is_pod & pl.col("started").is_null() & (pl.col("how") == "completed")).any().alias("unmeasured"),
        pl.col("how").filter(is_job).alias("job_outcomes"),
        pl.col("how").filter(is_pod).alias("pod_outcomes"),
    )  # fmt: skip
    return grouped.join(peaks, on="root", how="left", maintain_order="left")


def _peaks(pods: pl.DataFrame) -> pl.DataFrame:
    """The most pods that a workload had at a time: a pod that was replaced is not one more."""
    come = pods.select("root", pl.col("at_ns").alias("at"), pl.lit(1).alias("by"))
    go = pods.select("root", pl.coalesce("end", "gone").alias("at"), pl.lit(-1).alias("by")).drop_nulls("at")
    moves = pl.concat([come, go]).sort("root", "at", "by")
    return (
        moves.with_columns(pl.col("by").cum_sum().over("root").alias("there"))
        .group_by("root").agg(pl.col("there").max().alias("peak"))
    )  # fmt: skip


def _jobs(found: pl.DataFrame) -> pl.DataFrame:
    """The columns of a trace. A workload with Jobs is over when they are, any other when its pods are."""
    has_jobs = pl.col("jobs") > 0
    still_open = pl.when(has_jobs).then(pl.col("open_jobs") > 0).otherwise(pl.col("open_pods") > 0)
    lost = pl.when(has_jobs).then(pl.col("lost_jobs")).otherwise(pl.col("lost_pods"))
    outcomes = pl.when(has_jobs).then(pl.col("job_outcomes")).otherwise(pl.col("pod_outcomes"))
    before = pl.col("submitted") < 0
    found = found.with_columns(
        (still_open | lost).alias("open"), lost.alias("lost"), outcomes.alias("outcomes"), before.alias("before"),
        pl.when("gang").then(pl.col("last_start")).otherwise(pl.col("first_start")).alias("start"),
    )  # fmt: skip
    ran = pl.when("gang").then(pl.col("last_end") - pl.col("last_start")).otherwise(pl.col("longest"))
    early = (pl.col("first_start") < 0).fill_null(False)  # how long it had run before is not the recording's to say
    duration = (
        pl.when(pl.col("open") | early | pl.col("unmeasured")).then(None)
        .when(pl.col("start").is_null() & pl.col("outcomes").list.contains("cancelled")).then(0)
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
        pl.when(pl.col("asked") > 0).then(pl.col("asked")).otherwise(pl.col("peak")).alias("pods"),
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
