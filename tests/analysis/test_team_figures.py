"""Figures of queues and classes, against what is computed by hand, and sums of groups against the whole."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.analysis.cohort_shares import Branch, Reals, fair_shares, filled
from seatrial.analysis.comparing import compare
from seatrial.analysis.fair_shares import FleetUse
from seatrial.analysis.gates import judge
from seatrial.analysis.stage_times import lifecycle
from seatrial.analysis.studies import Study
from seatrial.analysis.tables import write_tables
from seatrial.analysis.team_tables import team_rows
from seatrial.analysis.trial_figures import asked_of, figures
from seatrial.model.errors import UsageProblem
from seatrial.model.figures import CLASS, FIGURES, PHASE, QUEUE
from seatrial.model.fleet import FAIR_SHARING, PREEMPTED, REASONS, RECLAIMED, Cohort, FlavorQuota, Fleet, Queue
from seatrial.model.lifecycle import ADMITTED, PLAIN, QUEUED, RELEASED, lifecycle_with
from seatrial.model.plan import to_json
from seatrial.record.trial_record import TrialRecord
from tests.analysis.making import Job, Made, plain, write_study, write_trial

QUEUEING = lifecycle_with(QUEUED, ADMITTED, RELEASED)
S = 1000  # ms


def queue(name: str, cpu: int, cohort: str = "all", weight: float = 1.0, **limits: dict[str, int]) -> Queue:
    return Queue(name, (FlavorQuota("", {"cpu": cpu * 1000}, **limits),), cohort, weight)


def fleet(*queues: Queue, cohorts: tuple[Cohort, ...] = ()) -> dict[str, Any]:
    return {"fleet": to_json(Fleet(queues, cohorts))}


def pod(bound: float, **stages: float) -> dict[str, float]:
    """Times in seconds."""
    return {"pods_created": bound * S, "scheduled": bound * S, **{name: at * S for name, at in stages.items()}}


def two_teams(**also: Any) -> Made:
    """red borrows all of blue's quota; blue comes at 100 s and gets it back at 110 s."""
    first = Job(
        {"submitted": 0, "admitted": 0, "completed": 400 * S, "released": 400 * S},
        [pod(1, running=2, finished=400)] * 4, queue="red", label="long", phase="nightly", name="r0",
    )  # fmt: skip
    reclaimed = Job(
        {"submitted": 0, "admitted": 0, "completed": 310 * S, "released": 310 * S},
        [*[pod(4, running=5, lost=112)] * 4, *[pod(211, running=212, finished=310)] * 4],
        size=4, queue="red", label="long", phase="nightly", name="r1", evictions=[(110 * S, RECLAIMED, 2), (210 * S, "", -1)],
    )  # fmt: skip
    lender = Job(
        {"submitted": 100 * S, "admitted": 110 * S, "completed": 210 * S, "released": 210 * S},
        [pod(112, running=113, finished=209)] * 4, queue="blue", phase="urgent", name="b0",
    )  # fmt: skip
    made = fleet(queue("red", 4), queue("blue", 4)) | also
    return Made([first, reclaimed, lender], stages=QUEUEING, stack="kueue", end_ms=401 * S, also=made)


def asked(directory: Path, *names: str) -> list[Any]:
    found = asked_of(TrialRecord.open(directory), names)
    return [found[name] for name in names]


def test_borrowed_and_lent_are_what_one_adds_up_by_hand(tmp_path: Path) -> None:
    trial = write_trial(tmp_path / "t", two_teams())
    borrowed = asked(
        trial, "borrowed_s(queue=red)", "borrowed_s(queue=blue)", "lent_s(queue=red)", "lent_s(queue=blue)"
    )
    assert borrowed == [pytest.approx(4 * 110 + 4 * 100), 0, 0, pytest.approx(840)]
    assert asked(trial, "nominal_s(queue=red)", "nominal_s", "borrowed_s") == [1600, 3200, pytest.approx(840)]


