from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.api_load import nearest_rank
from seatrial.analysis.trial_figures import FUNCTIONS, MEMBERS, PARTS, asked_of, figures
from seatrial.model import figures as table
from seatrial.model.doubts import KINDS
from seatrial.model.lifecycle import ADMITTED, PLAIN, QUEUED
from seatrial.record.trial_record import TrialRecord
from tests.analysis.making import MS, NODES, Job, Made, plain, trial_json, write_trial

S = 1000  # milliseconds


def of(directory: Path, *jobs: Job, **also: Any) -> dict[str, Any]:
    return figures(write_trial(directory, Made(jobs, **also)))


def test_total_runs_from_the_first_submission_to_the_last_completion(tmp_path: Path) -> None:
    row = of(tmp_path, plain(500), plain(1500), end_ms=60 * S)
    assert row["total_s"] == pytest.approx(1.0 + 12.03)
    assert row["rate_per_s"] == pytest.approx(2 / 13.03)
    assert row["creation_per_s"] == row["dispatch_per_s"] == pytest.approx(1.0)


def test_a_trial_in_which_not_everything_completed_has_no_total_and_no_rate(tmp_path: Path) -> None:
    stuck = Job({"submitted": 5, "created": 6}, [], size=1)
    row = of(tmp_path, plain(), stuck, outcome="clogged")
    assert (row["total_s"], row["rate_per_s"]) == (None, None)
    assert (row["completed"], row["pending"], row["submitted"]) == (1, 1, 2)
    assert row["p50_s"] == row["p99_s"] == pytest.approx(12.03)


def test_a_trial_stopped_before_all_was_submitted_has_no_total(tmp_path: Path) -> None:
    phases = {"short": {"pods": [1], "requests": {}, "gang": False, "duration_ns": 1, "count": 3}}
    row = of(tmp_path, plain(), plain(), also={"phases": phases})
    assert (row["workloads"], row["submitted"], row["total_s"]) == (3, 2, None)
    assert of(tmp_path / "b", plain(), outcome="interrupted")["total_s"] is None


def test_a_trial_whose_outcome_is_not_completed_has_no_total_even_if_all_workloads_completed(tmp_path: Path) -> None:
    assert of(tmp_path, plain(), outcome="failed")["total_s"] is None


def test_with_a_queue_dispatch_is_admission_and_without_one_the_creation_of_pods(tmp_path: Path) -> None:
    queued = (*PLAIN[:2], QUEUED, ADMITTED, *PLAIN[2:])
    jobs = [plain(0), plain(10), plain(20)]
    for number, job in enumerate(jobs):
        job.at = {**job.at, "queued": 15 + 10 * number, "admitted": 20 + 2 * S * number}
    assert of(tmp_path, *jobs, stages=queued)["dispatch_per_s"] == pytest.approx(0.5)
    assert of(tmp_path / "b", plain(0), plain(100), plain(200))["dispatch_per_s"] == pytest.approx(10)


def test_a_rate_of_one_workload_or_of_one_moment_is_empty(tmp_path: Path) -> None:
    assert of(tmp_path, plain())["dispatch_per_s"] is None
    assert of(tmp_path / "b", plain(), plain())["creation_per_s"] is None


def test_an_early_word_wins_where_a_workload_both_completed_and_was_deleted(tmp_path: Path) -> None:
    both, deleted, failed = plain(), plain(), plain()
    both.at = {**both.at, "deleted": 20 * S}
    deleted.at = {"submitted": 0, "created": 1, "deleted": 5}
    failed.at = {"submitted": 0, "created": 1, "failed": 4, "deleted": 5}
    row = of(tmp_path, both, deleted, failed)
    assert [row[name] for name in ("completed", "failed", "deleted", "pending")] == [1, 1, 1, 0]


def test_percentiles_are_turnarounds_that_some_workload_had() -> None:
    hundred = pl.Series([n * 1000 * MS for n in range(1, 101)])
    assert [nearest_rank(hundred, p) for p in (50, 95, 99, 100)] == [50, 95, 99, 100]
    assert nearest_rank(hundred[:3], 50) == 2
    assert nearest_rank(hundred[:3], 99) == 3
    assert nearest_rank(hundred[:0], 50) is None


@given(st.lists(st.integers(0, 10**15), min_size=1), st.integers(1, 100))
def test_at_least_the_percentage_of_workloads_is_not_above_the_nearest_rank(took: list[int], percent: int) -> None:
    value = nearest_rank(pl.Series(sorted(took)), percent)
    assert value is not None
    at_most = sum(t / 1e9 <= value for t in took)
    below = sum(t / 1e9 < value for t in took)
    assert at_most * 100 >= percent * len(took) > below * 100 or len(set(took)) < len(took)


