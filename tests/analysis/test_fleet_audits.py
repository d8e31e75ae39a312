"""Audits of a shared fleet: each finds what it is about, names who it is about, and is silent where all is well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.analysis.audits import audits
from seatrial.model.fleet import ANY, PREEMPTED, RECLAIMED, FlavorQuota, Fleet, Preemption, Queue
from seatrial.model.plan import to_json
from tests.analysis.making import Job, Made, plain, write_trial
from tests.analysis.test_team_figures import QUEUEING, S, pod, queue, two_teams


def found(tmp_path: Path, made: Made) -> dict[str, dict[str, Any]]:
    return {one["audit"]: one for one in audits(write_trial(tmp_path / made.name, made))}


def held(
    since: float, until: float, name: str, team: str, submitted: float | None = None, size: int = 1, **more: Any
) -> Job:
    """A workload that has its place for some seconds."""
    at = {"submitted": (since if submitted is None else submitted) * S, "admitted": since * S, "completed": until * S}
    return Job(
        at | {"released": until * S}, [pod(since, running=since, finished=until)] * size, queue=team, name=name, **more
    )


def trial(jobs: Sequence[Job], *queues: Any, preemption: Preemption | None = None, **more: Any) -> Made:
    rules = {"fleet": to_json(Fleet(queues, preemption=preemption or Preemption()))}
    return Made(jobs, stages=QUEUEING, stack="kueue", also=rules, **{"end_ms": 2000 * S, **more})


def test_a_trial_without_queues_and_evictions_has_the_audits_it_had(tmp_path: Path) -> None:
    names = list(found(tmp_path, Made([plain()])))
    assert names[-1] == "overtaken" and len(names) == 7


def test_a_reclaiming_fleet_is_well(tmp_path: Path) -> None:
    one = found(tmp_path, two_teams())
    for name in (
        "quota exceeded",
        "kept below quota",
        "priority inversion",
        "freed nothing",
        "evicted again",
        "starvation",
    ):
        assert one[name]["count"] == 0, one[name]


def test_usage_above_quota_and_borrowing_limit_is_found(tmp_path: Path) -> None:
    jobs = [held(0, 100, f"r{number}", "red") for number in range(7)]
    limited = found(tmp_path, trial(jobs, queue("red", 4, borrow={"cpu": 2000}), queue("blue", 4)))["quota exceeded"]
    assert (
        limited["count"] == 1
        and "queue red held cpu 7 where cpu 6 is allowed, from 0.0 s to 100.0 s" in limited["finding"]
    )
    assert found(tmp_path, trial(jobs, queue("red", 4), queue("blue", 4), number=2))["quota exceeded"]["count"] == 0
    whole = found(tmp_path, trial(jobs, queue("red", 2), queue("blue", 4), number=3))["quota exceeded"]
    assert "cohort all held cpu 7 where cpu 6 is allowed" in whole["finding"]


def test_a_finished_pod_of_a_larger_workload_holds_nothing_any_more(tmp_path: Path) -> None:
    """Kueue hands the quota of finished pods on while their Job still runs."""
    at = {"submitted": 0, "admitted": 0, "completed": 100 * S, "released": 100 * S}
    pods = [pod(0, running=0, finished=end) for end in (20, 100, 100, 100)]
    jobs = [Job(at, pods, queue="red", name="r0"), held(20, 100, "r1", "red")]
    assert found(tmp_path, trial(jobs, queue("red", 4)))["quota exceeded"]["count"] == 0
    early = [Job(at, pods, queue="red", name="r0"), held(15, 100, "r1", "red")]
    one = found(tmp_path, trial(early, queue("red", 4), number=2))["quota exceeded"]
    assert "cohort all held cpu 5 where cpu 4 is allowed, from 15.0 s to 20.0 s" in one["finding"]


def test_a_queue_kept_below_its_quota_is_named_with_the_borrowers_and_a_remedy(tmp_path: Path) -> None:
    jobs = [held(0, 200, f"r{number}", "red") for number in range(8)] + [held(200, 260, "b0", "blue", submitted=100)]
    never = found(tmp_path, trial(jobs, queue("red", 4), queue("blue", 4)))["kept below quota"]
    assert never["count"] == 1
    assert (
        "blue held cpu 0 of its cpu 4 from 100.0 s to 200.0 s" in never["finding"]
        and "red borrowed" in never["finding"]
    )
    assert "`preemption: {reclaim: any}`" in never["finding"]
    may = trial(jobs, queue("red", 4), queue("blue", 4), preemption=Preemption(reclaim=ANY), number=2)
    assert "may reclaim its quota" in found(tmp_path, may)["kept below quota"]["finding"]


def test_a_queue_whose_workload_does_not_fit_into_its_quota_is_not_kept_below_it(tmp_path: Path) -> None:
    jobs = [held(0, 200, f"r{number}", "red") for number in range(8)] + [
        held(200, 260, "b0", "blue", submitted=100, size=5)
    ]
    assert found(tmp_path, trial(jobs, queue("red", 4), queue("blue", 4)))["kept below quota"]["count"] == 0


def test_a_workload_that_its_own_queue_has_no_room_for_now_is_not_kept_below_quota(tmp_path: Path) -> None:
    """blue holds 2 of its 4 and wants 3 more; a workload of 1 was there before, so some of blue's would fit into 2."""
    borrowers = [held(0, 200, f"r{number}", "red") for number in range(6)]
    own = [held(0, 1, "tiny", "blue"), held(1, 200, "b0", "blue", size=2)]
    waits = held(200, 260, "b1", "blue", submitted=10, size=3)
    queues = queue("red", 4), queue("blue", 4)
    assert found(tmp_path, trial([*borrowers, *own, waits], *queues))["kept below quota"]["count"] == 0
    fits = held(200, 260, "b1", "blue", submitted=10, size=2)
    assert found(tmp_path, trial([*borrowers, *own, fits], *queues, number=2))["kept below quota"]["count"] == 1