def test_share_error_is_the_quota_in_the_wrong_hands_while_queues_compete(tmp_path: Path) -> None:
    """Both want something, together more than there is, from 100 s to 210 s; until 110 s red has blue's half."""
    trial = write_trial(tmp_path / "t", two_teams())
    names = ("share_error", "share_error(queue=red)", "share_error(queue=blue)", "fair_share(queue=blue)")
    assert asked(trial, *names) == [
        pytest.approx(part) for part in (0.5 * 10 / 110, 0.5 * 10 / 110, 0.5 * 10 / 110, 0.5)
    ]
    red, blue = 480 / 440, 400 / 440
    index = (red + blue) ** 2 / (2 * (red**2 + blue**2))
    assert asked(trial, "jain", "share(queue=red)", "share(queue=blue)") == [
        pytest.approx(part) for part in (index, 2440 / 8 / 400, 400 / 8 / 110)
    ]


def test_a_cohort_below_another_has_its_part_by_its_own_weight(tmp_path: Path) -> None:
    """red is alone in its cohort and has half of the 8 cores, as it should; blue and green have a quarter each."""
    at = {"submitted": 0, "admitted": 0, "completed": 100 * S, "released": 100 * S}
    ran, waits = [pod(0, running=0, finished=100)], {"submitted": 0}
    jobs = [Job(at, ran * cores, queue=name, name=name) for name, cores in (("red", 4), ("blue", 2), ("green", 2))]
    jobs += [Job(waits, size=8, queue=one.queue, name=f"{one.name}-more") for one in jobs]
    queues = (queue("red", 0, "research"), queue("blue", 0, "product"), queue("green", 0, "product"))
    top = Cohort("company", quotas=(FlavorQuota("", {"cpu": 8000}),))
    made = fleet(*queues, cohorts=(Cohort("research", "company"), Cohort("product", "company"), top))
    trial = write_trial(tmp_path / "t", Made(jobs, stages=QUEUEING, stack="kueue", end_ms=100 * S, also=made))
    assert asked(trial, "share_error", "fair_share(queue=red)", "jain") == [pytest.approx(part) for part in (0, 0.5, 1)]
    weights = [
        replace(cohort, weight=3) if cohort.name == "research" else cohort
        for cohort in (Cohort("research", "company"), Cohort("product", "company"), top)
    ]
    heavy = Made(
        jobs, stages=QUEUEING, stack="kueue", end_ms=100 * S, also=fleet(*queues, cohorts=tuple(weights)), number=2
    )
    assert asked(write_trial(tmp_path / "u", heavy), "fair_share(queue=red)") == [pytest.approx(0.75)]


def test_work_lost_counts_from_when_the_pod_ran(tmp_path: Path) -> None:
    trial = write_trial(tmp_path / "t", two_teams())
    assert asked(trial, "work_lost_s(queue=red)", "work_lost_s(class=urgent)", "work_lost_s") == [4 * 107, 0, 4 * 107]
    assert asked(trial, "used_s(queue=blue)", "used_s(queue=red)") == [4 * 97, 4 * (399 + 108 + 99)]


def test_a_checkpoint_keeps_whole_intervals_of_the_work(tmp_path: Path) -> None:
    phases = {
        "nightly": {"requests": {"cpu": 1000}, "checkpoint_ns": 60 * 10**9},
        "urgent": {"requests": {"cpu": 1000}},
    }
    made = two_teams(phases=phases)
    assert asked(write_trial(tmp_path / "t", made), "work_lost_s") == [4 * (107 - 60)]


def test_a_gang_loses_nothing_before_all_its_pods_ran(tmp_path: Path) -> None:
    pods = [pod(1, running=10, lost=100), pod(1, running=30, lost=100)]
    again = [pod(110, running=111, finished=130), pod(110, running=111, finished=130)]
    ran = Job({"submitted": 0, "completed": 130 * S}, [*pods, *again], size=2, evictions=[(99 * S, PREEMPTED, -1)])
    half = Job({"submitted": 0}, pods[:1], size=2, evictions=[(99 * S, PREEMPTED, -1)])
    whole = write_trial(tmp_path / "whole", Made([ran], gang=True, end_ms=200 * S))
    part = write_trial(tmp_path / "part", Made([half], gang=True, end_ms=200 * S))
    assert asked(whole, "work_lost_s") == [2 * 70]
    assert asked(part, "work_lost_s") == [0]


