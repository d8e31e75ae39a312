"""`inspect`: what a trace would need of a fleet, when its jobs come, and which of them can never run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.plan import NodeGroup
from seatrial.traces.arrivals import arrange
from seatrial.traces.inspecting import Inspection, inspect
from seatrial.traces.options import GPU, GPU_MODEL, IN_MILLI, TraceOptions
from seatrial.traces.reading import read
from seatrial.traces.selecting import select
from tests.traces import samples

GIB = 1 << 30


def nodes(count: int, cpu: int, gpus: int = 0, model: str = "", name: str = "node") -> NodeGroup:
    capacity = {"cpu": cpu * 1000, "memory": 64 * GIB, "pods": 110, **({GPU: gpus} if gpus else {})}
    return NodeGroup(name, count, capacity, {GPU_MODEL: model} if model else {})


def looked_at(path: Path, *fleet: NodeGroup, options: TraceOptions = TraceOptions()) -> Inspection:  # noqa: B008
    trace = read(path, options.format)
    return inspect(trace, arrange(trace, select(trace, options), options), fleet)


def test_demand_counts_every_job_from_its_submission_to_its_end(tmp_path: Path) -> None:
    # 100–160 s: 4 processors; 110–170: 1; 110: none; 160–220: 4, when the first have just left
    [cpu] = looked_at(samples.swf(tmp_path / "t.swf"), nodes(2, 2)).demands
    assert (cpu.peak, cpu.peak_at_ns, cpu.fleet) == (5000, 10 * 10**9, 4000)
    assert cpu.mean == pytest.approx((10 * 4000 + 50 * 5000) / 60)
    assert round(cpu.beyond, 3) == round(50 / 60, 3), "5 processors are wanted and 4 there"


def test_jobs_that_can_never_run_are_named_with_their_line(tmp_path: Path) -> None:
    path = samples.swf(tmp_path / "t.swf", [samples.swf_line(1, 0), samples.swf_line(2, 5, processors=9)])
    [too_large] = looked_at(path, nodes(2, 4)).misfits
    assert (too_large.jobs, too_large.job, too_large.line) == (1, "2", 6)
    assert not looked_at(path, nodes(3, 3)).misfits
    [nowhere] = looked_at(samples.openb(tmp_path / "pods.csv"), nodes(9, 6, gpus=2)).misfits
    assert ("fits no node" in nowhere.why, nowhere.job) == (True, "p-1"), "it wants 8 cores"


def test_a_pod_that_asks_for_a_model_fits_only_nodes_that_have_it(tmp_path: Path) -> None:
    path = samples.openb(tmp_path / "pods.csv")
    assert [one.job for one in looked_at(path, nodes(9, 64, gpus=8, model="T4")).misfits] == ["p-1"]
    assert not looked_at(path, nodes(9, 64, gpus=8, model="V100M16")).misfits
    assert not looked_at(path, nodes(9, 64, gpus=8)).misfits, "no node has a model: a replay leaves them out"


def test_the_week_begins_on_monday_where_the_date_is_known_and_with_the_trace_where_not(tmp_path: Path) -> None:
    dated = looked_at(samples.philly(tmp_path / "p.csv"))
    assert (dated.dated, np.flatnonzero(dated.week).tolist()) == (True, [7]), "2017-10-09 is a Monday, 07:00"
    plain = looked_at(samples.openb(tmp_path / "pods.csv"))
    assert (plain.dated, plain.week[0], plain.week.sum()) == (False, 3, 3)


def test_what_is_shown_is_what_a_replay_would_submit(tmp_path: Path) -> None:
    found = looked_at(samples.openb(tmp_path / "pods.csv"))
    assert any("1 job asking for a fraction of a GPU: rounded up" in note for note in found.arrivals.notes)
    [gpus] = [one for one in found.demands if one.resource == GPU]
    assert gpus.peak == 3
    halves = looked_at(samples.openb(tmp_path / "pods.csv"), options=TraceOptions(fractions=IN_MILLI))
    assert [one.peak for one in halves.demands if "gpu" in one.resource] == [2500]


JOBS = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 400), st.integers(1, 30)), min_size=1, max_size=40)


@given(jobs=JOBS)
def test_the_peak_of_the_demand_is_that_of_a_count_second_by_second(
    jobs: list[tuple[int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = [samples.swf_line(n, at, run=run + 1, processors=size) for n, (at, run, size) in enumerate(jobs, 1)]
    [cpu] = looked_at(samples.swf(tmp_path_factory.mktemp("t") / "t.swf", lines)).demands
    begin = min(at for at, _, _ in jobs)
    there = [sum(size for at, run, size in jobs if at <= s < at + run + 1) for s in range(begin, begin + 1000)]
    assert cpu.peak == max(there) * 1000
    assert cpu.highest.max() == cpu.peak, "the curve shows it, however long the trace"
    last = max(at for at, _, _ in jobs) - begin
    if last:
        assert abs(cpu.mean - 1000 * sum(there[:last]) / last) < 1e-3 * max(cpu.mean, 1)
