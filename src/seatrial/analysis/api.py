"""The API server under load: figures of one trial from its requests and from what was measured beside them.

- `requests`, `rejected`, `retried`, `errors`: requests of the load as they went over the wire; answered with 429; sent
  again; answered with another failure, or not at all. `api_p50_s` …: exact percentiles by nearest rank, from when a request
  was due to the whole answer, of those that were answered well; watches are left out.
- The same of one identity: `rejected(tenant)`. Components and nodes are identities too, where the audit log told of them.
- `requests_per_s`: answered well per second, from the first that was due to the last answer. `in_flight_max`, `queued_max`: the
  most that the server executed, or held in its queues, at the same time (gauges, seen once a second); without the server's word
  what the client had under way. `cpu_cores`: how much of the machine was busy on average.
- `pod_start_p99_s`: created → running, of the pods that came of created objects. `heartbeat_gap_s`: the longest time in which
  some node's lease was not renewed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from seatrial.analysis.directory import TrialRecord
from seatrial.model.units import SECOND
from seatrial.record.metrics import METRICS, metrics
from seatrial.record.requests import CLIENT, REQUESTS, requests
from seatrial.record.starts import STARTS

NOWHERE = Path("/nonexistent")
PERCENTILES = (50, 95, 99)
COUNTED = ("requests", "rejected", "retried", "errors")
FIGURES = (
    *COUNTED, "requests_per_s", *(f"api_p{p}_s" for p in PERCENTILES), "in_flight_max", "queued_max", "cpu_cores",
    "pod_start_p99_s", "heartbeat_gap_s",
)  # fmt: skip

# The seven measurements that the experiment compares: what each is called, in which unit, and where the server says it.
MEASUREMENTS = {
    "load average": "", "CPU": "cores", "memory": "GB", "request duration": "s", "request rate": "/s",
    "in flight": "", "rejected": "/s",
}  # fmt: skip
_LASTING = ("WATCH", "CONNECT")  # verbs of the server's own counters that have no rate worth a name


@dataclass(frozen=True)
class Load:
    """What a trial's directory has about its load; `there` only for trials that sent requests."""

    trial: TrialRecord

    @property
    def there(self) -> bool:
        directory = self.trial.directory
        return (directory / REQUESTS).is_file() or any(directory.glob("requests-*.seg"))

    @cached_property
    def requests(self) -> pl.DataFrame:
        return self._read(requests)

    @cached_property
    def metrics(self) -> pl.DataFrame:
        directory = self.trial.directory
        known = (directory / METRICS).is_file() or any(directory.glob("metrics-*.tsv"))
        return self._read(metrics) if known else metrics(NOWHERE)

    def _read(self, read: Callable[[Path], pl.DataFrame]) -> pl.DataFrame:
        """What a trial that is known to be damaged has lost is empty."""
        try:
            return read(self.trial.directory)
        except (pl.exceptions.PolarsError, OSError):
            if not self.trial.damage:
                raise
            return read(NOWHERE)

    @cached_property
    def sent(self) -> pl.DataFrame:
        """The load's own requests."""
        return self.requests.filter(pl.col("seen_by") == CLIENT)

    @cached_property
    def span(self) -> tuple[int, int]:
        """From the first request that was due to the last answer, in nanoseconds."""
        if self.sent.is_empty():
            return 0, 0
        first, last = self.sent.select(
            pl.col("at_ns").min(), (pl.col("at_ns") + pl.col("took_ns")).max().alias("end")
        ).row(0)
        return int(first), int(last)

    def series(self, source: str, metric: str, *, only: str = "", without: Iterable[str] = ()) -> pl.DataFrame:
        """`at_s` and `value` of a metric, summed over its labels; `only` and `without` are texts in its labels."""
        rows = self.metrics.filter((pl.col("source") == source) & (pl.col("metric") == metric))
        if only:
            rows = rows.filter(pl.col("labels").str.contains(only, literal=True))
        for text in without:
            rows = rows.filter(~pl.col("labels").str.contains(text, literal=True))
        return rows.group_by("at_ns").agg(pl.col("value").sum()).sort("at_ns")