def test_a_queue_that_lacks_its_own_gpus_is_not_kept_below_quota_by_those_who_borrow_cores(tmp_path: Path) -> None:
    quotas = [Queue(name, (FlavorQuota("", {"cpu": 4000, "nvidia.com/gpu": 2}),), "all") for name in ("red", "blue")]
    phase = {"pods": [1], "gang": False, "duration_ns": 1}
    shapes = {
        "cores": {**phase, "requests": {"cpu": 1000}},
        "gpus": {**phase, "requests": {"cpu": 1000, "nvidia.com/gpu": 1}},
    }

    def of(gpus: int, number: int) -> dict[str, Any]:
        cores = [held(0, 200, f"r{n}", "red", phase="cores") for n in range(6)]
        mine = [held(0, 200, f"b{n}", "blue", phase="gpus") for n in range(gpus)]
        made = trial(
            [*cores, *mine, held(200, 260, "late", "blue", submitted=10, phase="gpus")], *quotas, number=number
        )
        return found(tmp_path, replace(made, also={**made.also, "phases": shapes}))["kept below quota"]

    assert of(2, 1)["count"] == 0
    one = of(1, 2)
    assert one["count"] == 1 and "blue held cpu 1 of its cpu 4 from 10.0 s to 200.0 s" in one["finding"]


def test_the_remedy_of_an_inversion_is_one_that_the_stack_has(tmp_path: Path) -> None:
    at = {"submitted": 10 * S, "completed": 110 * S}
    late = Job(at, [pod(100, running=100, finished=110)], queue="red", name="high", priority=100)
    low = replace(
        late, at={"submitted": 20 * S, "completed": 60 * S}, pods=[pod(50, running=50, finished=60)], priority=0
    )
    fleet = to_json(Fleet((queue("red", 4),)))

    def remedy(number: int, **also: Any) -> str:
        moved = replace(low, name="low", evictions=[(55 * S, PREEMPTED, -1)])
        made = Made([late, moved], end_ms=2000 * S, number=number, also=also)
        return str(found(tmp_path, made)["priority inversion"]["finding"])

    assert "A namespace's quota has no order" in remedy(1, fleet=fleet)
    assert "`preemption: {within-queue: lower-priority}`" in remedy(2, fleet=fleet, quota_from="scheduled")
    assert remedy(3).endswith("Check that the stack orders its queue by priority."), "`preemption` goes with queues"