def test_cpu_is_used_while_containers_run_and_capacity_counts_while_nodes_are_there(tmp_path: Path) -> None:
    job = Job({"submitted": 0, "completed": 20 * S}, [{"scheduled": 0, "running": 5 * S, "finished": 15 * S}])
    four = [{"group": "a", "count": 1, "capacity": {"cpu": 4000}, "from_ns": 0, "until_ns": None}]
    late = [{"group": "b", "count": 2, "capacity": {"cpu": 2000}, "from_ns": 10 * S * MS, "until_ns": 15 * S * MS}]
    ran = {"requests": {"cpu": 2000}}
    assert of(tmp_path, job, nodes=four, **ran)["cpu_util"] == pytest.approx(2 * 10 / (4 * 20))
    assert of(tmp_path / "b", job, nodes=[*four, *late], **ran)["cpu_util"] == pytest.approx(20 / (80 + 20))
    assert of(tmp_path / "c", job, nodes=[*four, *late])["nodes"] == 3
    assert of(tmp_path / "d", job, nodes=[])["cpu_util"] is None


def test_what_still_runs_counts_until_the_end_what_was_deleted_or_lost_until_then(tmp_path: Path) -> None:
    node = [{"group": "a", "count": 1, "capacity": {"cpu": 2000}, "from_ns": 0, "until_ns": None}]
    runs = Job({"submitted": 0}, [{"scheduled": 0, "running": 0}])
    deleted = Job({"submitted": 0, "deleted": 4 * S}, [{"scheduled": 0, "running": 0}])
    lost = Job({"submitted": 0}, [{"scheduled": 0, "running": 0, "lost": 3 * S}])
    row = of(tmp_path, runs, deleted, lost, nodes=node, outcome="timeout", end_ms=10 * S)
    assert row["cpu_util"] == pytest.approx((10 + 4 + 3) / 20)


def test_gpus_of_any_make_count_and_without_gpus_the_figure_is_empty(tmp_path: Path) -> None:
    job = Job({"submitted": 0, "completed": 10 * S}, [{"scheduled": 0, "running": 0, "finished": 5 * S}])
    capacity = {"cpu": 1000, "nvidia.com/gpu": 2, "amd.com/gpu": 2}
    nodes = [{"group": "a", "count": 1, "capacity": capacity, "from_ns": 0, "until_ns": None}]
    row = of(tmp_path, job, nodes=nodes, requests={"nvidia.com/gpu": 1})
    assert row["gpu_util"] == pytest.approx(5 / 40)
    assert row["cpu_util"] == 0
    assert of(tmp_path / "b", job, nodes=NODES)["gpu_util"] is None


def test_a_half_placed_gang_holds_for_nothing_until_it_runs_or_the_trial_ends(tmp_path: Path) -> None:
    never = Job({"submitted": 0}, [{"scheduled": 2 * S, "running": 3 * S}], size=2)
    late = Job({"submitted": 0, "completed": 30 * S}, [
        {"scheduled": 1 * S, "running": 2 * S, "finished": 20 * S},
        {"scheduled": 5 * S, "running": 6 * S, "finished": 20 * S},
    ])  # fmt: skip
    request = {"cpu": 2000, "nvidia.com/gpu": 3}
    row = of(tmp_path, never, late, gang=True, requests=request, outcome="clogged", end_ms=40 * S)
    assert row["held_idle_s"] == pytest.approx(2 * (38 + 5 + 1))
    assert row["held_idle_gpu_s"] == pytest.approx(3 * (38 + 5 + 1))
    alone = of(tmp_path / "b", never, late, gang=False, requests=request, outcome="clogged", end_ms=40 * S)
    assert alone["held_idle_s"] == 0


def test_a_parameter_named_like_a_figure_does_not_hide_it(tmp_path: Path) -> None:
    row = of(tmp_path, plain(pods=2), params={"pods": 7, "jobs": 1})
    assert (row["pods"], row["param_pods"], row["jobs"]) == (2, 7, 1)


def test_validity_passes_through(tmp_path: Path) -> None:
    assert of(tmp_path, plain())["valid"] is True
    assert of(tmp_path / "b", plain(), also={"validity": {"valid": False, "reasons": ["late"]}})["valid"] is False


def test_figures_can_be_asked_for_before_trial_json_is_finished(tmp_path: Path) -> None:
    trial = write_trial(tmp_path, Made([plain()], outcome="running"))
    assert figures(trial)["total_s"] is None
    assert figures(trial, trial_json(Made([plain()])))["total_s"] == pytest.approx(12.03)


def test_the_clog_and_the_audits_are_figures(tmp_path: Path) -> None:
    also = {
        "clog": {"kind": "gang deadlock", "summary": "x", "at_ns": 5},
        "audits": [{"audit": "aggregate admission", "count": 2}, {"audit": "gang in part", "count": 0}],
    }
    row = of(tmp_path, plain(), outcome="clogged", also=also)
    assert (row["clog"], row["audit_aggregate"], row["audit_partial"]) == ("gang deadlock", 2, 0)
    fine = of(tmp_path / "fine", plain())
    assert (fine["clog"], fine["audit_misfit"]) == ("", 0)
    assert of(tmp_path / "cut", plain(), outcome="interrupted")["audit_misfit"] is None


