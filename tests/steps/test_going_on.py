"""What a trial's record keeps of steps that did not come about, and deletions on stacks with objects of their own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from seatrial.model.plan import PodShape
from seatrial.model.units import MINUTE, SECOND
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.study.trials import run_trial
from tests.sim.making import SMALL, run, submit, trial

TOO_LARGE = PodShape({"cpu": 64_000}, tolerations=SMALL.tolerations)
STUCK = Submit("stuck", 2, (1,), False, TOO_LARGE, SECOND)
FINE = submit(3)


def test_notes_are_in_the_trials_record(tmp_path: Path) -> None:
    steps = (
        (STUCK,),
        (Wait("patience", "completed", timeout=MINUTE, go_on=True),),
        (DeleteWorkloads("away", ("stuck",)),),
        (FINE,),
        (Wait("done", "completed", ("load",)),),
    )
    outcome = run_trial(trial(*steps), tmp_path / "t", lambda *_: None)
    assert outcome.outcome == "completed"
    [note] = json.loads((tmp_path / "t" / "trial.json").read_text())["notes"]
    assert set(note) == {"at_ns", "text"}
    assert 0 < note["at_ns"] <= 61 * SECOND


@pytest.mark.parametrize("stack", ["default", "mcad"])
def test_deleting_what_is_gone_already_is_no_error(tmp_path: Path, stack: str) -> None:
    """Completed, deleted before, and deleted twice at once."""
    away = DeleteWorkloads("away", ("load",))
    again = DeleteWorkloads("again", ("load",))
    once_more = DeleteWorkloads("once-more", ("load", "stuck"))
    ran = run(
        trial(
            (FINE,), (Wait("done", "completed"),), (STUCK,), (away,), (again, once_more), (Pause("p", SECOND),),
            stack=stack,
        ),
        tmp_path,
    )  # fmt: skip
    assert ran.ending.outcome == "completed"
    assert (ran.count("completed"), ran.count("deleted")) == (3, 2)


def test_a_trial_ends_at_its_limit_with_the_reason_why_work_is_left(tmp_path: Path) -> None:
    steps = ((submit(3, seconds=60),), (Wait("done", "completed"),))
    limited = dataclasses.replace(trial(*steps), limit=20 * SECOND)
    outcome = run_trial(limited, tmp_path / "t", lambda *_: None)
    assert outcome.outcome == "timeout"
    record = json.loads((tmp_path / "t" / "trial.json").read_text())
    assert record["detail"].startswith(
        "after the limit of 20s per trial 0 of 3 workloads were completed: still running"
    )
    assert record["timed_out"]["kind"] and record["end_ns"] == record["limit_ns"] == 20 * SECOND
    longer = dataclasses.replace(limited, limit=5 * MINUTE)
    assert run_trial(longer, tmp_path / "u", lambda *_: None).outcome == "completed"
