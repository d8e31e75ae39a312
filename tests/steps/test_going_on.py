"""A step that does not come about ends the trial, unless it says otherwise."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from seatrial.model.plan import Check, Delete, Expectation, Pause, PodShape, Step, Submit, Wait
from seatrial.model.units import MINUTE, SECOND
from seatrial.study.trials import run_trial
from tests.sim.making import SMALL, run, submit, trial

TOO_LARGE = PodShape({"cpu": 64_000}, tolerations=SMALL.tolerations)
STUCK = Submit("stuck", 2, (1,), False, TOO_LARGE, SECOND)
FINE = submit(3)


def steps(go_on: bool) -> tuple[Step, ...]:
    return (
        (STUCK,),
        (Wait("patience", "completed", timeout=MINUTE, go_on=go_on),),
        (Delete("away", ("stuck",)),),
        (FINE,),
        (Wait("done", "completed", ("load",)),),
    )


def test_a_wait_whose_time_is_up_ends_the_trial(tmp_path: Path) -> None:
    ran = run(trial(*steps(go_on=False)), tmp_path)
    assert ran.ending.outcome in ("timeout", "clogged")
    assert ran.ending.notes == []
    assert ran.count("completed") == 0


def test_a_wait_that_goes_on_is_noted_and_the_next_step_begins(tmp_path: Path) -> None:
    ran = run(trial(*steps(go_on=True)), tmp_path)
    assert (ran.ending.outcome, ran.ending.detail) == ("completed", "")
    [note] = ran.ending.notes
    assert "patience" in note.text
    assert 0 < note.at_ns <= 61 * SECOND
    assert (ran.count("deleted"), ran.count("completed")) == (2, 3)


def test_a_wait_beside_it_is_not_disturbed(tmp_path: Path) -> None:
    both = (Wait("patience", "completed", ("stuck",), timeout=MINUTE, go_on=True), Wait("done", "completed", ("load",)))
    ran = run(trial((STUCK, FINE), both), tmp_path)
    assert ran.ending.outcome == "completed"
    assert len(ran.ending.notes) == 1


def test_notes_are_in_the_trials_record(tmp_path: Path) -> None:

    outcome = run_trial(trial(*steps(go_on=True)), tmp_path / "t", lambda *_: None)
    assert outcome.outcome == "completed"
    [note] = json.loads((tmp_path / "t" / "trial.json").read_text())["notes"]
    assert set(note) == {"at_ns", "text"}


@pytest.mark.parametrize("stack", ["default", "mcad"])
def test_deleting_what_is_gone_already_is_no_error(tmp_path: Path, stack: str) -> None:
    """Completed, deleted before, and deleted twice at once."""
    away = Delete("away", ("load",))
    again = Delete("again", ("load",))
    once_more = Delete("once-more", ("load", "stuck"))
    ran = run(
        trial(
            (FINE,), (Wait("done", "completed"),), (STUCK,), (away,), (again, once_more), (Pause("p", SECOND),),
            stack=stack,
        ),
        tmp_path,
    )  # fmt: skip
    assert ran.ending.outcome == "completed"
    assert (ran.count("completed"), ran.count("deleted")) == (3, 2)


def test_an_expectation_among_the_steps_knows_setup_stack_and_params(tmp_path: Path) -> None:

    def ending(text: str, name: str) -> str:
        asked = trial((FINE,), (Wait("done", "completed"),), (Check("now", (Expectation(text, "s.yaml:1:1"),)),))
        asked = dataclasses.replace(asked, params={"jobs": 3})
        return run_trial(asked, tmp_path / name, lambda *_: None).outcome

    assert ending('completed == jobs and setup == "default" and stack != "mcad"', "a") == "completed"
    assert ending('setup == "other"', "b") == "failed"