def test_a_gang_that_loses_one_pod_begins_again_with_the_others(tmp_path: Path) -> None:
    """Two pods run from 10 s. One is lost at 50 s; its replacement runs from 60 s, and is lost at 100 s."""
    pods = [
        pod(1, running=10, finished=200),
        pod(1, running=10, lost=50),
        pod(51, running=60, lost=100),
        pod(101, running=110, finished=200),
    ]
    job = Job(
        {"submitted": 0, "completed": 200 * S},
        pods,
        size=2,
        evictions=[(50 * S, PREEMPTED, -1), (60 * S, "", -1), (100 * S, PREEMPTED, -1)],
    )
    assert asked(write_trial(tmp_path / "t", Made([job], gang=True, end_ms=300 * S)), "work_lost_s") == [40 + 40]


def test_waits_are_until_the_first_admission_and_classes_default_to_the_phase(tmp_path: Path) -> None:
    trial = write_trial(tmp_path / "t", two_teams())
    names = (
        "wait_max_s(queue=blue)",
        "wait_max_s(queue=red)",
        "wait_p99_s(class=urgent)",
        "wait_mean_s",
        "submitted(class=long)",
    )
    assert asked(trial, *names) == [10, 0, 10, pytest.approx(10 / 3), 2]


def test_without_a_queue_object_a_workload_waits_until_all_its_pods_were_first_bound(tmp_path: Path) -> None:
    """It was evicted afterwards and bound again at 50 s: that is not its wait."""
    pods = [pod(3, lost=20), pod(7, lost=20), pod(50, finished=60), pod(50, finished=60)]
    job = Job({"submitted": 0, "completed": 60 * S}, pods, size=2, evictions=[(20 * S, PREEMPTED, -1)])
    assert asked(write_trial(tmp_path / "t", Made([job], stages=PLAIN)), "wait_max_s", "preempted") == [7, 1]


def test_a_workload_that_never_got_a_place_does_not_shorten_the_waits(tmp_path: Path) -> None:
    jobs = [plain(0), Job({"submitted": 2 * S}, size=1)]
    trial = write_trial(tmp_path / "t", Made(jobs, outcome="timeout", end_ms=100 * S))
    assert asked(trial, "wait_max_s", "wait_p50_s") == [98, pytest.approx(0.03)]


def test_evictions_are_counted_by_reason_and_add_up(tmp_path: Path) -> None:
    moves = [(1 * S, PREEMPTED, -1), (2 * S, "", -1), (3 * S, FAIR_SHARING, -1), (4 * S, "", -1), (5 * S, "odd", -1)]
    job = Job({"submitted": 0, "admitted": 0}, size=1, queue="red", evictions=moves)
    made = Made([job], stages=QUEUEING, outcome="timeout", also=fleet(queue("red", 4)))
    names = ("evicted(queue=red)", "preempted(queue=red)", "fair_sharing", "reclaimed", "evicted_other")
    assert asked(write_trial(tmp_path / "t", made), *names) == [3, 1, 1, 0, 1]


def test_a_queue_without_workloads_has_counts_of_0_and_no_times(tmp_path: Path) -> None:
    made = two_teams(**fleet(queue("red", 4), queue("blue", 4), queue("idle", 2)))
    names = ("submitted(queue=idle)", "wait_p99_s(queue=idle)", "used_s(queue=idle)", "share(queue=idle)")
    assert asked(write_trial(tmp_path / "t", made), *names) == [0, None, 0, None]


