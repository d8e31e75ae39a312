"""The API server under load: a trial's requests, and the metrics that were collected beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from seatrial.model.units import SECOND
from seatrial.record.layout import METRICS, REQUESTS, STARTS
from seatrial.record.metrics import metrics
from seatrial.record.request_log import CLIENT, requests
from seatrial.record.trial_record import TrialRecord

NOWHERE = Path("/nonexistent")
PERCENTILES = (50, 95, 99)
COUNTED = ("requests", "rejected", "retried", "errors")

# The seven measurements that the experiment compares, with their units.
MEASUREMENTS = {
    "load average": "", "CPU": "cores", "memory": "GB", "request duration": "s", "request rate": "/s",
    "in flight": "", "rejected": "/s",
}  # fmt: skip
_LASTING = ("WATCH", "CONNECT")  # verbs of the server's own counters that have no rate worth a name


@dataclass(frozen=True)
class ApiLoad:
    """The load of a trial, from its directory; not `there` for a trial that sent no requests."""

    trial: TrialRecord

    @property
    def there(self) -> bool:
        """Whether the trial sent requests."""
        directory = self.trial.directory
        return (directory / REQUESTS).is_file() or any(directory.glob("requests-*.seg"))

    @cached_property
    def requests(self) -> pl.DataFrame:
        """All requests that were seen, those of components included."""
        return self._read(requests)

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """Everything that was scraped."""
        directory = self.trial.directory
        known = (directory / METRICS).is_file() or any(directory.glob("metrics-*.tsv"))
        return self._read(metrics) if known else metrics(NOWHERE)

    def _read(self, read: Callable[[Path], pl.DataFrame]) -> pl.DataFrame:
        """Empty if the trial is known to be damaged and has lost the file."""
        try:
            return self.trial.tables.read(self.trial.directory, read)
        except (pl.exceptions.PolarsError, OSError):
            if not self.trial.damage:
                raise
            return read(NOWHERE)

    @cached_property
    def sent(self) -> pl.DataFrame:
        """The load's own requests."""
        return self.requests.filter(pl.col("seen_by") == CLIENT)

    def of_identity(self, identity: str) -> pl.DataFrame:
        """The requests of one identity; none in a trial without a load."""
        rows = self.requests if self.there else requests(NOWHERE)
        return rows.filter(pl.col("identity") == identity)

    @cached_property
    def span(self) -> tuple[int, int]:
        """Time from the first due request to the last answer, in nanoseconds."""
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
        # In order: a parallel sum of floats differs in its last bit between runs, and the picture by a "-0 %".
        return rows.group_by("at_ns", maintain_order=True).agg(pl.col("value").sum()).sort("at_ns")


def identities(trial: TrialRecord) -> list[str]:
    """All identities that sent requests, components included."""
    load = ApiLoad(trial)
    return [str(name) for name in load.requests["identity"].unique(maintain_order=True)] if load.there else []


def counted(rows: pl.DataFrame) -> dict[str, float | None]:
    """Counts and percentiles of these requests, by figure."""
    well = rows.filter(pl.col("code").is_between(1, 299) & (pl.col("verb") != "watch"))["took_ns"].sort()
    return {
        "requests": rows.height,
        "rejected": rows.filter(pl.col("code") == 429).height,
        "retried": rows.filter(pl.col("attempt") > 1).height,
        "errors": rows.filter((pl.col("code") == 0) | ((pl.col("code") >= 400) & (pl.col("code") != 429))).height,
        **{f"api_p{percent}_s": nearest_rank(well, percent) for percent in PERCENTILES},
    }


