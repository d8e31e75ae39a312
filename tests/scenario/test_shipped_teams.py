"""The scenarios with teams that come with seatrial say what they claim to."""

from __future__ import annotations

import pytest

from seatrial import stacks
from seatrial.model.fleet import FlavorQuota, Preemption
from seatrial.model.plan import Trial
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.document import read
from seatrial.scenario.expansion import expand


def trials(name: str, **sets: float) -> list[Trial]:
    given = {param: [value] for param, value in sets.items()}
    return expand(read(name), on="sim", stacks=stacks.settings(), stages=stacks.stages(), sets=given)  # type: ignore[arg-type]


def test_the_baseline_is_that_of_kueue() -> None:
    """test/performance/scheduler/configs/baseline/generator.yaml of Kueue v0.16."""
    [trial] = trials("kueue-baseline")
    fleet = trial.setup.fleet
    assert len(fleet.queues) == 30
    assert all(queue.quotas == (FlavorQuota("", {"cpu": 20_000}, {"cpu": 100_000}),) for queue in fleet.queues)
    cohorts = [queue.cohort for queue in fleet.queues]
    assert {cohorts.count(cohort) for cohort in cohorts} == {6}
    assert len(set(cohorts)) == 5
    assert fleet.preemption == Preemption("lower-priority", "any")
    assert [
        (s.name, s.per_queue, s.shape.requests["cpu"], s.duration, s.pace.every, s.shape.priority)
        for s in trial.phases(Submit)
    ] == [
        ("small", 350, 1_000, 200 * MILLISECOND, 100 * MILLISECOND, 50),
        ("medium", 100, 5_000, 500 * MILLISECOND, 500 * MILLISECOND, 100),
        ("large", 50, 20_000, SECOND, 1_200 * MILLISECOND, 200),
    ]
    assert sum(submit.count for submit in trial.phases(Submit)) == 15_000


@pytest.mark.parametrize(("percent", "workloads"), [(10, 1_500), (2, 300), (200, 30_000)])
def test_the_baseline_is_scaled_by_a_param(percent: int, workloads: int) -> None:
    [trial] = trials("kueue-baseline", percent=percent)
    assert sum(submit.count for submit in trial.phases(Submit)) == workloads


@pytest.mark.parametrize("cohorts", [1, 5, 50])
def test_quota_limits_the_baseline_and_nodes_do_not(cohorts: int) -> None:
    """However the pods spread, a node has room for the largest while the quota has."""
    [trial] = trials("kueue-baseline", cohorts=cohorts)
    [nodes] = trial.setup.nodes
    quota = sum(queue.quotas[0].nominal["cpu"] for queue in trial.setup.fleet.queues)
    largest = max(submit.shape.requests["cpu"] for submit in trial.phases(Submit))
    assert nodes.count * (nodes.capacity["cpu"] - largest) >= quota
    assert nodes.count * nodes.capacity["pods"] >= quota / 1_000


def test_two_teams_differ_only_in_reclaiming_and_fair_sharing() -> None:
    made = trials("two-teams")[:4]
    rules = {trial.setup.name: trial.setup.fleet.preemption for trial in made}
    assert {(rule.reclaim, rule.fair_sharing) for rule in rules.values()} == {
        ("never", False), ("any", False), ("never", True), ("any", True),
    }  # fmt: skip
    assert len({repr((t.setup.fleet.queues, t.setup.nodes, t.steps)) for t in made}) == 1
    quotas = [queue.quotas[0].nominal["cpu"] for queue in made[0].setup.fleet.queues]
    [nodes] = made[0].setup.nodes
    assert quotas == [nodes.count * nodes.capacity["cpu"] // 2] * 2


def test_two_teams_are_told_in_any_time() -> None:
    slow, quick = (trials("two-teams", minute=minute)[0].phases(Submit) for minute in (60, 3))
    assert [submit.pace.every for submit in slow] == [20 * submit.pace.every for submit in quick]
    assert [submit.count for submit in slow] == [submit.count for submit in quick]
