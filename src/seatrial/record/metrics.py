"""Metrics over time: lines of text while a trial runs, one long Parquet table once sealed.

`metrics.parquet` has `at_ns` (since the trial's epoch), `source` (`machine`, `client`, or a component), `metric`, `labels`
(`a=b,c=d`, sorted; empty for none) and `value`. Counters are as the source counts them. A series is left out while it is 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from seatrial.record.files import AppendOnly
from seatrial.record.layout import METRICS
from seatrial.record.segments import put_in_place, writer_name

SCHEMA = {"at_ns": pl.Int64, "source": pl.String, "metric": pl.String, "labels": pl.String, "value": pl.Float64}

MetricSample = tuple[str, str, float]  # metric, labels, value


class MetricsLog:
    """The file of one process."""

    def __init__(self, directory: Path) -> None:
        self._file = AppendOnly(directory / f"metrics-{writer_name()}.tsv")
        self._seen: set[tuple[str, str, str]] = set()

    def add(self, at: int, source: str, samples: Iterable[MetricSample]) -> None:
        """Samples of a source at a time."""
        lines = []
        for metric, labels, value in samples:
            key = (source, metric, labels)
            if value or key in self._seen:
                self._seen.add(key)
                lines.append(f"{at}\t{source}\t{metric}\t{labels}\t{value!r}\n")
        if lines:
            self._file.append("".join(lines).encode())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def metrics(directory: Path) -> pl.DataFrame:
    """All metrics of a trial, sealed or not; empty without any."""
    if (directory / METRICS).exists():
        return pl.read_parquet(directory / METRICS, glob=False)
    frames = [pl.DataFrame(schema=SCHEMA)]
    for path in sorted(directory.glob("metrics-*.tsv")):
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole:
            table = pl.read_csv(whole, separator="\t", has_header=False, schema=SCHEMA, quote_char=None)
            frames.append(table.with_columns(pl.col("labels").fill_null("")))
    return pl.concat(frames)


def seal(directory: Path) -> None:
    """Writes Parquet, then removes the text files."""
    parts = sorted(directory.glob("metrics-*.tsv"))
    if parts:
        put_in_place(directory / METRICS, metrics(directory), parts)