def figures(trial: TrialRecord) -> dict[str, float | None]:
    """Empty figures for a trial that sent no requests."""
    load = Load(trial)
    if not load.there:
        return dict.fromkeys(FIGURES)
    first, last = load.span
    done = load.sent.filter(pl.col("code").is_between(1, 299)).height
    busy = _mean_rate(load.series("machine", "cpu_busy_seconds"))
    return {
        **counted(load.sent),
        "requests_per_s": done * SECOND / (last - first) if last > first else None,
        "in_flight_max": _largest(load.series("kube-apiserver", "apiserver_current_inflight_requests"), load),
        "queued_max": _most(load.series("kube-apiserver", "apiserver_current_inqueue_requests")),
        "cpu_cores": busy,
        "pod_start_p99_s": pod_start(trial.directory, 99),
        "heartbeat_gap_s": _heartbeat(trial),
    }  # fmt: skip


def of_identities(trial: TrialRecord) -> dict[str, float | None]:
    """`rejected(tenant)` and so on, of everyone who was seen; an identity that sent nothing has counts of 0."""
    load = Load(trial)
    if not load.there:
        return {}
    found: dict[str, float | None] = {}
    for (identity,), rows in load.requests.group_by("identity"):
        found |= {f"{name}({identity})": value for name, value in counted(rows).items()}
    return found


def identities(trial: TrialRecord) -> list[str]:
    """Everyone whose requests were seen."""
    load = Load(trial)
    return [str(name) for name in load.requests["identity"].unique(maintain_order=True)] if load.there else []


def asked_of(trial: TrialRecord, names: Iterable[str]) -> dict[str, float | None]:
    """These figures of identities; one from whom nothing was seen has counts of 0, and no times."""
    wanted = list(names)
    seen = of_identities(trial) if wanted else {}
    return {name: seen.get(name, 0 if name.partition("(")[0] in COUNTED else None) for name in wanted}


def counted(rows: pl.DataFrame) -> dict[str, float | None]:
    """Counts and percentiles of some requests."""
    well = rows.filter(pl.col("code").is_between(1, 299) & (pl.col("verb") != "watch"))["took_ns"].sort()
    return {
        "requests": rows.height,
        "rejected": rows.filter(pl.col("code") == 429).height,
        "retried": rows.filter(pl.col("attempt") > 1).height,
        "errors": rows.filter((pl.col("code") == 0) | ((pl.col("code") >= 400) & (pl.col("code") != 429))).height,
        **{f"api_p{percent}_s": nearest_rank(well, percent) for percent in PERCENTILES},
    }


