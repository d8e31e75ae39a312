"""Slurm's accounting: the output of `sacct -P` (`--parsable2`), a line per job with `|` between the fields that `--format` named.

https://slurm.schedmd.com/sacct.html has the fields. sacct quotes nothing, so a line is split as it stands: a job's name with a
`|` in it is a line that is mixed up. Lines of job steps (`123.batch`) are no jobs; `-X` leaves them out from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from seatrial.traces import mapped_tables
from seatrial.traces.columns import CUT
from seatrial.traces.problem import TraceProblem

SECOND = 1_000_000_000
FORMAT = (
    "JobID,User,Account,Partition,QOS,Submit,Eligible,Start,End,Elapsed,State,AllocNodes,NNodes,AllocCPUS,ReqCPUS,ReqMem,"
    "AllocTRES,ReqTRES"
)  # that makes the most of it
REMEDY = f"write it with sacct -P -X -a --format={FORMAT}"
_UNKNOWN = ["", "Unknown", "None", "N/A", "INVALID"]
_OUTCOMES = {"COMPLETED": "completed", "CANCELLED": "cancelled"}
_NOT_OVER = ["PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "COMPLETING"]
_NOTHING: pl.Expr = pl.lit(None, dtype=pl.String)


def recognises(path: Path) -> bool:
    """Recognises the format by its header."""
    line = mapped_tables.first_line(path)
    return "|" in line and {"JobID", "Submit"} <= set(line.split("|"))


def scan(path: Path) -> pl.LazyFrame:
    """The jobs of a file. A pod per node that a job had: its processors, memory and GPUs are spread over them."""
    names = mapped_tables.first_line(path).split("|")
    _check(path, names)
    lines = pl.scan_csv(
        path, has_header=False, skip_lines=1, separator="\x1f", quote_char=None, schema={"text": pl.String},
        encoding="utf8-lossy", truncate_ragged_lines=True, row_index_name="line", row_index_offset=2,
    )  # fmt: skip
    parts = pl.col("text").str.strip_chars_end("\r").str.split("|")
    whole = parts.list.len() == len(names)
    fields = lines.filter(pl.col("text").str.strip_chars() != "").select(
        "line",
        pl.when(~whole).then(pl.lit(CUT)).alias("fault"),
        *(pl.when(whole).then(parts.list.get(place, null_on_oob=True)).alias(name) for place, name in enumerate(names)),
    )
    if "JobID" in names:
        fields = fields.filter(pl.col("fault").is_not_null() | ~pl.col("JobID").str.contains(".", literal=True))
    return _jobs(fields, names)


def _check(path: Path, names: Sequence[str]) -> None:
    wanted = [("Submit",), ("Elapsed", "ElapsedRaw", "End"), ("AllocCPUS", "NCPUS", "ReqCPUS", "AllocTRES", "ReqTRES")]
    for one_of in wanted:
        if not set(one_of) & set(names):
            raise TraceProblem(f"{path.name} has no column '{one_of[0]}'", REMEDY)
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise TraceProblem(f"{path.name} has two columns called '{twice[0]}'", REMEDY)


def _jobs(fields: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
    def text(name: str) -> pl.Expr:
        value = pl.col(name).str.strip_chars()
        return pl.when(~value.is_in(_UNKNOWN)).then(value) if name in names else _NOTHING

    def number(*of: str) -> pl.Expr:
        found = (text(name).cast(pl.Int64, strict=False) for name in of)
        return pl.coalesce(pl.when(one > 0).then(one) for one in found)

    tres = pl.coalesce(text("AllocTRES"), text("ReqTRES"))
    cpus = pl.coalesce(number("AllocCPUS", "NCPUS"), _of_tres(tres, "cpu"), number("ReqCPUS"))
    nodes = pl.coalesce(number("AllocNodes"), _of_tres(tres, "node"), number("NNodes", "ReqNodes"), pl.lit(1))
    gpus = pl.coalesce(_of_tres(tres, "gres/gpu"), _typed_gpus(tres))
    submit, eligible, start, end = (mapped_tables.dates(text(name)) for name in ("Submit", "Eligible", "Start", "End"))
    ready = pl.max_horizontal(submit, eligible)
    state = text("State").str.extract(r"^(\w+)")
    ran = pl.coalesce(text("ElapsedRaw").cast(pl.Int64, strict=False) * SECOND, _span(text("Elapsed")), end - start)
    unreadable = [text(name).is_not_null() & found.is_null() for name, found in (("Submit", submit), ("Elapsed", ran))]
    return fields.select(
        pl.col("line").cast(pl.UInt32),
        text("JobID").alias("job"),
        ready.alias("submit_ns"),
        (start - ready).alias("wait_ns"),
        pl.when(~state.is_in(_NOT_OVER).fill_null(False)).then(ran).alias("duration_ns"),  # of a running job not known
        pl.when(cpus.is_not_null() | gpus.is_not_null()).then(nodes).alias("pods"),
        cpus.alias("processors"),
        ((cpus * 1000 + nodes - 1) // nodes).alias("cpu_milli"),
        ((_memory(text("ReqMem"), tres, cpus, nodes) + nodes - 1) // nodes).alias("memory_bytes"),
        ((gpus + nodes - 1) // nodes * 1000).alias("gpu_milli"),
        tres.str.extract(r"(?:^|,)gres/gpu:([^=]+)=").alias("gpu_model"),
        text("User").alias("user"),
        text("Account").alias("group"),
        text("Partition").alias("queue"),
        text("Partition").alias("partition"),
        text("QOS").alias("class"),
        pl.when(~state.is_in(_NOT_OVER))
        .then(state.replace_strict(_OUTCOMES, default="failed", return_dtype=pl.String))
        .alias("outcome"),
        pl.coalesce("fault", pl.when(pl.any_horizontal(unreadable)).then(pl.lit(CUT))).alias("fault"),
    )


def _of_tres(tres: pl.Expr, name: str) -> pl.Expr:
    """`billing=4,cpu=4,gres/gpu=1,mem=16G,node=1`."""
    return tres.str.extract(rf"(?:^|,){name}=(\d+)").cast(pl.Int64)


def _typed_gpus(tres: pl.Expr) -> pl.Expr:
    """`gres/gpu:a100=4`: a cluster may account for GPUs by their type only."""
    amounts = tres.str.extract_all(r"gres/gpu:[^=,]+=\d+").list.eval(
        pl.element().str.extract(r"=(\d+)$").cast(pl.Int64)
    )
    return pl.when(amounts.list.len() > 0).then(amounts.list.sum())


def _memory(requested: pl.Expr, tres: pl.Expr, cpus: pl.Expr, nodes: pl.Expr) -> pl.Expr:
    """Bytes of the whole job. Up to Slurm 21.08 `ReqMem` was per processor (`4Gc`) or per node (`4Gn`)."""
    whole, asked = _bytes(tres.str.extract(r"(?:^|,)mem=([\d.]+[KMGTP]?)")), _bytes(requested)
    each = pl.when(requested.str.ends_with("c")).then(cpus).when(requested.str.ends_with("n")).then(nodes).otherwise(1)
    return pl.coalesce(whole, asked * each)


def _bytes(text: pl.Expr) -> pl.Expr:
    """`16G`; without a unit megabytes."""
    amount = text.str.extract(r"^([\d.]+)").cast(pl.Float64, strict=False)
    unit = text.str.extract(r"^[\d.]+([KMGTP])").fill_null("M")
    power = unit.replace_strict({"K": 10, "M": 20, "G": 30, "T": 40, "P": 50}, default=20, return_dtype=pl.Float64)
    found = (amount * pl.lit(2.0).pow(power)).ceil()
    return pl.when((found > 0) & (found < 2**62)).then(found).cast(pl.Int64, strict=False)


def _span(text: pl.Expr) -> pl.Expr:
    """`[days-]hours:minutes:seconds`."""
    parts = text.str.extract_groups(r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?$").struct
    days, hours, minutes, seconds = (parts.field(str(place)).cast(pl.Int64) for place in (1, 2, 3, 4))
    return (((days.fill_null(0) * 24 + hours.fill_null(0)) * 60 + minutes) * 60 + seconds) * SECOND
