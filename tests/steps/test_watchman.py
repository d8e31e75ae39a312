"""Clogs are noticed while the steps wait: a proven knot at once, others soon after the last thing that could move them, and
nothing that is only slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.clusters.sim_cluster import SimCluster
from seatrial.model.plan import NodeGroup, PodShape, Span, Step, Toleration, Trial, Workload
from seatrial.model.settings import Settings
from seatrial.model.state import State
from seatrial.model.units import HOUR, MINUTE, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.sim.framework import ALLOW, POD_GONE, SchedulerPlugin
from seatrial.stacks.base import StackBase
from seatrial.steps.watchman import STALLED, Clog, Watchman
from tests.sim.making import GI, Ran, fakes, run, submit, to_the_end, trial

TWO_CORES = PodShape({"cpu": 2000}, tolerations=(Toleration(),), spread=True)
DAY = 24 * HOUR
LATEST = 30 * SECOND  # after the last thing that could still move it


def gangs(name: str, *sizes: int, seconds: float = 5) -> Submit:
    return Submit(name, len(sizes), sizes, False, TWO_CORES, int(seconds * SECOND), gang=True)


KNOTTED = trial(*to_the_end(gangs("load", 3, 3, 3, 3, 3, 3)), nodes=[fakes(4, cpu=3000)])


def last_move(ran: Ran) -> int:
    return int(ran.seen["at_ns"].max())  # type: ignore[arg-type]


def clogged(ran: Ran, kind: str) -> int:
    """When it was said."""
    assert ran.ending.outcome == "clogged", ran.ending.detail
    assert ran.ending.clog
    assert ran.ending.clog.diagnosis.kind == kind
    assert kind in ran.ending.detail
    return ran.ending.clog.at


def test_a_knot_is_said_at_once(tmp_path: Path) -> None:
    """Six gangs of three on four nodes: each of the first four gets one."""
    ran = run(KNOTTED, tmp_path)
    assert clogged(ran, "gang deadlock") - last_move(ran) <= 2 * SECOND
    assert ran.ending.clog and ran.ending.clog.diagnosis.proven
    assert len(ran.ending.clog.diagnosis.workloads) >= 2
    assert len(ran.ending.clog.diagnosis.nodes) == 4


def test_the_run_goes_on_while_others_can_finish(tmp_path: Path) -> None:
    """The knot is known while the gang on the other nodes still runs; that gang finishes nevertheless."""
    other = NodeGroup("other", 2, {"cpu": 3000, "memory": GI, "pods": 110}, {"pool": "other"})
    mine = PodShape({"cpu": 2000}, {"pool": "other"}, tolerations=(Toleration(),))
    fixed = Submit("fixed", 1, (2,), False, mine, 60 * SECOND, gang=True)
    knotted = PodShape({"cpu": 2000, "nvidia.com/gpu": 1}, tolerations=(Toleration(),))
    tangled = Submit("load", 6, (3,), False, knotted, SECOND, gang=True)
    nodes = [fakes(4, cpu=3000, **{"nvidia.com/gpu": 1}), other]
    ran = run(trial((fixed, tangled), (Wait("done", "completed"),), nodes=nodes), tmp_path)
    assert clogged(ran, "gang deadlock") < 10 * SECOND
    assert ran.count("completed") == 1
    assert ran.end_s > 60


def test_what_fits_nowhere_is_said_soon(tmp_path: Path) -> None:
    ran = run(trial(*to_the_end(submit(1, shape=PodShape({"cpu": 99_000}))), nodes=[fakes()]), tmp_path)
    assert clogged(ran, "never fits") - last_move(ran) <= LATEST


def test_a_queue_gets_its_own_time_out_first(tmp_path: Path) -> None:
    """MCAD sleeps 20 s when there is no room: only after that can one say that it does not help."""
    huge = submit(1, pods=5, shape=PodShape({"cpu": 31_000}, tolerations=(Toleration(),)))
    ran = run(trial(*to_the_end(huge), nodes=[fakes(4)], stack="mcad"), tmp_path)
    said = clogged(ran, "never fits") - last_move(ran)
    assert 20 * SECOND < said <= 20 * SECOND + LATEST


def test_long_runs_and_long_starts_are_no_clog(tmp_path: Path) -> None:
    slow = NodeGroup("slow", 1, {"cpu": 4000, "memory": GI, "pods": 110}, start=Span(5 * MINUTE))
    ran = run(trial(*to_the_end(submit(3, seconds=3000)), nodes=[slow]), tmp_path)
    assert ran.ending.outcome == "completed"


def test_a_pod_that_ends_later_than_one_that_began_after_it_is_no_clog(tmp_path: Path) -> None:
    """The replacement of a lost pod goes on at its checkpoint, and ends half an hour before the other pod of its workload."""
    whole = PodShape({"cpu": 4000}, tolerations=(Toleration(),))
    long = Submit("long", 1, (2,), False, whole, 3000 * SECOND, checkpoint=10 * SECOND)
    first, more = (
        NodeGroup(name, n, {"cpu": 4000, "memory": GI, "pods": 110}) for name, n in (("first", 1), ("more", 2))
    )
    steps: tuple[Step, ...] = (
        (long,), (Pause("progress", 1400 * SECOND),), (NodeChange("add", "add", "more", add=more),), (Pause("b", 10 * SECOND),),
        (NodeChange("gone", "remove", "first"),), (Wait("done", "completed", timeout=2 * HOUR),),
    )  # fmt: skip
    ran = run(trial(*steps, nodes=[first]), tmp_path)
    assert ran.ending.outcome == "completed", ran.ending.detail
    assert not ran.ending.stalls


def test_a_pause_is_no_clog_and_nodes_that_come_are_waited_for(tmp_path: Path) -> None:
    """Nothing moves for five minutes, but the steps have not done all yet."""
    steps = (
        (submit(2),),
        (Pause("later", 5 * MINUTE),),
        (NodeChange("more", "add", "fake", add=fakes(1)),),
        (Wait("done", "completed"),),
    )
    assert run(trial(*steps, nodes=[fakes(1, cpu=50)]), tmp_path).ending.outcome == "completed"


def test_a_wait_that_goes_on_notes_the_clog(tmp_path: Path) -> None:
    steps = (
        (submit(1, shape=PodShape({"cpu": 99_000})),),
        (Wait("first", "completed", go_on=True),),
        (DeleteWorkloads("away", ("load",)),),
        (Wait("second", "completed"),),
    )
    ran = run(trial(*steps, nodes=[fakes()]), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.ending.clog is None
    [note] = ran.ending.notes
    assert "first: clogged, never fits" in note.text
    assert ran.ending.stalls == [], "it is told once"


class _Fickle(SchedulerPlugin):
    """Holds every pod's node for five seconds and then thinks better of it."""

    helped_by = POD_GONE

    def permit(self, pod: int) -> int:  # noqa: ARG002
        return 5 * SECOND