def test_priority_inversion_is_only_within_a_queue_and_of_workloads_that_ask_for_no_less(tmp_path: Path) -> None:
    high = held(100, 110, "high", "red", submitted=10, size=2, priority=100)
    low = held(50, 60, "low", "red", submitted=20, size=2)
    one = found(tmp_path, trial([high, low], queue("red", 4)))["priority inversion"]
    assert (
        one["count"] == 1
        and "high (priority 100) waited 50.0 s longer after low (priority 0) got one" in one["finding"]
    )
    assert one["finding"].endswith("Let it take theirs with `preemption: {within-queue: lower-priority}`.")
    already = trial([high, low], queue("red", 4), preemption=Preemption(within_queue="lower-priority"), number=4)
    remedy = found(tmp_path, already)["priority inversion"]["finding"]
    assert remedy.endswith("Check that the stack orders its queue by priority.")
    small = held(50, 60, "low", "red", submitted=20, size=1)
    assert found(tmp_path, trial([high, small], queue("red", 4), number=2))["priority inversion"]["count"] == 0
    other = held(50, 60, "low", "blue", submitted=20, size=2)
    assert (
        found(tmp_path, trial([high, other], queue("red", 4), queue("blue", 4), number=3))["priority inversion"][
            "count"
        ]
        == 0
    )


def test_an_eviction_that_frees_nothing_is_found(tmp_path: Path) -> None:
    evicted = held(0, 300, "victim", "red", evictions=[(50 * S, PREEMPTED, 1), (60 * S, "", -1)])
    late = held(200, 210, "late", "red", submitted=40)
    one = found(tmp_path, trial([evicted, late], queue("red", 4)))["freed nothing"]
    assert (
        one["count"] == 1
        and "victim was evicted at 50.0 s (preempted) for late, which got it 150.0 s later" in one["finding"]
    )
    prompt = held(55, 65, "prompt", "red", submitted=40)
    assert found(tmp_path, trial([evicted, prompt], queue("red", 4), number=2))["freed nothing"]["count"] == 0


def test_a_workload_evicted_again_and_again_is_named_with_whom_it_was_evicted_for(tmp_path: Path) -> None:
    moves = [move for n in range(4) for move in ((n * 20 * S + S, RECLAIMED, 1), (n * 20 * S + 2 * S, "", -1))]
    jobs = [held(0, 300, "victim", "red", evictions=moves), held(0, 300, "taker", "blue")]
    one = found(tmp_path, trial(jobs, queue("red", 4), queue("blue", 4)))["evicted again"]
    assert one["count"] == 1 and "victim of queue red 4 times (reclaimed 4, mostly for taker)" in one["finding"]
    assert (
        "It starts over each time: give it `checkpoint`, its queue more quota of its own, or others a lower borrowing limit"
        in one["finding"]
    )
    made = trial(jobs, queue("red", 4), queue("blue", 4), number=2)
    phase = {"pods": [1], "requests": {"cpu": 1000}, "checkpoint_ns": 10_000_000_000}
    saves = found(tmp_path, replace(made, also={**made.also, "phases": {"short": phase}}))["evicted again"]["finding"]
    assert (
        "from its last `checkpoint`: give its queue more quota of its own, or others a lower borrowing limit." in saves
    )
    alone = found(tmp_path, Made([replace(job, queue="") for job in jobs], stages=QUEUEING, end_ms=2000 * S, number=3))
    assert (
        "It starts over each time: give it `checkpoint`, or it a higher priority." in alone["evicted again"]["finding"]
    )


def test_a_workload_that_waits_while_later_ones_pass_starves(tmp_path: Path) -> None:
    poor = Job({"submitted": 0}, size=1, queue="red", name="poor")
    rich = [held(number * 60, number * 60 + 50, f"b{number}", "blue") for number in range(1, 30)]
    one = found(tmp_path, trial([poor, *rich], queue("red", 1), queue("blue", 4), outcome="timeout"))["starvation"]
    assert (
        one["count"] == 1
        and "poor of queue red (priority 0) waited 2000.0 s and still did at the end" in one["finding"]
    )
    few = found(tmp_path, trial([poor, *rich[:5]], queue("red", 1), queue("blue", 4), outcome="timeout", number=2))
    assert few["starvation"]["count"] == 0


def test_workloads_of_another_queue_do_not_overtake(tmp_path: Path) -> None:
    waits, later = held(200, 210, "waits", "red", submitted=0), held(50, 60, "later", "blue", submitted=20)
    assert found(tmp_path, trial([waits, later], queue("red", 4), queue("blue", 4)))["overtaken"]["count"] == 0
    same = held(50, 60, "later", "red", submitted=20)
    assert found(tmp_path, trial([waits, same], queue("red", 4), number=2))["overtaken"]["count"] == 1