def test_tables_have_a_row_per_trial_and_queue_and_per_trial_and_class(tmp_path: Path) -> None:
    study = Study.open(write_study(tmp_path / "out", [two_teams()]))
    assert {path.name for path in write_tables(study)} >= {"queues.csv", "classes.csv"}
    rows = list(csv.DictReader((tmp_path / "out" / "queues.csv").read_text().splitlines()))
    assert [(row["queue"], row["cohort"], row["contended"], row["evicted"]) for row in rows] == [
        ("red", "all", "cpu", "1"),
        ("blue", "all", "cpu", "0"),
    ]
    assert float(rows[0]["borrowed_s"]) == pytest.approx(840)
    classes = list(csv.DictReader((tmp_path / "out" / "classes.csv").read_text().splitlines()))
    assert [(row["class"], row["submitted"], row["wait_max_s"]) for row in classes] == [
        ("long", "2", "0.000000"),
        ("urgent", "1", "10.000000"),
    ]
    again = Study.open(tmp_path / "out")
    assert team_rows(again, QUEUE)[0]["lent_s"] == 0 and again.rows[0]["reclaimed"] == 1


def test_a_study_without_queues_and_classes_has_the_columns_it_had(tmp_path: Path) -> None:
    out = write_study(tmp_path / "out", [Made([plain()])])
    write_tables(Study.open(out))
    assert not (out / "queues.csv").exists() and not (out / "classes.csv").exists()
    header = (out / "summary.csv").read_text().splitlines()[0].split(",")
    assert not [name for name in header if name in FIGURES and FIGURES[name].shared]
    assert Study.open(out).rows[0]["total_s"] is not None
    assert "evicted" not in figures(out / "trials" / Made([plain()]).name)


# fair shares


def test_what_a_queue_does_not_want_goes_to_the_others_by_weight() -> None:
    wanted = np.array([[10.0], [100.0], [100.0]])
    fair = fair_shares(
        wanted, np.array([20.0, 20.0, 20.0]), np.full(3, np.inf), np.full(3, np.inf), np.array([1.0, 1, 3]), FLAT
    )
    assert fair[:, 0].tolist() == [10, 22.5, 27.5]


def test_a_fair_share_is_no_more_than_a_queue_may_borrow_or_others_lend() -> None:
    wanted, own, weight = np.array([[0.0], [100.0], [100.0]]), np.full(3, 20.0), np.ones(3)
    limited = fair_shares(wanted, own, np.array([np.inf, 5, np.inf]), np.full(3, np.inf), weight, FLAT)
    assert limited[:, 0].tolist() == [0, 25, 35]
    kept = fair_shares(wanted, own, np.full(3, np.inf), np.array([8.0, 20, 20]), weight, FLAT)
    assert kept[:, 0].tolist() == [0, 24, 24]


def test_cohorts_share_by_their_weights_and_queues_with_those_of_their_own_cohort() -> None:
    """16 cores of the topmost cohort, for research with one queue and product with three."""
    wanted, none, more = np.full((4, 1), 100.0), np.zeros(4), np.full(4, np.inf)

    def fair(own: Reals, research: Branch, product: Branch, wants: Reals = wanted) -> list[float]:
        root = Branch((), (research, product), extra=16)
        return [float(part) for part in fair_shares(wants, own, more, more, np.ones(4), root)[:, 0]]

    research, product = Branch((0,)), Branch((1, 2, 3))
    assert fair(none, research, product) == pytest.approx([8, 8 / 3, 8 / 3, 8 / 3])
    assert fair(none, replace(research, weight=3), product) == pytest.approx([12, 4 / 3, 4 / 3, 4 / 3])
    assert fair(none, replace(research, borrow=2), product) == pytest.approx([2, 14 / 3, 14 / 3, 14 / 3])
    idle = np.array([[100.0], [0], [6], [0]])
    own = np.array([0.0, 4, 0, 4])
    assert fair(own, research, product, idle) == pytest.approx([18, 0, 6, 0]), (
        "product keeps what it wants of its own 8"
    )
    assert fair(own, research, replace(product, lend=1), idle) == pytest.approx([17, 0, 6, 0])


Amount = st.floats(0, 1000, allow_subnormal=False)
FLAT = Branch((0, 1, 2))