class _Turns(StackBase):
    name = "turns"

    def model(self, sim: Any, settings: Settings) -> Callable[[int, Workload], None]:
        sim.scheduler.use(_Fickle())
        return super().model(sim, settings)

    def releases(self, settings: Settings) -> tuple[int, ...]:  # noqa: ARG002
        return (5 * SECOND,)


def test_taking_turns_in_failing_is_a_livelock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One node, two pods: whichever has it gives it back, and the other takes it."""
    whole = PodShape({"cpu": 3000}, tolerations=(Toleration(),))
    tried = trial(*to_the_end(submit(2, shape=whole)), nodes=[fakes(1, cpu=3000)])
    monkeypatch.setattr(stacks, "find", lambda _name: _Turns())
    ran = run(tried, tmp_path)
    period = 5 * SECOND + LATEST
    assert STALLED <= clogged(ran, "livelock") - last_move(ran) <= 2 * period
    assert 10 * MINUTE <= ran.end_s * SECOND - last_move(ran) <= 11 * MINUTE, "for it might have resolved by chance"
    assert ran.ending.stalls == [], "it is the clog"
    assert ran.ending.clog and set(ran.ending.clog.diagnosis.workloads) == {"load-0", "load-1"}


class _Hesitant(_Fickle):
    """And after a while it does not."""

    def __init__(self, sim: Any, wait: int, until: int) -> None:
        self._sim, self._wait, self._until = sim, wait, until

    def permit(self, pod: int) -> int:  # noqa: ARG002
        return self._wait if self._sim.kernel.now < self._until else ALLOW


class _Resolves(StackBase):
    name = "resolves"

    def __init__(self, wait: int, after: int) -> None:
        self._wait, self._after = wait, after

    def model(self, sim: Any, settings: Settings) -> Callable[[int, Workload], None]:
        sim.scheduler.use(_Hesitant(sim, self._wait, self._after))
        return super().model(sim, settings)

    def releases(self, settings: Settings) -> tuple[int, ...]:  # noqa: ARG002
        return (self._wait,)


WHOLE_NODE = PodShape({"cpu": 3000}, tolerations=(Toleration(),))


def resolving(wait: int, after: int, directory: Path, monkeypatch: pytest.MonkeyPatch, **settings: int) -> Ran:
    """Two pods for one node, turned down until the moment `after`."""
    more = {"clog": settings} if settings else {}
    tried = trial(*to_the_end(submit(2, shape=WHOLE_NODE)), nodes=[fakes(1, cpu=3000)], settings=more)
    monkeypatch.setattr(stacks, "find", lambda _name: _Resolves(wait, after))
    return run(tried, directory)


@pytest.mark.parametrize("wait", [2, 10, 60])
def test_a_stall_that_resolves_is_no_clog_whatever_the_time_out(
    wait: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = resolving(wait * SECOND, 5 * MINUTE, tmp_path, monkeypatch)
    assert (ran.ending.outcome, ran.ending.clog) == ("completed", None)
    [stall] = ran.ending.stalls
    assert stall.resolved
    assert stall.kind == "livelock" or wait > 30, "with a longer time-out nobody had failed yet when it was noticed"
    assert stall.from_ns < SECOND
    assert stall.noticed_ns - stall.from_ns < 32 * SECOND, "noticed at the same time for all time-outs"
    assert stall.until_ns == min(ran.seen.filter(ran.seen["stage"] == "scheduled")["at_ns"])
    assert 5 * MINUTE <= stall.until_ns <= 5 * MINUTE + wait * SECOND + LATEST


def test_patience_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = resolving(5 * SECOND, 5 * MINUTE, tmp_path / "short", monkeypatch, patience=2 * MINUTE)
    clogged(ran, "livelock")
    assert ran.end_s < 140
    assert resolving(5 * SECOND, 30 * MINUTE, tmp_path / "long", monkeypatch, patience=HOUR).ending.clog is None


def test_a_stall_that_ends_with_the_wait_did_not_resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = trial(
        (submit(2, shape=WHOLE_NODE),), (Wait("done", "completed", timeout=2 * MINUTE),), nodes=[fakes(1, cpu=3000)]
    )
    monkeypatch.setattr(stacks, "find", lambda _name: _Resolves(5 * SECOND, HOUR))
    ran = run(tried, tmp_path)
    assert ran.ending.outcome == "timeout"
    [stall] = ran.ending.stalls
    assert not stall.resolved
    assert stall.until_ns >= 2 * MINUTE


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often the watchman looked, and asked for the state."""
    count = {"looks": 0, "states": 0}
    look, state = Watchman._look, SimCluster.state

    def counted_look(self: Watchman, now: int) -> Clog | None:
        count["looks"] += 1
        return look(self, now)

    def counted_state(self: SimCluster) -> State:
        count["states"] += 1
        return state(self)

    monkeypatch.setattr(Watchman, "_look", counted_look)
    monkeypatch.setattr(SimCluster, "state", counted_state)
    return count


