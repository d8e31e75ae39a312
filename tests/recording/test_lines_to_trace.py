"""Whenever a recorder is killed and started again: nothing that any of its processes could see is lost, nothing is there twice."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.model.units import MILLISECOND, SECOND
from seatrial.record import recordings
from seatrial.record.recorded_trace import trace_of
from seatrial.traces import own_format
from seatrial.traces.options import TraceOptions
from seatrial.traces.reading import read
from seatrial.traces.selecting import select
from tests.recording.cluster_history import OneJob, watch

END = 60_000  # ms
_jobs = st.lists(
    st.builds(
        OneJob, name=st.just(""), submit=st.integers(0, 40_000), wait=st.integers(1, 5_000), run=st.integers(1, 15_000),
        kept=st.integers(1, 20_000), pods=st.integers(1, 3), succeeds=st.booleans(), starting=st.integers(0, 900),
    ),
    min_size=1, max_size=8,
).map(lambda jobs: [OneJob(f"j{n}", *list(vars(job).values())[1:]) for n, job in enumerate(jobs)])  # fmt: skip
_breaks = st.lists(st.tuples(st.integers(1, END - 1), st.integers(1, 8_000)), max_size=4)


def spans_of(breaks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in which a process watched."""
    spans, at = [], 0
    for down, lasting in sorted(breaks):
        if down > at:
            spans.append((at, down))
            at = down + lasting
    return [*spans, (at, END)] if at < END else spans


def recorded(
    directory: Path, jobs: list[OneJob], spans: list[tuple[int, int]], torn: int = 0
) -> dict[str, dict[str, Any]]:
    """The trace of these processes. `torn`: bytes that the death of each took from its last line, which is then half a line."""
    well = 0
    for since, until in spans:
        watch(directory, jobs, since, until, well=well)
        well = until
        for path in recordings.journals(directory)[-1:]:
            data = path.read_bytes()
            last = len(data) - data[:-1].rfind(b"\n") - 1
            path.write_bytes(data[: len(data) - min(torn, last)])
    rows = trace_of(recordings.read_lines(directory)[0]).to_dicts()
    assert len({row["job"] for row in rows}) == len(rows), "nothing twice"
    return {row["job"].removeprefix("team/"): row for row in rows}


@given(_jobs, _breaks, st.integers(0, 200))
def test_nothing_is_lost_and_nothing_is_there_twice_however_often_it_is_killed(
    jobs: list[OneJob], breaks: list[tuple[int, int]], torn: int
) -> None:
    spans = spans_of(breaks)
    with tempfile.TemporaryDirectory() as folder:
        found = recorded(Path(folder), jobs, spans, torn)
    for job in jobs:
        seen = [(since, until) for since, until in spans if job.submit < until and job.deleted > since]
        if not torn:
            assert (job.name in found) == bool(seen)
            if seen:
                check(job, found[job.name], spans)
        elif job.submit < spans[-1][0] < spans[-1][1] == END < job.deleted:
            assert job.name in found, "what a crash of the machine tore is found again while it exists"


def check(job: OneJob, row: dict[str, Any], spans: list[tuple[int, int]]) -> None:
    assert (row["pods"], row["cpu_milli"], row["memory_bytes"], row["gpu_milli"]) == (job.pods, 500, 2**30, 2000)
    assert abs(row["submit_ns"] - job.submit * MILLISECOND) <= SECOND
    over = any(job.ended < until and job.deleted > since for since, until in spans)
    if not over:
        assert (row["duration_ns"], row["outcome"]) == (None, None), "nobody saw it end"
        assert row["censored"] in ("after", "gap")
    else:
        assert abs(row["duration_ns"] - job.run * MILLISECOND) <= SECOND + 50 * MILLISECOND
        assert row["outcome"] == ("completed" if job.succeeds else "failed")


