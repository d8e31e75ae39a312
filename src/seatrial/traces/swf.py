"""The Standard Workload Format of the Parallel Workloads Archive: header lines begin with `;`, then 18 columns per job, −1 unknown.

https://www.cs.huji.ac.il/labs/parallel/workload/swf.html has the definition. The file is parsed block by block, so that a file of a
gigabyte takes the memory of its numbers.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from seatrial.traces.columns import CUT
from seatrial.traces.problem import TraceProblem

FIELDS = (
    "job", "submit", "wait", "run", "allocated", "cpu", "memory_used", "processors", "time", "memory", "status", "user", "group",
    "executable", "queue", "partition", "after", "think",
)  # fmt: skip
BLOCK = 1 << 24  # bytes
OUTCOMES = {0: "failed", 1: "completed", 5: "cancelled"}
KB = 1024


def header_of(path: Path) -> dict[str, str]:
    """`; MaxProcs: 100` and the like, by name; of a name that stands twice the first."""
    found: dict[str, str] = {}
    for lines, _ in _blocks(path):
        for line in lines:
            if line.strip() and not line.lstrip().startswith(";"):
                return found
            if named := re.match(r"\s*;\s*(\w+):\s*(.*\S)", line):
                found.setdefault(named[1], named[2])
    return found


def scan(path: Path) -> pl.LazyFrame:
    """The jobs of a file, also of a gzipped one."""
    parts = [_block(lines, first) for lines, first in _blocks(path)]
    return (pl.concat(parts) if parts else _block([], 1)).lazy().pipe(_named)


def _named(numbers: pl.LazyFrame) -> pl.LazyFrame:
    def known(name: str) -> pl.Expr:
        return pl.when(pl.col(name) >= 0).then(pl.col(name))

    def above_zero(name: str) -> pl.Expr:
        return pl.when(pl.col(name) > 0).then(pl.col(name))

    def text(name: str) -> pl.Expr:
        return known(name).cast(pl.Int64).cast(pl.String)

    seconds = 1_000_000_000
    # What was used, where nothing was requested: a cleaned log often has only one of the two.
    memory = pl.coalesce(above_zero("memory"), above_zero("memory_used")) * KB
    return numbers.select(
        "line",
        text("job").alias("job"),
        (known("submit") * seconds).cast(pl.Int64).alias("submit_ns"),
        (known("wait") * seconds).cast(pl.Int64).alias("wait_ns"),
        # −1 is unknown, any other negative time is a fault.
        pl.when(pl.col("run") != -1).then(pl.col("run") * seconds).cast(pl.Int64).alias("duration_ns"),
        pl.coalesce(above_zero("allocated"), above_zero("processors")).cast(pl.Int64).alias("processors"),
        memory.cast(pl.Int64).alias("memory_bytes"),
        text("user").alias("user"),
        text("group").alias("group"),
        text("queue").alias("queue"),
        text("partition").alias("partition"),
        above_zero("after").cast(pl.Int64).cast(pl.String).alias("after"),
        (known("think") * seconds).cast(pl.Int64).alias("think_ns"),
        pl.col("status").replace_strict(OUTCOMES, default=None, return_dtype=pl.String).alias("outcome"),
        "fault",
    )


def _block(lines: list[str], first: int) -> pl.DataFrame:
    """The numbers of some lines, without those of the header."""
    table = pl.DataFrame({"text": lines}, schema={"text": pl.String}).with_row_index("line", offset=first)
    table = table.with_columns(pl.col("text").str.strip_chars()).filter(
        (pl.col("text") != "") & ~pl.col("text").str.starts_with(";")
    )
    parts = pl.col("text").str.replace_all(r"\s+", " ").str.split(" ")
    table = table.with_columns(parts.alias("parts"))
    numbers = table.with_columns(
        pl.col("parts").list.get(place, null_on_oob=True).cast(pl.Float64, strict=False).alias(name)
        for place, name in enumerate(FIELDS)
    )
    # Times up to a century: beyond, a number is two that ran together.
    sane = pl.all_horizontal(pl.col(name).is_not_null() & pl.col(name).abs().lt(4e9) for name in FIELDS)
    whole = sane & (pl.col("parts").list.len() == len(FIELDS))
    return numbers.select(
        pl.col("line").cast(pl.UInt32),
        *(pl.when(whole).then(pl.col(name)).alias(name) for name in FIELDS),
        pl.when(~whole).then(pl.lit(CUT)).alias("fault"),
    )


def _blocks(path: Path) -> Iterator[tuple[list[str], int]]:
    """Whole lines, and the number of the first of them."""
    rest, first = b"", 1
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            stream = gzip.GzipFile(fileobj=plain) if packed else plain
            while block := stream.read(BLOCK):
                data = rest + block
                end = data.rfind(b"\n") + 1
                rest = data[end:]
                lines = data[:end].decode("utf-8", "replace").split("\n")[:-1]
                yield lines, first
                first += len(lines)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceProblem(
            f"{path.name} is damaged somewhere after line {first:,}: {error}",
            "get the file again, or unpack what can be read",
        ) from None
    if rest:
        yield [rest.decode("utf-8", "replace")], first