@given(st.lists(st.tuples(Amount, st.floats(0.1, 10)), min_size=1, max_size=8), Amount)
def test_water_filling_gives_all_there_is_and_nobody_more_than_it_wants(
    queues: list[tuple[float, float]], there: float
) -> None:
    wanted, weight = np.array([[want] for want, _ in queues]), np.array([weight for _, weight in queues])
    got = filled(wanted, weight, np.array([there]))[:, 0]
    assert (got <= wanted[:, 0] + 1e-9).all() and (got >= 0).all()
    assert got.sum() == pytest.approx(min(there, wanted.sum()), abs=1e-6)
    short = got < wanted[:, 0] - 1e-6
    level = got / weight
    assert not short.any() or level[short].max() <= level[short].min() + 1e-6
    assert not short.any() or level.max() <= level[short].min() + 1e-6


# sums of groups

Times = st.integers(0, 400)


@st.composite
def job(draw: st.DrawFn) -> Job:
    at = sorted(draw(st.lists(Times, min_size=6, max_size=6)))
    size = draw(st.integers(1, 3))
    stages = {"submitted": at[0] * S}
    pods = []
    if draw(st.booleans()):
        stages["admitted"] = at[1] * S
        pods = [pod(at[2], running=at[3], **{draw(st.sampled_from(["finished", "lost"])): at[4]}) for _ in range(size)]
    if draw(st.booleans()):
        stages |= {"completed": at[5] * S, "released": at[5] * S}
    moves: list[tuple[float, str, int]] = []
    for number, when in enumerate(sorted(draw(st.lists(Times, max_size=3)))):
        moves.append((when * S, "" if number % 2 else draw(st.sampled_from(REASONS)), -1))
    return Job(
        stages, pods, size, draw(st.sampled_from(["p", "q"])), queue=draw(st.sampled_from(["red", "blue", "green"])),
        label=draw(st.sampled_from(["", "long", "short"])), evictions=moves,
    )  # fmt: skip


SUMMED = ("submitted", "completed", "pending", "pods", "evicted", "preempted", "reclaimed", "fair_sharing", "timed_out",
          "node_gone", "evicted_other", "used_s", "used_memory_s", "work_lost_s", "work_lost_gpu_s")  # fmt: skip


@settings(max_examples=40)
@given(st.lists(job(), min_size=1, max_size=8))
def test_the_sums_of_queues_classes_and_phases_are_those_of_the_whole(jobs: Sequence[Job]) -> None:
    queues = fleet(queue("red", 2), queue("blue", 3, "all", 2.0), queue("green", 1, ""))
    made = Made(
        jobs, stages=QUEUEING, outcome="timeout", end_ms=500 * S, requests={"cpu": 1000, "memory": 2**28}, also=queues
    )
    with tempfile.TemporaryDirectory() as folder:
        trial = TrialRecord.open(write_trial(Path(folder) / "t", made))
        groups = {QUEUE: ("red", "blue", "green"), CLASS: ("long", "short", "p", "q"), PHASE: ("p", "q")}
        for group, members in groups.items():
            for figure in SUMMED:
                parts = asked_of(trial, [f"{figure}({group}={member})" for member in members])
                whole = asked_of(trial, [figure])[figure]
                assert sum(float(part or 0) for part in parts.values()) == pytest.approx(whole, abs=1e-9), (
                    group,
                    figure,
                )
        use = FleetUse(lifecycle(trial), lifecycle(trial).end_ns)
        for pool in use.pools:
            assert (pool.used("cpu") >= 0).all() and (pool.wanted("cpu") >= pool.used("cpu")).all()
        borrowed = sum(one.borrowed["cpu"] for one in use.queues.values())
        assert sum(one.lent["cpu"] for one in use.queues.values()) <= borrowed + 1e-6
        assert use.share_error is None or use.share_error >= 0
        assert use.jain is None or 0 < use.jain <= 1 + 1e-9


# who asks them


def gated(out: Path, *expect: str) -> Study:
    write_study(out, [two_teams()])
    document = json.loads((out / "study.json").read_text())
    document["expect"] = [{"text": text, "place": f"s.yaml:{line}:1"} for line, text in enumerate(expect, 1)]
    (out / "study.json").write_text(json.dumps(document))
    return Study.open(out)