@given(_jobs, _breaks)
def test_what_is_watched_from_beginning_to_end_is_exact(jobs: list[OneJob], breaks: list[tuple[int, int]]) -> None:
    spans = spans_of(breaks)
    with tempfile.TemporaryDirectory() as folder:
        found = recorded(Path(folder), jobs, spans)
    for job in jobs:
        if any(since < job.submit and job.ended < until for since, until in spans):
            row = found[job.name]
            exact = tuple(ms * MILLISECOND for ms in (job.submit, job.wait, job.run))
            assert (row["submit_ns"], row["wait_ns"], row["duration_ns"]) == exact
            assert row["censored"] is None


@settings(max_examples=30)
@given(_jobs, st.data())
def test_of_a_journal_that_ends_at_any_byte_all_whole_lines_are_read(jobs: list[OneJob], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        watch(directory, jobs, 0, END)
        [path] = recordings.journals(directory)
        whole = path.read_bytes()
        lines, _ = recordings.read_lines(directory)
        cut = data.draw(st.integers(0, len(whole)))
        path.write_bytes(whole[:cut])
        rest, notes = recordings.read_lines(directory)
    assert rest == lines[: whole[:cut].count(b"\n")]
    assert not notes


@given(_jobs, st.permutations(range(3)))
def test_relists_merge_into_the_same_trace_in_any_order(jobs: list[OneJob], order: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        watch(directory, jobs, 0, END)
        once, _ = recordings.read_lines(directory)
        for number, since in enumerate((10_000, 20_000)):
            other = directory / str(number)
            other.mkdir()
            watch(other, jobs, since, END)
        parts = [once, *(recordings.read_lines(directory / str(number))[0] for number in range(2))]
    mixed = [line for place in order for line in parts[place]]
    assert trace_of(mixed).sort("job").equals(trace_of(once).sort("job"))


def test_what_was_there_before_and_what_has_not_ended_are_marked_and_replayed_only_if_asked(tmp_path: Path) -> None:
    jobs = [
        OneJob("early", -5_000, 1_000, 9_000, 60_000), OneJob("waited", -5_000, 6_000, 9_000, 60_000),
        OneJob("seen", 1_000, 500, 2_000, 60_000), OneJob("late", 50_000, 1_000, 20_000, 60_000),
    ]  # fmt: skip
    watch(tmp_path, jobs, 0, END)
    trace = trace_of(recordings.read_lines(tmp_path)[0])
    rows = {row["job"].removeprefix("team/"): row for row in trace.to_dicts()}
    assert {name: row["censored"] for name, row in rows.items()} == {
        "early": "before", "waited": "before", "seen": None, "late": "after",
    }  # fmt: skip
    assert (rows["early"]["submit_ns"], rows["early"]["wait_ns"], rows["early"]["duration_ns"]) == (0, None, None)
    assert (rows["waited"]["submit_ns"], rows["waited"]["duration_ns"]) == (0, 9 * SECOND), "all of its run was seen"
    assert (rows["late"]["wait_ns"], rows["late"]["duration_ns"], rows["late"]["outcome"]) == (SECOND, None, None)
    path = tmp_path / "trace.parquet"
    own_format.write(trace, path, 0)
    selected = select(read(path), TraceOptions())
    assert selected.jobs["job"].to_list() == ["team/waited", "team/seen"]
    assert [note for note in selected.notes if "duration unknown" in note]
    assert select(read(path), TraceOptions(unknown_duration=SECOND)).jobs.height == 4


def test_names_are_hashed_before_anything_is_written_and_the_same_name_stays_the_same(tmp_path: Path) -> None:
    jobs = [OneJob("secret-project", 1_000, 500, 2_000, 9_000), OneJob("other", 2_000, 500, 2_000, 9_000)]
    watch(tmp_path, jobs, 0, END, salt=b"salt")
    [path] = recordings.journals(tmp_path)
    for name in (b"secret", b"team", b"other"):
        assert name not in path.read_bytes()
    trace = trace_of(recordings.read_lines(tmp_path)[0])
    assert trace["group"].n_unique() == 1
    assert trace["job"].n_unique() == 2
    assert trace["class"].unique().to_list() == ["small"], "the user chose the label of the class"
    assert pl.Series(trace["user"]).str.starts_with("user-").all()
