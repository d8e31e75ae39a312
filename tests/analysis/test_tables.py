import csv
import json
import time
from pathlib import Path

import pytest

from seatrial.analysis import tables
from seatrial.analysis.studies import Study
from seatrial.analysis.tables import write_tables
from seatrial.model.lifecycle import ADMITTED, PLAIN, QUEUED, Stage
from tests.analysis.making import Job, Made, plain, write_many, write_study
from tests.effort import LINEAR, costs_at_most

DESIGN_SUMMARY = [
    "nodes",
    "workloads",
    "pods",
    "submitted",
    "completed",
    "outcome",
    "total_s",
    "rate_per_s",
    "dispatch_per_s",
    "p50_s",
    "p95_s",
    "p99_s",
    "cpu_util",
    "gpu_util",
    "held_idle_s",
    "valid",
]
DESIGN_TIMES = [
    "trial",
    "workload",
    "setup",
    "stack",
    "size",
    "submitted_s",
    "created_s",
    "queued_s",
    "admitted_s",
    "pods_created_s",
    "scheduled_s",
    "running_s",
    "finished_s",
    "completed_s",
    "turnaround_s",
    "run_s",
]
RESERVED = Stage("reserved", "workload", "a place is kept")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def header(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return next(csv.reader(file))


def two_stacks(out: Path) -> Path:
    job = plain(1000)
    job.at = {**job.at, "queued": 1011, "reserved": 1014, "admitted": 1015, "completed": 13_030}
    stages = (*PLAIN[:2], QUEUED, RESERVED, ADMITTED, *PLAIN[2:])
    with_queue = Made([job], setup="queue", stack="kueue", number=2, stages=stages, params={"jobs": 1, "fair": True})
    return write_study(out, [Made([plain(0), plain(250)], params={"jobs": 2}), with_queue])


def test_the_tables_have_the_columns_of_the_design_in_its_order(tmp_path: Path) -> None:
    write_tables(Study.open(two_stacks(tmp_path)))
    summary = header(tmp_path / "summary.csv")
    assert summary[:8] == ["scenario", "on", "setup", "stack", "repeat", "seed", "jobs", "fair"]
    assert summary[8 : 8 + len(DESIGN_SUMMARY)] == DESIGN_SUMMARY
    assert len(summary) == len(set(summary))
    times = header(tmp_path / "times.csv")
    assert [name for name in times if name in DESIGN_TIMES] == DESIGN_TIMES
    assert {"first_running_s", "released_s", "failed_s", "deleted_s", "phase"} <= set(times)


def test_trials_with_different_stages_share_one_header_and_lack_is_empty(tmp_path: Path) -> None:
    write_tables(Study.open(two_stacks(tmp_path)))
    times = header(tmp_path / "times.csv")
    assert times.index("queued_s") < times.index("reserved_s") < times.index("admitted_s")
    first, second, third = rows(tmp_path / "times.csv")
    assert first["queued_s"] == first["reserved_s"] == first["admitted_delta_s"] == ""
    assert (second["submitted_s"], second["created_s"]) == ("0.250000", "0.260000")
    assert (third["submitted_s"], third["reserved_delta_s"]) == ("0.000000", "0.003000")
    assert rows(tmp_path / "summary.csv")[1]["fair"] == "true"
    assert rows(tmp_path / "summary.csv")[0]["fair"] == ""


def test_a_delta_is_to_the_stage_before_that_the_workload_has(tmp_path: Path) -> None:
    unseen = Job({"submitted": 0, "completed": 90}, [{"scheduled": 30, "running": 70}])
    write_tables(Study.open(write_study(tmp_path, [Made([unseen])])))
    (row,) = rows(tmp_path / "times.csv")
    assert row["scheduled_delta_s"] == "0.030000"
    assert row["completed_delta_s"] == "0.020000"
    assert row["created_delta_s"] == row["finished_delta_s"] == row["run_s"] == ""


def test_pods_csv_says_where_each_pod_ran_and_how_long_its_container_took_to_start(tmp_path: Path) -> None:
    job = plain(500, pods=2)
    job.nodes = [1, 0]
    write_tables(Study.open(write_study(tmp_path, [Made([job])])))
    first, second = rows(tmp_path / "pods.csv")
    assert header(tmp_path / "pods.csv") == [
        "trial", "workload", "pod", "node",
        "created_s", "bound_s", "started_s", "finished_s", "time_to_start_s", "lost_s",
    ]  # fmt: skip
    assert (first["workload"], first["pod"], first["node"]) == ("short-0", "short-0-0", "fake-1")
    assert (second["node"], second["bound_s"], second["time_to_start_s"]) == ("fake-0", "0.030000", "1.000000")


def test_names_from_a_cluster_are_quoted(tmp_path: Path) -> None:
    name = 'a,"b"\nc'
    write_tables(Study.open(write_study(tmp_path, [Made([plain(name=name)])])))
    assert rows(tmp_path / "times.csv")[0]["workload"] == name


def test_the_same_trials_give_the_same_bytes(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in write_tables(Study.open(two_stacks(tmp_path / "a")))}
    again = {path.name: path.read_bytes() for path in write_tables(Study.open(two_stacks(tmp_path / "b")))}
    assert first == again


def test_a_table_that_cannot_be_made_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tables(Study.open(two_stacks(tmp_path)))
    before = (tmp_path / "summary.csv").read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(tables, "summary_frame", full)
    with pytest.raises(OSError, match="no space"):
        write_tables(Study.open(tmp_path))
    assert (tmp_path / "summary.csv").read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


def test_rows_read_back_from_summary_csv_are_those_that_were_worked_out(tmp_path: Path) -> None:
    fresh = Study.open(two_stacks(tmp_path)).rows
    write_tables(Study.open(tmp_path))
    again = Study.open(tmp_path).rows
    assert [row["total_s"] for row in again] == pytest.approx([row["total_s"] for row in fresh])
    for name in ("outcome", "completed", "valid", "trial", "gpu_util"):
        assert [row[name] for row in again] == [row[name] for row in fresh]


def test_a_summary_older_than_its_trials_is_not_believed(tmp_path: Path) -> None:
    write_tables(Study.open(two_stacks(tmp_path)))
    trial = next((tmp_path / "trials").iterdir()) / "trial.json"
    time.sleep(0.01)
    trial.write_text(json.dumps(json.loads(trial.read_text()) | {"outcome": "timeout"}))
    assert "timeout" in [row["outcome"] for row in Study.open(tmp_path).rows]


@pytest.mark.slow
@pytest.mark.parametrize(("jobs", "pods"), [(100_000, 1), (10_000, 10)])
def test_the_cost_of_a_hundred_thousand_pods_is_in_proportion(tmp_path: Path, jobs: int, pods: int) -> None:
    """0.4 s on a quiet core."""

    def study(jobs: int) -> Path:
        out = write_study(tmp_path / str(jobs), [], planned=["001-kwok-r0"])
        write_many(out / "trials" / "001-kwok-r0", jobs, pods)
        return out

    few, many = study(jobs // 10), study(jobs)
    costs_at_most(LINEAR, lambda: write_tables(Study.open(few)), lambda: write_tables(Study.open(many)))
    assert rows(many / "summary.csv")[0]["completed"] == str(jobs)


def test_pods_name_their_flavor_where_quotas_are_of_flavors(tmp_path: Path) -> None:
    flavored = {
        "fleet": {"queues": [], "flavors": [{"name": "a100", "nodes": "fake"}, {"name": "h100", "nodes": "other"}]}
    }
    out = write_study(tmp_path / "both", [Made([plain()], also=flavored), Made([plain()], setup="without", number=2)])
    write_tables(Study.open(out))
    assert [row["flavor"] for row in rows(out / "pods.csv")] == ["a100", ""]
    out = write_study(tmp_path / "none", [Made([plain()])])
    write_tables(Study.open(out))
    assert "flavor" not in header(out / "pods.csv")