def test_time_in_which_nothing_happens_costs_nothing(tmp_path: Path, looks: dict[str, int]) -> None:
    """A day with one job, 400 days with none, and another job, on 1,500 nodes."""
    steps = (
        (submit(1, seconds=24 * 3600),),
        (Wait("first", "completed", timeout=500 * DAY),),
        (Pause("idle", 400 * DAY),),
        (replace(submit(1), name="again"),),
        (Wait("second", "completed", timeout=500 * DAY),),
    )
    ran = run(trial(*steps, nodes=[fakes(1500)]), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.end_s * SECOND > 401 * DAY
    assert looks["looks"] < 20
    assert looks["states"] == 0


def test_a_wait_for_more_than_there_is_ends_with_its_time_out(tmp_path: Path, looks: dict[str, int]) -> None:
    """Everything is over, so nothing clogs; nor is anything looked at again and again."""
    ran = run(trial((submit(1),), (Wait("two", "completed", count=2, timeout=DAY),)), tmp_path)
    assert ran.ending.outcome == "timeout"
    assert ran.ending.stalls == []
    assert looks["looks"] < 20


def test_looks_follow_events(tmp_path: Path, looks: dict[str, int]) -> None:
    """A gang after another for a week: what can be a knot is looked for when something has happened, and only then."""
    gangs = 7 * 24
    whole = PodShape({"cpu": 32_000}, tolerations=(Toleration(),))
    load = submit(gangs, pods=4, gang=True, seconds=3600, shape=whole)
    ran = run(trial((load,), (Wait("done", "completed", timeout=30 * DAY),), stack="gang"), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.end_s * SECOND > 7 * DAY
    assert looks["looks"] < 10 * gangs
    assert looks["states"] == 0


def test_the_same_seed_gives_the_same_moment(tmp_path: Path) -> None:
    first, second = (run(KNOTTED, tmp_path / name).ending.clog for name in "ab")
    assert first and second
    assert first.as_json() == second.as_json()


@st.composite
def feasible(draw: st.DrawFn) -> Trial:
    """Whatever these ask for comes about in the end: every pod fits a node, and gangs come one after another where the scheduler
    does not keep them apart."""
    count, cores = draw(st.integers(1, 6)), draw(st.integers(2, 8))
    start = Span(draw(st.sampled_from([0, SECOND, 2 * MINUTE])))
    nodes = [NodeGroup("fake", count, {"cpu": cores * 1000, "memory": GI, "pods": 110}, start=start)]
    stack = draw(st.sampled_from(["default", "mcad", "kueue", "gang", "fluence", "coscheduling"]))
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 3))):
        shape = PodShape({"cpu": draw(st.integers(1, cores)) * 1000}, tolerations=(Toleration(),))
        seconds = draw(st.sampled_from([0.5, 5, 90, 400]))
        gang = draw(st.booleans())
        pods = draw(st.integers(1, count))
        many = 1 if gang and stack not in ("gang", "fluence", "coscheduling") else draw(st.integers(1, 8))
        name = f"load{number}"
        steps.append((Submit(name, many, (pods,), False, shape, int(seconds * SECOND), gang=gang),))
        steps.append((Wait(f"wait{number}", "completed", timeout=24 * HOUR),))
    return trial(*steps, nodes=nodes, stack=stack, seed=draw(st.integers(0, 99)))


@settings(max_examples=200, deadline=None)
@given(feasible())
def test_no_false_alarm(tried: Trial) -> None:
    with TemporaryDirectory() as folder:
        ran = run(tried, Path(folder))
    assert ran.ending.outcome == "completed", ran.ending.detail


@pytest.mark.parametrize("seed", range(50))
def test_no_missed_one(seed: int, tmp_path: Path) -> None:
    """Twice as many gangs as nodes, each with more than one pod: in the end every node is held by a gang that cannot begin."""
    nodes = 3 + seed % 6
    sizes = [2 + (seed * 7 + n * n) % (nodes - 1) for n in range(2 * nodes)]
    tried = trial(*to_the_end(gangs("load", *sizes)), nodes=[fakes(nodes, cpu=3000)], seed=seed)
    ran = run(tried, tmp_path)
    assert clogged(ran, "gang deadlock") - last_move(ran) <= 2 * SECOND