def nearest_rank(ordered: pl.Series, percent: int) -> float | None:
    """The ⌈p·n⌉-th smallest of sorted nanoseconds, in seconds: a time that some request really took."""
    if ordered.is_empty():
        return None
    return float(ordered[max(-(-percent * ordered.len() // 100), 1) - 1] / SECOND)


def pod_start(directory: Path, percent: int) -> float | None:
    if not (directory / STARTS).is_file():
        return None
    pods = pl.read_parquet(directory / STARTS, glob=False)
    took = (pods["running_ns"].cast(pl.Int64) - pods["created_ns"].cast(pl.Int64)).drop_nulls().sort()
    return nearest_rank(took, percent)


def _heartbeat(trial: TrialRecord) -> float | None:
    said = (trial.document.get("validity") or {}).get("heartbeats")
    return float(said["worst_s"]) if said else None


def _most(series: pl.DataFrame) -> float | None:
    most = series["value"].max()
    return float(most) if isinstance(most, float) else None


def _largest(series: pl.DataFrame, load: Load) -> float | None:
    most = _most(series)
    if most is not None or load.sent.is_empty():
        return most
    return float(in_flight(load.sent)[1].max())


def in_flight(rows: pl.DataFrame) -> tuple[Any, Any]:
    """How many requests were under way after each change, and when (ns)."""
    sent = rows["sent_ns"].to_numpy()
    done = (rows["at_ns"] + rows["took_ns"]).to_numpy()
    at = np.concatenate((sent, done))
    order = np.argsort(at, kind="stable")
    return at[order], np.cumsum(np.concatenate((np.ones(len(sent)), -np.ones(len(done))))[order])


def _mean_rate(series: pl.DataFrame) -> float | None:
    if series.height < 2:
        return None
    took = (series["at_ns"][-1] - series["at_ns"][0]) / SECOND
    return float((series["value"][-1] - series["value"][0]) / took) if took else None


# ── the seven measurements over time ──


def measurements(load: Load) -> pl.DataFrame:
    """`measurement`, `at_s` (since the first request), `value`, about once a second; those that nobody measured are missing."""
    first, last = load.span
    api = "kube-apiserver"
    lasting = [f"verb={verb}" for verb in _LASTING]
    known: dict[str, pl.DataFrame] = {
        "load average": load.series("machine", "load_average"),
        "CPU": _rates(load.series("machine", "cpu_busy_seconds")),
        "memory": load.series("machine", "memory_used_bytes").with_columns(pl.col("value") / 1e9),
        "request duration": _ratio(
            load.series(api, "apiserver_request_duration_seconds_sum"),
            load.series(api, "apiserver_request_duration_seconds_count"),
        ),
        "request rate": _rates(load.series(api, "apiserver_request_total", without=lasting)),
        "in flight": load.series(api, "apiserver_current_inflight_requests"),
        "rejected": _rates(load.series(api, "apiserver_request_total", only="code=429")),
    }
    if known["request rate"].is_empty():
        known |= _from_requests(load.requests, first, last)
    elif known["rejected"].is_empty():  # the counter is left out until there is something to count
        known["rejected"] = known["request rate"].with_columns(pl.lit(0.0).alias("value"))
    parts = [
        series.filter(pl.col("at_ns").is_between(first, last + SECOND)).select(
            pl.lit(name).alias("measurement"), ((pl.col("at_ns") - first) / SECOND).alias("at_s"), "value"
        )
        for name, series in known.items()
        if not series.is_empty()
    ]
    schema = {"measurement": pl.String, "at_s": pl.Float64, "value": pl.Float64}
    return pl.concat([pl.DataFrame(schema=schema), *parts])


def _rates(counter: pl.DataFrame) -> pl.DataFrame:
    """Per second, between one look and the next. A counter that began again (a restart) gives no rate there."""
    took = (pl.col("at_ns") - pl.col("at_ns").shift()) / SECOND
    rated = counter.with_columns(((pl.col("value") - pl.col("value").shift()) / took).alias("value"))
    return rated.filter(pl.col("value").is_not_null() & (pl.col("value") >= 0))


def _ratio(sums: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    """What one took on average, between one look and the next."""
    both = sums.join(counts, on="at_ns", suffix="_count").sort("at_ns")
    count = pl.col("value_count") - pl.col("value_count").shift()
    mean = (pl.col("value") - pl.col("value").shift()) / count
    return both.with_columns(mean.alias("value"), count.alias("n")).filter(pl.col("n") > 0).select("at_ns", "value")


def _from_requests(rows: pl.DataFrame, first: int, last: int) -> dict[str, pl.DataFrame]:
    """The same from the requests themselves, where no server was asked: second by second."""
    done = rows.filter(pl.col("verb") != "watch").with_columns(
        ((pl.col("at_ns") + pl.col("took_ns") - first) // SECOND).alias("second")
    )
    seconds = pl.DataFrame({"second": np.arange((last - first) // SECOND + 1)})
    by = done.group_by("second").agg(
        pl.len().alias("rate"),
        (pl.col("took_ns").mean() / SECOND).alias("duration"),
        (pl.col("code") == 429).sum().alias("rejected"),
    )
    grid = seconds.join(by, on="second", how="left").sort("second")
    at = ((pl.col("second") + 1) * SECOND + first).alias("at_ns")
    times, under_way = in_flight(rows)
    ends = (grid["second"].to_numpy() + 1) * SECOND + first
    places = np.searchsorted(times, ends, side="right") - 1
    return {
        "request duration": grid.select(at, pl.col("duration").alias("value")).drop_nulls(),
        "request rate": grid.select(at, pl.col("rate").fill_null(0).cast(pl.Float64).alias("value")),
        "rejected": grid.select(at, pl.col("rejected").fill_null(0).cast(pl.Float64).alias("value")),
        "in flight": pl.DataFrame({"at_ns": ends, "value": np.where(places >= 0, under_way[places], 0.0)}),
    }
