"""The watchman sees clogs, stalls and time-outs alike on the simulator and on a real control plane."""

from __future__ import annotations

import pytest

from seatrial.model.plan import PodShape
from seatrial.model.units import MINUTE, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.steps import watchman
from tests.steps.conftest import Runner, group
from tests.steps.test_actions import submit, wait

STUCK = submit("stuck", 2, cpu=64_000)
TWO_CORES = PodShape({"cpu": 2000}, spread=True)


def test_a_knot_is_a_clog_at_once(run: Runner) -> None:
    """Six gangs of three on four nodes: each of the first gets one or two nodes, none gets three."""
    gangs = Submit("gang", 6, (3,), False, TWO_CORES, 5 * SECOND, gang=True)
    ran = run((gangs,), (wait(),), nodes=[group(4, cpu=3000)])
    assert ran.ending.outcome == "clogged"
    assert ran.ending.detail.startswith("gang deadlock: ")
    assert ran.ending.clog and ran.ending.clog.diagnosis.proven
    assert len(ran.ending.clog.diagnosis.nodes) == 4
    assert ran.end_s < 15
    assert ran.ending.stalls == []


def test_what_fits_nowhere_is_a_clog_soon(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchman, "ACTING", 4 * SECOND)
    ran = run((STUCK,), (wait(),))
    assert ran.ending.outcome == "clogged"
    assert ran.ending.detail.startswith("never fits: stuck-0 can never run")
    assert 4 <= ran.end_s < 15


def test_a_stall_that_resolves_is_kept_and_the_trial_goes_on(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes are closed, and somebody else opens them after eight seconds."""
    monkeypatch.setattr(watchman, "STALLED", 3 * SECOND)
    closed = NodeChange("close", "cordon", "fake")
    ran = run((closed,), (submit(),), (wait(),), later={8.0: NodeChange("open", "uncordon", "fake")})
    assert (ran.ending.outcome, ran.ending.clog) == ("completed", None)
    [stall] = ran.ending.stalls
    assert stall.resolved
    assert stall.kind == "never fits"
    assert 3 * SECOND <= stall.noticed_ns - stall.from_ns <= 5 * SECOND
    assert 4 <= (stall.until_ns - stall.from_ns) / SECOND <= 12
    assert ran.counts["completed"] == 3


def test_a_stall_beyond_patience_is_a_clog(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that are closed may be opened, so it is not certain; on the simulator something else is under way for a minute."""
    monkeypatch.setattr(watchman, "STALLED", 2 * SECOND)
    closed, never = NodeChange("close", "cordon", "fake"), NodeChange("open", "uncordon", "fake")
    ran = run((closed,), (submit(),), (wait(),), later={60.0: never}, settings={"clog": {"patience": 4 * SECOND}})
    assert ran.ending.outcome == "clogged"
    assert ran.ending.detail.startswith("never fits: ")
    assert 4 <= ran.end_s < 15
    assert ran.ending.stalls == [], "it is the clog"


def test_a_time_out_says_what_was_left(run: Runner) -> None:
    ran = run((submit(), submit("long", 1, seconds=600)), (wait(seconds=4),))
    assert ran.ending.outcome == "timeout"
    assert ran.ending.detail.startswith("completed-: after 4s 3 of 4 workloads were completed: still running: ")
    assert ran.ending.timed_out and ran.ending.timed_out.diagnosis.workloads == ("long-0",)
    assert ran.ending.notes == []


def test_a_time_out_counts_what_was_deleted_apart_from_what_was_reached(run: Runner) -> None:
    more = submit("gone", 1, seconds=600), submit("long", 1, seconds=600)
    ran = run((submit(), *more), (DeleteWorkloads("away", ("gone",)),), (wait(seconds=9),))
    assert ran.ending.detail.startswith("completed-: after 9s 3 of 5 workloads were completed, 1 ended without: still")


def test_a_time_out_that_goes_on_is_noted_and_disturbs_no_other_wait(run: Runner) -> None:
    both = (wait("completed", "stuck", seconds=4, go_on=True), wait("completed", "load"))
    ran = run((STUCK, submit()), both, (DeleteWorkloads("away", ("stuck",)),), (wait("deleted", "stuck"),))
    assert (ran.ending.outcome, ran.ending.detail) == ("completed", "")
    [note] = ran.ending.notes
    assert note.text.startswith("completed-stuck: after 4s 0 of 2 workloads were completed: never fits: ")
    assert note.text.endswith("; the run continued")
    assert (ran.counts["completed"], ran.counts["deleted"]) == (3, 2)


def test_a_clog_that_all_waits_outlive_is_noted(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchman, "ACTING", 3 * SECOND)
    steps = (
        (STUCK,),
        (Wait("first", "completed", timeout=MINUTE, go_on=True),),
        (DeleteWorkloads("away", ("stuck",)),),
        (wait("deleted"),),
    )
    ran = run(*steps)
    assert (ran.ending.outcome, ran.ending.clog) == ("completed", None)
    [note] = ran.ending.notes
    assert note.text.startswith("first: clogged, never fits: ")
    assert ran.ending.stalls == [], "it is told once"