def bound_after(wait_ms: int, at_ms: int, phase: str = "short") -> Job:
    pod = {
        "pods_created": at_ms,
        "scheduled": at_ms + wait_ms,
        "running": at_ms + wait_ms + 5,
        "finished": at_ms + 5000,
    }
    return Job({"submitted": at_ms, "created": at_ms, "completed": at_ms + 6000}, [pod], phase=phase)


def test_scheduling_is_from_a_pods_creation_to_its_binding_and_its_rate_from_the_first_to_the_last_bound(
    tmp_path: Path,
) -> None:
    row = of(tmp_path, *(bound_after(10 * (n + 1), 100 * n) for n in range(100)))
    assert row["schedule_p50_s"] == pytest.approx(0.5)
    assert row["schedule_p99_s"] == pytest.approx(0.99)
    assert row["bound_per_s"] == pytest.approx(99 / ((99 * 100 + 1000 - 10) / 1000))


def test_a_pod_that_was_never_bound_has_no_scheduling_latency_and_one_bound_pod_no_rate(tmp_path: Path) -> None:
    waiting = Job({"submitted": 0, "created": 1}, [{"pods_created": 5}], size=1)
    row = of(tmp_path, bound_after(20, 0), waiting, outcome="timeout")
    assert row["schedule_p99_s"] == pytest.approx(0.02)
    assert row["bound_per_s"] is None
    assert of(tmp_path / "b", waiting, outcome="timeout")["schedule_p99_s"] is None


def test_figures_of_a_phase_are_those_of_its_workloads_alone(tmp_path: Path) -> None:
    jobs = [bound_after(10, 0, "dev"), bound_after(500, 20_000, "prod"), bound_after(700, 21_000, "prod")]
    stuck = Job({"submitted": 30_000, "created": 30_001}, [], size=1, phase="dev")
    trial = TrialRecord.open(write_trial(tmp_path, Made([*jobs, stuck], outcome="timeout")))
    names = ("completed", "submitted", "p99_s", "total_s", "schedule_p99_s", "bound_per_s")
    found = asked_of(trial, [f"{name}(phase={phase})" for phase in ("dev", "prod", "none") for name in names])
    of_prod = [found[f"{name}(phase=prod)"] for name in names]
    assert of_prod == pytest.approx([2, 2, 6.0, 7.0, 0.7, 1 / 1.2])
    assert [found[f"{name}(phase=dev)"] for name in names] == pytest.approx([1, 2, 6.0, None, 0.01, None])
    assert [found[f"{name}(phase=none)"] for name in names] == [0, 0, None, None, None, None]


def test_every_entry_of_the_table_has_one_function_and_every_group_names_its_part() -> None:
    assert FUNCTIONS.keys() == table.FIGURES.keys()
    assert PARTS.keys() == MEMBERS.keys() == table.GROUPS.keys()
    assert {group for figure in table.FIGURES.values() for group in figure.groups} == table.GROUPS.keys()


def test_every_figure_can_be_asked_by_the_groups_that_the_table_says(tmp_path: Path) -> None:
    directory = write_trial(tmp_path / "t", Made([replace(plain(), phase="a"), replace(plain(), phase="b")]))
    names = [table.grouped(one.name, group, "a") for one in table.FIGURES.values() for group in one.groups]
    found = asked_of(TrialRecord.open(directory), names)
    assert list(found) == names
    assert (found["submitted(phase=a)"], found["rejected(a)"]) == (1, 0)


def test_a_name_is_split_as_it_was_joined() -> None:
    for group in table.GROUPS:
        assert table.split(table.grouped("p99_s", group, "two-of-8 (b)")) == ("p99_s", group, "two-of-8 (b)")
    assert (
        table.split("rejected(identity=tenant)")
        == table.split("rejected(tenant)")
        == ("rejected", "identity", "tenant")
    )
    assert table.split("p99_s") == ("p99_s", "", "")


def test_a_column_of_the_summary_stands_once_and_where_the_design_wants_it() -> None:
    columns = table.columns(["jobs"], shared=True)
    assert len(columns) == len(set(columns)) == len([one for one in table.FIGURES.values() if not one.in_parts]) + 1
    assert [name for name in columns if name == "jobs" or not table.FIGURES[name].shared] == table.columns(["jobs"])
    assert columns[:7] == ["scenario", "on", "setup", "stack", "repeat", "seed", "jobs"]
    assert columns[7:23] == [
        "nodes", "workloads", "pods", "submitted", "completed", "outcome", "total_s", "rate_per_s", "dispatch_per_s", "p50_s",
        "p95_s", "p99_s", "cpu_util", "gpu_util", "held_idle_s", "valid",
    ]  # fmt: skip


def test_what_expectations_name_is_known_to_those_who_judge_it() -> None:
    assert {*table.TESTED, *table.TESTED_OF_REQUESTS, *table.ON_TERMINAL, *table.LEFT_OUT_FIRST} <= {*table.NAMED}
    assert all(table.FIGURES[name].heading for name in table.ON_TERMINAL)
    assert all(figure.about and figure.doubted_as in KINDS for figure in table.FIGURES.values())
