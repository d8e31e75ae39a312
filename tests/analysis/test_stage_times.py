import json
import tempfile
from pathlib import Path

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.analysis.stage_times import Lifecycle, lifecycle, order_of
from seatrial.analysis.tables import times_parts
from seatrial.analysis.trial_figures import figures_of
from seatrial.model.lifecycle import PLAIN, SCHEDULED, Stage
from seatrial.record.segments import RECORD
from seatrial.record.trial_record import TrialRecord
from tests.analysis.making import MS, Job, Made, plain, write_trial

POD_STAGES = ("pods_created", "scheduled", "running", "finished")


def seen(directory: Path, made: Made) -> Lifecycle:
    return lifecycle(TrialRecord.open(write_trial(directory, made)))


def pod(*at: int) -> dict[str, int]:
    return dict(zip(POD_STAGES, at, strict=False))


def test_a_workload_reaches_a_pod_stage_when_its_last_pod_does(tmp_path: Path) -> None:
    job = Job({"submitted": 0, "created": 1}, [pod(2, 10, 20), pod(3, 15, 18), pod(4, 12, 90)])
    row = seen(tmp_path, Made([job])).workloads.row(0, named=True)
    assert [row[stage] for stage in POD_STAGES] == [4 * MS, 15 * MS, 90 * MS, None]
    assert row["first_running"] == 18 * MS


def test_a_pod_that_is_missing_leaves_the_stage_empty(tmp_path: Path) -> None:
    half = Job({"submitted": 0}, [pod(2, 10, 20)], size=2)
    table = seen(tmp_path, Made([half, plain(5)])).workloads
    assert table["running"].to_list() == [None, 1035 * MS]
    assert table["first_running"].to_list() == [20 * MS, 1035 * MS]


def test_a_lost_pod_counts_for_nothing_and_the_one_in_its_place_counts(tmp_path: Path) -> None:
    lost = {**pod(1, 2, 3), "lost": 4}
    row = seen(tmp_path, Made([Job({"submitted": 0}, [pod(1, 2, 3, 9), lost, pod(5, 6, 7, 12)], size=2)]))
    assert [row.workloads[stage][0] for stage in POD_STAGES] == [5 * MS, 6 * MS, 7 * MS, 12 * MS]
    assert "lost" not in row.workloads.columns
    assert row.pods["lost"].to_list() == [None, 4 * MS, None]


def test_a_lost_pod_that_nobody_replaced_leaves_the_stage_empty(tmp_path: Path) -> None:
    table = seen(tmp_path, Made([Job({"submitted": 0}, [{**pod(1, 2, 3), "lost": 4}])])).workloads
    assert table["running"].to_list() == table["first_running"].to_list() == [None]


def test_a_retry_does_not_move_a_stage_behind_the_next_one(tmp_path: Path) -> None:
    failed_and_tried_again = Job({"submitted": 0}, [pod(1, 2, 3), pod(1, 2, 3, 9), pod(5, 6, 7, 12)], size=2)
    row = seen(tmp_path, Made([failed_and_tried_again])).workloads.row(0, named=True)
    assert row["running"] == 3 * MS
    assert row["finished"] == 12 * MS


def test_segments_of_a_killed_run_read_like_the_sealed_table(tmp_path: Path) -> None:
    jobs = [plain(n * 7, pods=2) for n in range(5)]
    sealed = seen(tmp_path / "sealed", Made(jobs))
    torn = seen(tmp_path / "killed", Made(jobs, sealed=False))
    assert sealed.workloads.equals(torn.workloads)
    assert sealed.pods.equals(torn.pods)


