"""The scenarios that compare stacks are the published experiments, and come out as their mechanisms say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seatrial import stacks
from seatrial.model.plan import Trial
from seatrial.model.units import SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.scenario.document import read
from seatrial.scenario.expansion import expand
from seatrial.scenario.findings import findings_of
from seatrial.scenario.params import parse_sets
from seatrial.study.trials import Outcome, run_trial

GPU = "nvidia.com/gpu"
ENSEMBLE = {
    "default": "default", "coscheduling-10s": "coscheduling", "coscheduling-60s": "coscheduling",
    "kueue-quota": "kueue", "kueue-ready": "kueue", "kueue-tas": "kueue",
    "gang": "gang", "fluence": "fluence", "mcad": "mcad",
}  # fmt: skip


def trials(name: str, *sets: str, setups: list[str] | None = None, picked: list[str] | None = None) -> list[Trial]:
    return expand(
        read(name), on="sim", stacks=stacks.settings(), pick_setups=setups, pick_stacks=picked, sets=parse_sets(sets)
    )


def ran(found: list[Trial], out: Path) -> dict[str, tuple[Outcome, dict[str, Any]]]:
    """Set-up → how its trial ended, and its trial.json."""
    result = {}
    for trial in found:
        outcome = run_trial(trial, out / trial.name, lambda *_: None)
        result[trial.setup.name] = (outcome, json.loads((out / trial.name / "trial.json").read_text()))
    return result


def test_gpu_requests_are_two_setups_of_one_stack() -> None:
    published, honest = trials("gpu-requests", picked=["mcad"])
    assert (published.setup.name, honest.setup.name) == ("as-published", "honest")
    assert [GPU in submit.shape.requests for submit in published.phases(Submit)] == [False] * 3
    assert [(submit.declares or {})[GPU] for submit in published.phases(Submit)] == [8, 16, 24]
    assert [submit.shape.requests[GPU] for submit in honest.phases(Submit)] == [8, 16, 24]
    assert [submit.declares for submit in honest.phases(Submit)] == [None] * 3
    assert [trial.setup.name for trial in trials("gpu-requests")] == ["as-published", "honest"]


@pytest.mark.parametrize("stack", [name for name in stacks.names() if name != "mcad"])
def test_with_any_other_stack_pods_ask_for_their_gpus_and_nothing_is_declared(stack: str) -> None:
    [trial] = trials("gpu-requests", picked=[stack])
    assert (trial.setup.name, trial.setup.stack) == (stack, stack)
    assert [(s.sizes, s.shape.requests[GPU], s.declares) for s in trial.phases(Submit)] == [
        ((2,), 8, None), ((1,), 16, None), ((1,), 24, None),
    ]  # fmt: skip
    assert stacks.find(stack).refuses(replace(trial, on=stacks.find(stack).runs_on[0])) is None


def test_gpu_requests_come_as_in_the_experiment() -> None:
    [trial] = trials("gpu-requests", setups=["honest"])
    [group] = trial.setup.nodes
    assert (group.count, group.capacity[GPU]) == (2, 8)
    phases = [phase for step in trial.steps for phase in step if not isinstance(phase, Wait)]
    order = [
        phase.name if isinstance(phase, Submit) else phase.of[0] if isinstance(phase, DeleteWorkloads) else phase.group
        for phase in phases
        if isinstance(phase, Submit | DeleteWorkloads | NodeChange)
    ]
    assert order == ["two-of-8", "two-of-8", "one-of-16", "one-of-16", "one-of-24", "third"]
    waits = [phase for step in trial.steps for phase in step if isinstance(phase, Wait)]
    assert [wait.go_on for wait in waits] == [False, True, True, False]
    assert len(findings_of(trial)) == 2, "16 and 24 fit no node; said before the run"


@pytest.fixture(scope="module")
def gpu_requests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Outcome, dict[str, Any]]]:
    return ran(trials("gpu-requests", picked=["mcad"]), tmp_path_factory.mktemp("gpu"))


def test_as_published_everything_completes_and_24_waits_for_the_third_node(gpu_requests: Any) -> None:
    outcome, document = gpu_requests["as-published"]
    assert (outcome.outcome, outcome.figures["completed"]) == ("completed", 3)
    [note] = document["notes"]
    assert note["text"].startswith("one-of-24-waits: ")


def test_honest_16_is_let_go_and_24_clogs_by_aggregate_admission(gpu_requests: Any) -> None:
    outcome, document = gpu_requests["honest"]
    assert (outcome.outcome, document["clog"]["kind"]) == ("clogged", "aggregate admission")
    assert (outcome.figures["completed"], outcome.figures["deleted"], outcome.figures["pending"]) == (1, 1, 1)
    assert [note["text"].partition(":")[0] for note in document["notes"]] == ["one-of-16-done", "one-of-24-waits"]
    assert "one-of-24-0" in document["clog"]["summary"]


def test_gpu_requests_are_as_expected(gpu_requests: Any) -> None:
    assert [outcome.failed_expectations for outcome, _ in gpu_requests.values()] == [(), ()]


@pytest.mark.parametrize("stack", [name for name in stacks.names() if name != "mcad"])
def test_gpu_requests_clog_on_every_stack(stack: str, tmp_path: Path) -> None:
    [(outcome, document)] = ran(trials("gpu-requests", picked=[stack]), tmp_path).values()
    assert outcome.outcome == "clogged"
    assert outcome.failed_expectations == ()
    assert "one-of-24-0" in document["clog"]["summary"]


def test_the_ensemble_compares_nine_setups_on_the_same_gangs() -> None:
    found = trials("gang-ensemble")
    assert {trial.setup.name: trial.setup.stack for trial in found} == ENSEMBLE
    by_name = {trial.setup.name: trial.setup.settings for trial in found}
    assert by_name["coscheduling-10s"]["coscheduling"]["permit-wait"] == 10 * SECOND
    assert by_name["coscheduling-60s"]["coscheduling"]["permit-wait"] == 60 * SECOND
    [submit] = found[0].phases(Submit)
    assert (submit.count, submit.sizes, submit.shuffled, submit.gang) == (100, (2, 3, 4, 5, 6), True, True)
    assert [findings_of(trial) for trial in found] == [[]] * 9
    [plain] = trials("gang-ensemble", picked=["kueue"])
    assert plain.setup.settings["kueue"] == by_name["kueue-quota"]["kueue"], "--stack kueue is the plain quota"


def test_the_ensemble_has_a_shorter_form_and_batches() -> None:
    short = trials("gang-ensemble", "iters=3,duration=5s", setups=["default"])[0].phases(Submit)[0]
    assert (short.count, short.duration, short.pace.size) == (15, 5 * SECOND, 15)
    batches = trials("gang-ensemble", "batches=2", setups=["default"])[0].phases(Submit)[0]
    assert (batches.count, batches.pace.size) == (200, 100)


@pytest.mark.slow
def test_the_ensemble_comes_out_as_the_mechanisms_say(tmp_path: Path) -> None:
    done = ran(trials("gang-ensemble"), tmp_path)
    assert {name: outcome.failed_expectations for name, (outcome, _) in done.items()} == dict.fromkeys(ENSEMBLE, ())
    outcome, document = done["default"]
    assert (outcome.outcome, document["clog"]["kind"]) == ("clogged", "gang deadlock")
    for name in ("fluence", "gang", "kueue-ready", "kueue-tas"):
        assert done[name][0].figures["completed"] == 100, name
    assert done["kueue-quota"][0].figures["audit_overadmitted"] > 0
