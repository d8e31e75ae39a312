"""Phases that submit side by side share one client: its rate, not each other's clocks."""

from __future__ import annotations

import json
import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.model.load import latest
from seatrial.model.plan import Pace
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.study.trials import run_trial
from tests.sim.making import SMALL, Ran, fakes, run, to_the_end, trial

CLIENT = 50.0  # per second


def _phase(name: str, count: int, pace: Pace) -> Submit:
    return Submit(name, count, (1,), False, SMALL, SECOND, pace=pace)


def _sent(ran: Ran, phase: Submit) -> list[int]:
    """When each workload of the phase was submitted, in ns; times are kept as seconds, so to the nearest one."""
    ledger = ran.cluster.ledger
    number = ledger.phase(phase.name)
    return [
        round(at * SECOND) for at, of in zip(ran.times("submitted"), ledger.workload_phase, strict=True) if of == number
    ]


def test_a_frequent_phase_beside_a_rare_one_keeps_its_pace(tmp_path: Path) -> None:
    """20/m beside 4/m were sent at 0, 3, 15, 30 s and then thirty at once."""
    step = (_phase("often", 40, Pace("rate", 20 / 60)), _phase("rare", 4, Pace("rate", 4 / 60)))
    ran = run(trial(*to_the_end(*step)), tmp_path)
    for phase, gap in zip(step, (3, 15), strict=True):
        sent = _sent(ran, phase)
        assert all(abs(b - a - gap * SECOND) < 2 * MILLISECOND for a, b in pairwise(sent))


@st.composite
def side_by_side(draw: st.DrawFn) -> tuple[tuple[Submit, ...], float]:
    """Even rates and bursts that together ask for a share of the client's rate, and that share."""
    weights = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=5))
    share = draw(st.floats(0.02, 0.95))
    phases = []
    for number, weight in enumerate(weights):
        per_s = CLIENT * share * weight / sum(weights)
        size = draw(st.sampled_from([1, 1, 1, 4, 20]))
        pace = Pace("rate", per_s) if size == 1 else Pace("burst", size=size, every=int(size * SECOND / per_s))
        phases.append(_phase(f"p{number}", draw(st.integers(1, 60)), pace))
    return tuple(phases), share


@given(side_by_side())
@settings(deadline=None)
def test_phases_that_are_together_below_the_clients_rate_get_each_its_own_pace(
    drawn: tuple[tuple[Submit, ...], float],
) -> None:
    """What is due at once is sent within a bounded time, and an even phase waits at most one turn of each of the others."""
    step, share = drawn
    with tempfile.TemporaryDirectory() as folder:
        ran = run(trial(*to_the_end(*step), nodes=[fakes(40)], rate=CLIENT), Path(folder))
    tallies = {tally.phase: tally for tally in ran.ending.tallies}
    at_once = sum(phase.pace.size if phase.pace.kind == "burst" else 1 for phase in step)
    for phase in step:
        sent, due = _sent(ran, phase), phase.load(1).due
        assert due is not None
        late = [at - wanted for at, wanted in zip(sent, due.tolist(), strict=True)]
        turns = at_once / (1 - share)  # at most, until the client has caught up with everything
        if phase.pace.kind == "rate" and phase.pace.per_s <= CLIENT / len(step):
            turns = len(step)
        assert min(late) >= -1
        assert max(late) <= turns * SECOND / CLIENT + 1
        assert abs(tallies[phase.name].late_ns - latest(due, sent)) <= 1


def test_a_phase_beside_one_that_takes_all_the_client_has_still_gets_its_turns(tmp_path: Path) -> None:
    step = (
        _phase("flood", 500, Pace("at-once")),
        _phase("rounds", 200, Pace("rounds", size=100)),
        _phase("even", 10, Pace("rate", 1)),
    )
    ran = run(trial(*to_the_end(*step), nodes=[fakes(40)], rate=CLIENT), tmp_path)
    even = _sent(ran, step[-1])
    assert all(at - second * SECOND <= 3 * SECOND / CLIENT for second, at in enumerate(even))


def test_a_stall_that_is_made_up_for_later_makes_the_trial_invalid_and_names_the_phase(tmp_path: Path) -> None:
    """The mean rate of the whole phase is what was asked for: only the moments at which workloads were sent show the stall."""
    floods = (_phase("flood", 60, Pace("at-once")), _phase("more", 60, Pace("at-once")))
    step = (*floods, _phase("even", 200, Pace("rate", 5)))
    run_trial(trial(*to_the_end(*step), nodes=[fakes(40)], rate=10), tmp_path / "trial", lambda *_: None)
    validity = json.loads((tmp_path / "trial" / "trial.json").read_text())["validity"]
    even = next(rate for rate in validity["rates"] if rate["phase"] == "even")
    assert even["achieved_per_s"] > 0.99 * even["wanted_per_s"]
    assert even["late_s"] > 5
    assert not validity["valid"]
    [doubt] = validity["reasons"]
    late = f"even: workloads were sent up to {even['late_s']:.3g} s after they were due; 5/s was asked for"
    assert (doubt["reason"], doubt["touches"]) == (late, ["times", "rates"])
