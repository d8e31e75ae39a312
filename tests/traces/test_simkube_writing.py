"""What is written as SimKube's .sktrace reads as the same jobs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.traces.arrivals import Arrivals, arrivals
from seatrial.traces.options import TraceOptions
from seatrial.traces.problem import TraceProblem
from seatrial.traces.reading import fingerprint, read
from seatrial.traces.simkube_writing import write_sktrace
from tests.traces import samples

JOBS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 64), st.integers(0, 10**5)),
    min_size=1,
    max_size=30,
)


def there_and_back(of: Arrivals, path: Path) -> Arrivals:
    write_sktrace(of, 1_700_000_000 * 10**9, path)
    assert fingerprint(path)[0] > 0
    return arrivals(path, TraceOptions())


@given(jobs=JOBS)
def test_arrivals_sizes_waits_and_durations_survive(jobs: list[tuple[int, int, int, int]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        lines = [
            samples.swf_line(n, at, run=run, processors=size, wait=wait)
            for n, (at, run, size, wait) in enumerate(jobs, 1)
        ]
        of = arrivals(samples.swf(Path(folder) / "t.swf", lines), TraceOptions())
        back = there_and_back(of, Path(folder) / "t.sktrace")
    for one, other in (
        (of.due, back.due),
        (of.pods, back.pods),
        (of.waits, back.waits),
        (of.durations, back.durations),
    ):
        assert np.array_equal(one, other)
    cpus = [[arrived.asked[place].cpu_milli for place in arrived.shape.tolist()] for arrived in (of, back)]
    assert cpus[0] == cpus[1]


def test_what_the_format_cannot_hold_is_said(tmp_path: Path) -> None:
    lines = [samples.swf_line(1, 0, wait=-1), samples.swf_line(2, 5)]
    of = arrivals(samples.swf(tmp_path / "t.swf", lines), TraceOptions())
    notes = write_sktrace(of, None, tmp_path / "t.sktrace")
    assert any("1 jobs without a wait" in note for note in notes)
    assert any("users are not in the format" in note for note in notes)
    trace = msgspec.msgpack.decode((tmp_path / "t.sktrace").read_bytes())
    assert list(trace) == ["version", "config", "events", "index", "pod_lifecycles"]
    assert trace["version"] == 2
    [first, second] = trace["events"]
    assert (first["ts"], second["ts"], first["deleted_objs"]) == (0, 5, [])


def test_gpus_models_and_queues_are_written(tmp_path: Path) -> None:
    of = arrivals(samples.philly(tmp_path / "p.csv"), TraceOptions())
    back = there_and_back(of, tmp_path / "p.sktrace")
    assert [back.asked[place].gpus for place in back.shape] == [of.asked[place].gpus for place in of.shape]
    assert back.jobs["queue"].to_list() == of.jobs["queue"].to_list()


def test_a_binary_file_with_a_carriage_return_in_its_first_line_is_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(b"\x84\xa7abc\rdef\n" * 3)
    with pytest.raises(TraceProblem, match="known format"):
        read(path)