def test_gates_ask_by_queue_and_by_class(tmp_path: Path) -> None:
    holds = (
        "wait_p99_s(queue=blue) <= 10",
        "preempted(class=long) == 0",
        "share_error < 0.1",
        "reclaimed(kwok, queue=red) == 1",
    )
    verdicts = judge(gated(tmp_path / "a", *holds))
    assert {verdict.state for verdict in verdicts} == {"holds"}, [verdict.line for verdict in verdicts]
    failing = judge(gated(tmp_path / "b", "evicted(class=long) == 0"))
    assert "evicted(class=long) is 1" in failing[0].line
    study = gated(tmp_path / "c", "wait_p99_s(queue=blue) <= 10")
    write_tables(study)
    assert judge(Study.open(study.out))[0].state == "holds", "also from the tables"


def test_a_figure_of_a_shared_fleet_can_be_asked_of_a_study_without_one(tmp_path: Path) -> None:
    out = write_study(tmp_path / "out", [Made([plain()])])
    document = json.loads((out / "study.json").read_text())
    document["expect"] = [{"text": "wait_p99_s < 1 and evicted == 0", "place": "s.yaml:1:1"}]
    (out / "study.json").write_text(json.dumps(document))
    write_tables(Study.open(out))
    assert judge(Study.open(out))[0].state == "holds"


def test_comparisons_ask_by_queue_and_name_the_nearest(tmp_path: Path) -> None:
    other = two_teams()
    other.setup, other.number = "other", 2
    study = Study.open(write_study(tmp_path / "out", [two_teams(), other]))
    [comparison] = compare([study], figures=["borrowed_s(queue=red)", "share_error"])
    assert [(one.name, one.verdict) for one in comparison.tested] == [
        ("borrowed_s(queue=red)", "same"),
        ("share_error", "same"),
    ]
    with pytest.raises(UsageProblem, match="these studies have no queue 'bleu'") as problem:
        compare([study], figures=["wait_p99_s(queue=bleu)"])
    assert "did you mean 'blue'?" in problem.value.remedy


@pytest.mark.parametrize(("since", "share"), [("pods_created", 1.0), ("scheduled", 0.5)])
def test_a_schedulers_queue_counts_pods_that_have_a_node_and_a_resource_quota_those_that_exist(
    tmp_path: Path, since: str, share: float
) -> None:
    waits = {"pods_created": 0.0, "scheduled": 10.0 * S, "running": 10.0 * S, "finished": 20.0 * S}
    job = Job({"submitted": 0, "completed": 20 * S}, [waits] * 4, queue="red", name="r0")
    also = fleet(queue("red", 4)) | {"quota_from": since}
    trial = write_trial(tmp_path / "t", Made([job], stages=PLAIN, stack="volcano", end_ms=20 * S, also=also))
    assert asked(trial, "share(queue=red)") == [pytest.approx(share)]


def test_pods_that_have_finished_want_nothing_though_their_jobs_are_not_complete_yet(tmp_path: Path) -> None:
    """red's four pods are done at 10 s, and the Job controller writes so at 100 s: until 10 s both have half, and afterwards nobody
    else wants red's half."""
    red = Job({"submitted": 0, "completed": 100 * S}, [pod(0, running=0, finished=10)] * 4, queue="red", name="r0")
    first = [pod(0, running=0, finished=100)] * 4
    blue = Job(
        {"submitted": 0, "completed": 100 * S},
        [*first, *[pod(10, running=10, finished=100)] * 4],
        queue="blue",
        name="b0",
    )
    also = fleet(queue("red", 4), queue("blue", 4)) | {"quota_from": "scheduled"}
    trial = write_trial(tmp_path / "t", Made([red, blue], stages=PLAIN, stack="volcano", end_ms=100 * S, also=also))
    assert asked(trial, "share_error", "jain", "share(queue=red)") == [pytest.approx(part) for part in (0, 1, 0.5)]
