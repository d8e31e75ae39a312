"""Every format becomes the same table; what is unusable in a file is counted and named."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from seatrial.traces import own_format
from seatrial.traces.mapped_tables import Columns
from seatrial.traces.problem import TraceProblem
from seatrial.traces.reading import Trace, read
from tests.traces import samples

S = 1_000_000_000


def rows(trace: Trace, *names: str) -> list[tuple[object, ...]]:
    return trace.jobs.select(names).rows()


@pytest.mark.parametrize("name", ["t.swf", "t.swf.gz", "without-ending"])
def test_swf_is_recognised_by_its_content_also_gzipped(tmp_path: Path, name: str) -> None:
    trace = read(samples.swf(tmp_path / name))
    assert (trace.format.name, trace.header["MaxProcs"], trace.faulty.height) == ("swf", "100", 0)
    assert rows(trace, "line", "submit_ns", "duration_ns", "processors", "wait_ns", "user") == [
        (5, 0, 60 * S, 4, 10 * S, "7"), (6, 10 * S, 60 * S, 1, 10 * S, "7"), (7, 10 * S, 0, 4, 10 * S, "7"),
        (8, 60 * S, 60 * S, 4, 10 * S, "8"),
    ]  # fmt: skip
    assert trace.starts_at == (843480031 + 100) * S


def test_minus_one_is_unknown_in_swf_and_requested_stands_for_allocated(tmp_path: Path) -> None:
    lines = ["1 0 -1 -1 -1 -1 -1 8 -1 2048 -1 -1 -1 -1 -1 -1 -1 -1\n"]
    trace = read(samples.swf(tmp_path / "t.swf", lines))
    [row] = trace.jobs.rows(named=True)
    assert (row["processors"], row["memory_bytes"]) == (8, 2048 * 1024)
    assert [
        name for name in ("wait_ns", "duration_ns", "user", "queue", "after", "think_ns") if row[name] is not None
    ] == []


def test_openb_pods_have_cores_memory_fractions_of_a_gpu_and_waits(tmp_path: Path) -> None:
    trace = read(samples.openb(tmp_path / "pods.csv"))
    assert trace.format.name == "openb"
    assert rows(trace, "job", "duration_ns", "wait_ns", "cpu_milli", "gpu_milli", "gpu_model", "class") == [
        ("p-0", 90 * S, 10 * S, 4000, 500, None, "LS"), ("p-1", 60 * S, 0, 8000, 2000, "V100M16|V100M32", "BE"),
        ("p-2", 15 * S, None, 1000, 0, None, "LS"),
    ]  # fmt: skip


def test_philly_has_dates_and_gpus_of_whole_jobs_and_its_empty_row_is_named(tmp_path: Path) -> None:
    trace = read(samples.philly(tmp_path / "philly.csv"))
    assert (trace.format.name, trace.backwards) == ("philly", 1)
    assert rows(trace, "submit_ns", "job_gpus", "queue") == [
        (60 * S, 1, "aaa"), (0, 12, "bbb"), (120 * S, 2, "aaa"),
    ]  # fmt: skip
    assert trace.faults() == ["1 line left out: no submit time (line 5)"]


def test_a_table_of_any_layout_has_units_zones_and_separators(tmp_path: Path) -> None:
    trace = read(samples.table(tmp_path / "t.csv"), columns=samples.TABLE_COLUMNS)
    assert rows(trace, "submit_ns", "duration_ns", "cpu_milli", "memory_bytes", "gpu_milli", "user") == [
        (0, 1_500_000_000, 500, 512 << 20, 0, "ann"), (10 * S, 2 * S, 2000, 1024 << 20, 500, "bob"),
        (20 * S, 60 * S, 1000, 256 << 20, 2000, "ann"),
    ]  # fmt: skip


def test_a_table_with_our_names_needs_no_mapping(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("submit,start,end,cpu\n0,5,10,2\n1,1,2,\n")
    assert rows(read(tmp_path / "t.csv"), "wait_ns", "duration_ns", "cpu_milli") == [(5 * S, 5 * S, 2000), (0, S, None)]


def test_a_slurm_job_is_a_pod_per_node_and_its_steps_are_no_jobs(tmp_path: Path) -> None:
    trace = read(samples.sacct(tmp_path / "jobs.txt", "105|bob|ch\n"))
    assert (trace.format.name, trace.starts_at) == ("sacct", 1709287200 * S)
    assert rows(trace, "job", "submit_ns", "wait_ns", "duration_ns", "pods", "cpu_milli", "memory_bytes", "gpu_milli") == [
        ("101", 0, 300 * S, 3600 * S, 2, 4000, 16 << 30, 2000),
        ("102_3", 7200 * S, 43200 * S, 93610 * S, 1, 16000, 64000 << 20, None),  # due when it was eligible
        ("103", 120 * S, None, 0, 1, 4000, 4000 << 20, None), ("104", 150 * S, 0, None, 1, 4000, 8 << 30, None),
    ]  # fmt: skip
    assert rows(trace, "user", "group", "partition", "class", "gpu_model", "outcome") == [
        ("ann", "phys", "batch", "normal", "a100", "completed"), ("bob", "chem", "batch", "high", None, "failed"),
        ("bob", "chem", "debug", "high", None, "cancelled"), ("bob", "chem", "debug", "high", None, None),
    ]  # fmt: skip
    assert trace.faults() == ["1 line left out: cut off or mixed up (line 7)"]


def test_gpus_that_slurm_accounts_for_by_type_only_are_gpus(tmp_path: Path) -> None:
    path = samples.sacct(tmp_path / "jobs.txt")
    path.write_text(path.read_text().replace("gres/gpu:a100=4,gres/gpu=4,", "gres/gpu:a100=3,gres/gpu:v100=1,"))
    assert rows(read(path), "gpu_milli", "gpu_model")[0] == (2000, "a100")


def test_simkubes_objects_are_jobs_with_the_times_of_their_pods(tmp_path: Path) -> None:
    trace = read(samples.sktrace(tmp_path / "t.sktrace"))
    assert (trace.format.name, trace.starts_at) == ("sktrace", 1_700_000_000 * S)
    seconds = [pl.col(name) // S for name in ("submit_ns", "wait_ns", "duration_ns")]
    found = (
        trace.jobs.sort("submit_ns", "job").select("job", *seconds, "pods", "cpu_milli", "gpu_milli", "queue").rows()
    )
    assert found == [
        ("red/train", 0, 5, 60, 2, 500, 4000, "gold"), ("red/web", 0, None, 100, 1, 1000, None, "red"),
        ("red/lone", 10, None, 20, 1, 1000, None, "red"), ("red/web", 10, None, 20, 3, 1000, None, "red"),
        ("red/gang", 20, 2, 26, 2, 3000, None, "red"), ("red/tick", 21, None, 3, 1, 1000, None, "red"),
        ("red/tick", 81, None, None, 1, 1000, None, "red"),
    ]  # fmt: skip
    assert trace.remarks == ("objects of kind v1.ConfigMap left out: no pod template is known of it",)


def test_another_version_of_simkubes_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceProblem, match="is of version 3 of SimKube's format") as caught:
        read(samples.sktrace(tmp_path / "t.sktrace", version=3))
    assert "reads version 2" in caught.value.remedy


def test_our_own_parquet_comes_back_as_it_was_written(tmp_path: Path) -> None:
    first = read(samples.openb(tmp_path / "pods.csv"))
    own_format.write(first.jobs, tmp_path / "t.parquet", 1_700_000_000 * S, {"source": "test"})
    again = read(tmp_path / "t.parquet")
    assert (again.format.name, again.starts_at) == ("seatrial", 1_700_000_000 * S)
    assert again.jobs.drop("line").equals(first.jobs.drop("line"))


def test_a_parquet_table_is_mapped_like_a_csv(tmp_path: Path) -> None:
    frame = pl.DataFrame({"at": [1.5, 3.0], "took": [10, 20], "name": ["a", "b"]})
    frame.with_columns(pl.from_epoch("at", time_unit="s").alias("date")).write_parquet(tmp_path / "t.parquet")
    columns: Columns = {"submit": ("date", ""), "duration": ("took", "m"), "user": ("name", "")}
    assert rows(read(tmp_path / "t.parquet", columns=columns), "duration_ns", "user") == [
        (600 * S, "a"),
        (1200 * S, "b"),
    ]


def test_unusable_lines_are_counted_and_named_and_strict_refuses_them(tmp_path: Path) -> None:
    good = samples.swf_line(1, 100)
    lines = [
        good,
        "2 110 10 60\n",
        samples.swf_line(3, 120, run=-5),
        samples.swf_line(4, 130)[:-1] + samples.swf_line(5, 140),
    ]
    path = samples.swf(tmp_path / "t.swf", lines)
    trace = read(path)
    assert trace.jobs.height == 1
    assert trace.faults() == [
        "2 lines left out: cut off or mixed up (lines 6, 8)", "1 line left out: negative duration (line 7)"
    ]  # fmt: skip
    with pytest.raises(TraceProblem, match=r"t\.swf:6: cut off or mixed up, and 2 more such lines"):
        read(path, strict=True)


def test_values_that_are_no_numbers_and_lines_that_are_too_long_are_faults(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("submit,duration,cpu\n0,1,1\n1,soon,1\n2,3,4,5,6\n,1,1\n4,1\n")
    trace = read(tmp_path / "t.csv")
    assert trace.jobs["line"].to_list() == [2, 6]
    assert trace.faults() == [
        "2 lines left out: cut off or mixed up (lines 3, 4)",
        "1 line left out: no submit time (line 5)",
    ]


def test_negative_amounts_and_times_of_submission_are_faults(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("submit,duration,cpu,gpus,memory\n0,1,1,0,0\n1,1,-2,0,0\n2,1,-1,-0.5,0\n3,1,,,-8\n")
    assert read(tmp_path / "t.csv").faults() == ["3 lines left out: negative amount (lines 3, 4, 5)"]
    early = samples.swf(
        tmp_path / "t.swf", [samples.swf_line(1, 100), samples.swf_line(2, -1), samples.swf_line(3, -5)]
    )
    assert read(early).faults() == ["2 lines left out: no submit time (lines 6, 7)"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("JobID|Submit|State\n1|2024-03-01T10:00:00|COMPLETED\n", "has no column 'Elapsed'"),
        ("; MaxProcs: 3\n", "has no jobs"),
        ("submit,duration\n", "has no jobs"),
        ("who,when\nann,1\n", "table of an unknown layout, with the columns who, when"),
        ("what is this\n", "in no known format"),
        ("submit,cpu\n1,2\n", "says how long a job ran"),
        ("submit,submit,duration\n1,2,3\n", "two columns called 'submit'"),
    ],
)
def test_what_is_no_trace_says_so(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(TraceProblem, match=said) as caught:
        read(tmp_path / "t")
    assert caught.value.remedy


def test_a_damaged_archive_or_parquet_file_is_a_sentence(tmp_path: Path) -> None:
    packed = samples.swf(tmp_path / "t.swf.gz").read_bytes()
    (tmp_path / "half.swf.gz").write_bytes(packed[:-20])
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and no more")
    for name in ("half.swf.gz", "half.parquet"):
        with pytest.raises(TraceProblem, match=r"is damaged|no known format|cannot be read"):
            read(tmp_path / name)


def test_a_mapping_to_a_column_that_is_not_there_knows_those_that_are(tmp_path: Path) -> None:
    columns = {**samples.TABLE_COLUMNS, "duration": ("runtime", "ms")}
    with pytest.raises(TraceProblem, match="no column 'runtime'") as caught:
        read(samples.table(tmp_path / "t.csv"), columns=columns)
    assert (caught.value.option, "runtime_ms" in caught.value.known) == ("columns.duration", True)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = samples.swf(tmp_path / "t.swf")
    collect = pl.LazyFrame.collect

    def grows(frame: pl.LazyFrame, *args: object, **named: object) -> object:
        with path.open("a") as file:
            file.write(samples.swf_line(9, 500))
        os.utime(path, ns=(1, 1))
        return collect(frame, *args, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(pl.LazyFrame, "collect", grows)
    with pytest.raises(TraceProblem, match="changed while it was read"):
        read(path)