def test_of_several_sources_the_smallest_error_wins_then_the_earliest(tmp_path: Path) -> None:
    made = Made([plain(0), plain(0)], sealed=False)
    trial = write_trial(tmp_path, made)
    sources = [
        {"name": "watch", "error_ns": 5 * MS},
        {"name": "audit", "error_ns": 1},
        {"name": "poll", "error_ns": 9 * MS},
    ]
    document = json.loads((trial / "trial.json").read_text()) | {"sources": sources}
    (trial / "trial.json").write_text(json.dumps(document))
    created = [stage.name for stage in PLAIN].index("created")
    with (trial / "observed-other.seg").open("wb") as file:
        for at, workload, source in ((12, 0, 1), (11, 0, 1), (13, 0, 1), (4, 0, 2), (9, 1, 0), (3, 1, 7)):
            file.write(RECORD.pack(at * MS, workload, created, source, -1, 0))
    assert lifecycle(TrialRecord.open(trial)).workloads["created"].to_list() == [11 * MS, 9 * MS]


def test_pods_know_the_node_they_were_bound_to(tmp_path: Path) -> None:
    job = Job({"submitted": 0}, [pod(1, 2, 3), pod(1, 2), pod(1)], nodes=[1, 0, 0])
    assert seen(tmp_path, Made([job])).pods["node"].to_list() == [1, 0, None]


def test_observations_of_a_workload_whose_line_was_lost_are_left_out(tmp_path: Path) -> None:
    trial = write_trial(tmp_path, Made([plain(0), plain(5)], sealed=False))
    lines = (trial / "submitted.jsonl").read_text().splitlines(keepends=True)
    (trial / "submitted.jsonl").write_text(lines[0] + lines[1][:9])
    table = lifecycle(TrialRecord.open(trial))
    assert table.workloads["workload"].to_list() == ["short-0"]
    assert "torn" in table.notes[0]


def test_nothing_submitted_is_an_empty_table(tmp_path: Path) -> None:
    table = seen(tmp_path, Made([]))
    assert table.workloads.height == table.pods.height == 0
    assert figures_of(table)["total_s"] is None


def test_a_stack_s_own_stage_stands_where_the_stack_puts_it(tmp_path: Path) -> None:
    reserved = Stage("reserved", "pod", "a place is kept")
    stages = [*PLAIN[:3], reserved, *PLAIN[3:]]
    trial = TrialRecord.open(write_trial(tmp_path, Made([plain()], stages=stages)))
    order = order_of([trial])
    assert order[order.index("reserved") + 1] == SCHEDULED.name


steps = st.lists(st.integers(0, 5000), min_size=4, max_size=4)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Any workload whose stages come in order; it may stop anywhere."""
    submitted = draw(st.integers(0, 20_000))
    created = submitted + draw(st.integers(0, 500))
    pods = []
    for deltas in draw(st.lists(steps, min_size=1, max_size=4)):
        reached = draw(st.integers(0, 4))
        times = [created + sum(deltas[: n + 1]) for n in range(reached)]
        pods.append(pod(*times))
    at = {"submitted": submitted, "created": created}
    if all(len(times) == 4 for times in pods):
        at["completed"] = max(times["finished"] for times in pods) + draw(st.integers(0, 2000))
    return Job(at, pods)


@settings(max_examples=60, deadline=None)
@given(st.lists(jobs(), min_size=1, max_size=12))
def test_what_always_holds(load: list[Job]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        trial = seen(Path(directory), Made(load, end_ms=200_000))
        table = next(iter(times_parts(trial, order_of([trial.trial]))))
        row = figures_of(trial)
    completed = table.drop_nulls("completed_s")
    assert (completed["turnaround_s"] >= 0).all()
    deltas = [name for name in table.columns if name.endswith("_delta_s")]
    off = completed.select((pl.sum_horizontal(deltas) - pl.col("turnaround_s")).abs().max()).item() or 0
    assert off < 1e-6
    assert table.select(pl.min_horizontal(*deltas).min()).item() >= 0
    percentiles = [row["p50_s"], row["p95_s"], row["p99_s"], row["max_s"]]
    assert percentiles == sorted(percentiles, key=lambda value: value or 0)
    counts = [row["completed"], row["failed"], row["deleted"], row["pending"]]
    assert row["submitted"] == sum(counts) == len(load)  # type: ignore[arg-type]
    for number, job in enumerate(load):
        for stage in POD_STAGES:
            times = [times[stage] for times in job.pods if stage in times]
            last = max(times) * MS if len(times) == len(job.pods) else None
            assert trial.workloads[stage][number] == last
