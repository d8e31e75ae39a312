"""Properties over random scenarios: whatever is asked of the simulator, these hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.model.plan import NodeGroup, Pace, PodShape, Span, Step, Taint, Toleration, Trial
from seatrial.model.units import MILLISECOND, MINUTE
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from tests.sim.making import Ran, run, trial

GI = 1 << 30

seconds = st.integers(0, 20_000).map(lambda ms: ms * MILLISECOND)
spans = st.builds(lambda a, b: Span(min(a, b), max(a, b)), seconds, seconds)
taints = st.sampled_from([(), (Taint("a"),), (Taint("b", "x"), Taint("c", "", "PreferNoSchedule"))])


@st.composite
def groups(draw: st.DrawFn, name: str) -> NodeGroup:
    capacity = {
        "cpu": draw(st.integers(0, 8000)),
        "memory": draw(st.integers(1, 16)) * GI,
        "pods": draw(st.integers(0, 12)),
        "nvidia.com/gpu": draw(st.integers(0, 8)),
    }
    return NodeGroup(
        name, draw(st.integers(1, 5)), capacity, {"zone": draw(st.sampled_from("ab"))}, draw(taints),
        draw(st.booleans()), draw(spans), draw(spans),
    )  # fmt: skip


shapes = st.builds(
    PodShape,
    st.fixed_dictionaries(
        {},
        optional={"cpu": st.integers(1, 5000), "memory": st.integers(1, 4 * GI), "nvidia.com/gpu": st.integers(1, 4)},
    ),
    selector=st.sampled_from([{}, {}, {"zone": "a"}]),
    tolerations=st.sampled_from([(Toleration(),), (), (Toleration("a"),)]),
    priority=st.integers(-5, 5),
    spread=st.booleans(),
)
paces = st.one_of(
    st.just(Pace()),
    st.builds(Pace, st.sampled_from(["rate", "poisson"]), st.floats(0.2, 100)),
    st.builds(
        lambda kind, size, every: Pace(kind, 0, size, every),
        st.sampled_from(["burst", "rounds"]),
        st.integers(1, 5),
        seconds,
    ),
)


@st.composite
def submits(draw: st.DrawFn, name: str) -> Submit:
    return Submit(
        name, draw(st.integers(0, 12)), tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))),
        draw(st.booleans()), draw(shapes), draw(seconds), draw(st.booleans()), None, draw(paces),
    )  # fmt: skip


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    first = draw(groups("first"))
    change = st.sampled_from(["remove", "cordon", "uncordon"])
    steps: list[Step] = [(draw(submits("one")), draw(submits("two")))]
    for number in range(draw(st.integers(0, 3))):
        added = draw(groups(f"more-{number}"))
        nodes = draw(st.sampled_from([
            NodeChange("n", "add", added.name, None, added),
            NodeChange("n", draw(change), "first", draw(st.integers(1, 3))),
        ]))  # fmt: skip
        steps += [(Pause("p", draw(seconds)),), (nodes,)]
    steps.append((Wait("end", "completed", timeout=5 * MINUTE),))
    return trial(
        *steps,
        nodes=[first],
        stack=draw(st.sampled_from(["default", "mcad", "gang", "fluence"])),
        qps=draw(st.one_of(st.sampled_from(["as shipped", "unlimited"]), st.just(5.0))),
        settings={"mcad": {"version": draw(st.sampled_from(["1.32", "1.40"]))}},
        rate=draw(st.sampled_from([None, 3.0])),
        seed=draw(st.integers(0, 2**32)),
    )


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(trials())
def test_whatever_happens_the_books_are_right(asked: Trial) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ran = run(asked, Path(folder))
    _time_never_runs_back(ran)
    _no_node_is_over_its_capacity(ran, asked)
    _stages_come_in_lifecycle_order(ran, asked)
    _everything_is_accounted_for(ran, asked)


def _time_never_runs_back(ran: Ran) -> None:
    assert ran.seen["at_ns"].is_sorted()
    assert ran.cluster.now() >= (ran.seen["at_ns"].max() or 0)  # type: ignore[operator]


def _no_node_is_over_its_capacity(ran: Ran, asked: Trial) -> None:
    """From bound to finished or lost a pod holds its node; replayed in the order of the observations."""
    sim = ran.cluster._sim
    held: dict[int, dict[str, int]] = {}
    places: dict[int, int] = {}
    shape_of = {pod: sim.pods.shape[pod] for pod in range(len(sim.pods.job))}
    assert not ran.count("deleted")
    for row in ran.seen.filter(pl.col("stage").is_in(["scheduled", "finished", "lost"])).iter_rows(named=True):
        pod = row["object"]
        requests = {**shape_of[pod].requests, "pods": 1}
        if row["stage"] == "scheduled":
            places[pod] = row["node"]
        node = places.pop(pod, None) if row["stage"] != "scheduled" else row["node"]
        if node is None:
            continue  # lost before it was bound
        sign = 1 if row["stage"] == "scheduled" else -1
        on_node = held.setdefault(node, {})
        for name, amount in requests.items():
            on_node[name] = on_node.get(name, 0) + sign * amount
            assert on_node[name] <= sim.nodes.groups[node].capacity.get(name, 0), (asked, node, name)
    for resource, column in enumerate(sim.nodes.free):
        assert all(0 <= free <= sim.nodes.capacity[resource][node] for node, free in enumerate(column))


def _stages_come_in_lifecycle_order(ran: Ran, asked: Trial) -> None:
    order = {stage.name: number for number, stage in enumerate(stacks.find(asked.setup.stack).stages)}
    of_pods = ["pods_created", "scheduled", "running", "finished"]
    for kind in (pl.col("stage").is_in(of_pods), ~pl.col("stage").is_in([*of_pods, "lost"])):
        steps = (
            ran.seen.filter(kind)
            .with_columns(pl.col("stage").replace_strict(order, return_dtype=pl.Int32).alias("place"))
            .sort("object", "place", maintain_order=True)
        )
        again = steps.group_by("object", "stage").len()
        assert (again["len"] == 1).all(), "an object reaches a stage once"
        assert (
            steps.group_by("object", maintain_order=True)
            .agg(pl.col("at_ns").diff().min())["at_ns"]
            .fill_null(0)
            .ge(0)
            .all()
        )


def _everything_is_accounted_for(ran: Ran, asked: Trial) -> None:
    submitted, completed = ran.count("submitted"), ran.count("completed")
    assert submitted <= sum(submit.count for submit in asked.phases(Submit))
    assert completed + ran.count("failed") + ran.count("deleted") <= submitted
    if ran.ending.outcome == "completed":
        assert completed == submitted == sum(submit.count for submit in asked.phases(Submit))
    else:
        assert ran.ending.outcome in ("timeout", "clogged")
        assert completed < sum(submit.count for submit in asked.phases(Submit))