def nearest_rank(ordered: pl.Series, percent: int) -> float | None:
    """The ⌈p·n⌉-th smallest of sorted nanoseconds, in seconds: a value that occurred."""
    if ordered.is_empty():
        return None
    return float(ordered[max(-(-percent * ordered.len() // 100), 1) - 1] / SECOND)


def answered_per_s(load: ApiLoad) -> float | None:
    """Requests answered well per second, from the first due to the last answer."""
    first, last = load.span
    done = load.sent.filter(pl.col("code").is_between(1, 299)).height
    return done * SECOND / (last - first) if last > first else None


def most_in_flight(load: ApiLoad) -> float | None:
    """Maximum of requests in flight: by the server's gauge, or without it by the client's own requests."""
    most = _most(load.series("kube-apiserver", "apiserver_current_inflight_requests"))
    if most is not None or load.sent.is_empty():
        return most
    return float(in_flight(load.sent)[1].max())


def most_queued(load: ApiLoad) -> float | None:
    """Maximum of queued requests, by the server's gauge."""
    return _most(load.series("kube-apiserver", "apiserver_current_inqueue_requests"))


def busy_cores(load: ApiLoad) -> float | None:
    """Busy cores of the machine, the mean over the trial."""
    busy = load.series("machine", "cpu_busy_seconds")
    if busy.height < 2:
        return None
    took = (busy["at_ns"][-1] - busy["at_ns"][0]) / SECOND
    return float((busy["value"][-1] - busy["value"][0]) / took) if took else None


def pod_start_p99(load: ApiLoad) -> float | None:
    """Time from created to running, of pods of created objects."""
    path = load.trial.directory / STARTS
    if not path.is_file():
        return None
    pods = pl.read_parquet(path, glob=False)
    took = (pods["running_ns"].cast(pl.Int64) - pods["created_ns"].cast(pl.Int64)).drop_nulls().sort()
    return nearest_rank(took, 99)


def heartbeat_gap(load: ApiLoad) -> float | None:
    """The gap between heartbeats, as the trial's validity records it."""
    said = (load.trial.document.get("validity") or {}).get("heartbeats")
    return float(said["worst_s"]) if said else None


def _most(series: pl.DataFrame) -> float | None:
    most = series["value"].max()
    return float(most) if isinstance(most, float) else None


def in_flight(rows: pl.DataFrame) -> tuple[Any, Any]:
    """When the number of requests in flight changed (ns), and the number after each change."""
    sent = rows["sent_ns"].to_numpy()
    done = (rows["at_ns"] + rows["took_ns"]).to_numpy()
    at = np.concatenate((sent, done))
    order = np.argsort(at, kind="stable")
    return at[order], np.cumsum(np.concatenate((np.ones(len(sent)), -np.ones(len(done))))[order])


# ── the seven measurements over time ──


def measurements(load: ApiLoad) -> pl.DataFrame:
    """`measurement`, `at_s` (since the first request), `value`, about once a second, of what was measured."""
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
    """Per second, between consecutive samples. A counter that was reset by a restart gives no rate there."""
    took = (pl.col("at_ns") - pl.col("at_ns").shift()) / SECOND
    rated = counter.with_columns(((pl.col("value") - pl.col("value").shift()) / took).alias("value"))
    return rated.filter(pl.col("value").is_not_null() & (pl.col("value") >= 0))


def _ratio(sums: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    """The mean of a histogram between consecutive samples."""
    both = sums.join(counts, on="at_ns", suffix="_count").sort("at_ns")
    count = pl.col("value_count") - pl.col("value_count").shift()
    mean = (pl.col("value") - pl.col("value").shift()) / count
    return both.with_columns(mean.alias("value"), count.alias("n")).filter(pl.col("n") > 0).select("at_ns", "value")


def _from_requests(rows: pl.DataFrame, first: int, last: int) -> dict[str, pl.DataFrame]:
    """The same from the requests themselves, second by second, if the server was not scraped."""
    done = rows.filter(pl.col("verb") != "watch").with_columns(
        ((pl.col("at_ns") + pl.col("took_ns") - first) // SECOND).alias("second")
    )
    seconds = pl.DataFrame({"second": np.arange((last - first) // SECOND + 1)})
    by = done.group_by("second").agg(
        pl.len().alias("rate"),
        (pl.col("took_ns").sum() / pl.len() / SECOND).alias("duration"),
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
