"""What is said when nothing moves: the kind, and a sentence that names workloads, nodes and amounts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.clog import KINDS, Diagnosis, diagnose
from seatrial.clog.wording import listing
from seatrial.model.plan import PodShape, Taint, Toleration
from seatrial.model.state import State
from seatrial.model.units import SECOND
from tests.clog.making import CORE, cores, gang, pods, state
from tests.clog.test_knots import states

GPUS = [{"cpu": 8 * CORE, "nvidia.com/gpu": 8}] * 2
SIXTEEN = PodShape({"nvidia.com/gpu": 16})
EIGHT = PodShape({"nvidia.com/gpu": 8})
QUIET = 45 * SECOND


def why(state: State, **more: object) -> Diagnosis:
    diagnosis = diagnose(state, QUIET, **more)  # type: ignore[arg-type]
    assert diagnosis.kind in KINDS
    assert diagnosis.summary[-1] in '.…"'
    assert "  " not in diagnosis.summary
    text = json.dumps(diagnosis.as_json(), allow_nan=False)
    assert json.loads(text)["kind"] == diagnosis.kind
    return diagnosis


def test_a_dead_component_comes_before_everything_else() -> None:
    clog = why(state(GPUS, [pods(1, 1, shape=SIXTEEN)]), dead=["kube-scheduler ended with status 1"])
    assert clog.kind == "controller dead"
    assert 'A component died: "kube-scheduler ended with status 1".' in clog.summary
    assert "job-1" in clog.summary


def test_a_pod_larger_than_any_node_never_fits() -> None:
    clog = why(state(GPUS, [pods(1, 1, shape=SIXTEEN)]))
    assert (clog.kind, clog.workloads, clog.proven) == ("never fits", ("job-1",), True)
    assert "a pod requests nvidia.com/gpu 16 and the largest node has nvidia.com/gpu 8" in clog.summary
    assert clog.amounts["largest node"] == {"nvidia.com/gpu": 8}
    assert clog.amounts["in all"] == {"nvidia.com/gpu": 16}


def test_the_same_pod_let_go_by_a_queue_is_admission_by_the_aggregate() -> None:
    clog = why(state(GPUS, [pods(1, 1, shape=SIXTEEN)], queued=True))
    assert clog.kind == "aggregate admission"
    assert "job-1 was admitted by the queue, but can never run" in clog.summary
    waiting = why(state(GPUS, [pods(1, 1, shape=SIXTEEN, admitted=False, waiting=0)], queued=True))
    assert waiting.kind == "never fits"


def test_a_gang_of_more_pods_than_the_nodes_have_room_for_is_too_large_even_if_each_pod_fits() -> None:
    clog = why(state(GPUS, [gang(1, 3, shape=EIGHT)], queued=True))
    assert clog.kind == "aggregate admission"
    assert "it needs 3 pods at once (nvidia.com/gpu 8 each) and the nodes have room for 2 when empty" in clog.summary
    assert why(state(GPUS, [gang(1, 3, shape=EIGHT)])).kind == "never fits"


def test_those_who_wait_for_the_quota_of_one_that_never_fits_are_named_behind_it() -> None:
    workloads = [pods(1, 1, shape=SIXTEEN), pods(2, 1, shape=EIGHT, admitted=False, waiting=0)]
    clog = why(state(GPUS, workloads, quota={"nvidia.com/gpu": 16}, queued=True))
    assert (clog.kind, clog.waiters) == ("aggregate admission", ("job-2",))
    assert "job-2 waits behind it, for its share of the quota" in clog.summary
    assert [(edge.holder, edge.where, edge.waiter) for edge in clog.edges] == [("job-1", "quota", "job-2")]


def test_more_than_the_quota_and_a_quota_of_nothing_never_fit() -> None:
    waiting = [gang(1, 4, admitted=False, waiting=0)]
    clog = why(state(cores(8), waiting, quota={"cpu": 6 * CORE}, queued=True))
    assert clog.kind == "never fits"
    assert "it requests cpu 8 in all and the queue admits at most cpu 6" in clog.summary
    assert "admits at most cpu 0" in why(state(cores(8), waiting, quota={"cpu": 0}, queued=True)).summary


def test_what_is_declared_counts_for_the_quota_and_what_is_asked_for_the_nodes() -> None:
    declares = gang(1, 2, admitted=False, waiting=0, declares={"cpu": 20 * CORE})
    clog = why(state(cores(8), [declares], quota={"cpu": 24 * CORE}, queued=True))
    assert "requests cpu 40 in all and the queue admits at most cpu 24" in clog.summary


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"taints": {0: (Taint("a"),), 1: (Taint("a"),)}},
            "it is allowed on no node; fake would have room (cpu 3), but has a taint that the pod does not tolerate "
            '(add "a:NoSchedule" to its tolerations)',
        ),
        ({"closed": [0, 1]}, "no node takes pods. 2 nodes of 2 take no pods."),
    ],
)
def test_nodes_that_let_nothing_on_are_said(wrong: dict[str, object], said: str) -> None:
    clog = why(state(cores(2), [gang(1, 1)], **wrong))
    assert clog.kind == "never fits"
    assert said in clog.summary
    assert clog.proven == ("closed" not in wrong)


TAINTED = Taint("dedicated", "gpu")


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (
            PodShape({"cpu": 4 * CORE}),
            "a pod requests cpu 4 and the largest node it is allowed on (free) has cpu 2; gpu would have room (cpu 8), but "
            'has a taint that the pod does not tolerate (add "dedicated=gpu:NoSchedule" to its tolerations).',
        ),
        (
            PodShape({"cpu": 4 * CORE}, {"pool": "gpu"}, tolerations=(Toleration(),)),
            "it is allowed on no node; gpu would have room (cpu 8), but has pool=other, and the pod selects pool=gpu",
        ),
        (
            PodShape({"cpu": 4 * CORE}, {}, (("zone", ("a", "b")),), (Toleration(),)),
            "gpu would have room (cpu 8), but has no label zone, and the pod selects zone=a or zone=b",
        ),
        (
            PodShape({"cpu": 16 * CORE}, tolerations=(Toleration(),)),
            "a pod requests cpu 16 and the largest node has cpu 8.",
        ),
        (
            PodShape({"cpu": 16 * CORE}),
            "a pod requests cpu 16 and the largest node it is allowed on (free) has cpu 2.",
        ),
    ],
)
def test_the_group_that_would_have_room_is_named_with_what_keeps_the_pod_off_and_what_to_change(
    shape: PodShape, said: str
) -> None:
    """One node of two cores that takes everybody, one of eight that is tainted."""
    mixed = state([{"cpu": 2 * CORE}, {"cpu": 8 * CORE}], [pods(1, 1, shape=shape)], taints={1: (TAINTED,)})
    free, gpu = mixed.nodes
    nodes = (replace(free, group="free"), replace(gpu, group="gpu", labels={"pool": "other"}))
    clog = why(replace(mixed, nodes=nodes))
    assert (clog.kind, clog.proven) == ("never fits", True)
    assert said in clog.summary


def test_a_gang_too_large_for_the_nodes_it_may_stand_on_is_told_of_the_others() -> None:
    mixed = state([{"cpu": 2 * CORE}, {"cpu": 8 * CORE}], [gang(1, 2)], taints={1: (TAINTED,)})
    summary = why(mixed).summary
    assert "the nodes have room for 1 when empty; fake would have room" in summary
    assert '"dedicated=gpu:NoSchedule"' in summary


def test_no_nodes_at_all() -> None:
    assert "there are no nodes" in why(state([], [gang(1, 1)])).summary


def test_resources_that_no_single_node_has_together() -> None:
    both = PodShape({"cpu": 4 * CORE, "gpu": 1})
    clog = why(state([{"cpu": 8 * CORE}, {"cpu": CORE, "gpu": 1}], [pods(1, 1, shape=both)]))
    assert "no single node has everything that a pod requests (cpu 4, gpu 1)" in clog.summary


def test_half_placed_gangs_are_a_deadlock_even_beside_one_that_never_fits() -> None:
    clog = why(state(cores(4), [gang(1, 9), gang(2, 3, [0, 1]), gang(3, 3, [2, 3])]))
    assert (clog.kind, clog.workloads, clog.proven) == ("gang deadlock", ("gang-2", "gang-3"), True)


def test_a_deadlock_that_only_holds_as_long_as_a_node_is_closed_is_said_and_not_proven() -> None:
    clog = why(state(cores(3), [gang(1, 2, [0]), gang(2, 2, [1])], closed=[2]))
    assert (clog.kind, clog.proven) == ("gang deadlock", False)


def test_a_quota_held_by_one_that_cannot_finish() -> None:
    holder = gang(1, 3, [0, 1, 2], stage="scheduled")  # bound and never started
    waiting = [gang(n, 6, admitted=False, waiting=0) for n in (2, 3)]
    clog = why(state(cores(8), [holder, *waiting], quota={"cpu": 16 * CORE}, queued=True))
    assert (clog.kind, clog.workloads, clog.waiters) == ("quota exhausted", ("gang-1",), ("gang-2", "gang-3"))
    assert "gang-1 holds cpu 6 of the quota of cpu 16 and cannot finish" in clog.summary
    assert "has bound pods that the nodes do not start" in clog.summary
    assert "gang-2 waits for cpu 12 and cpu 10 is left; 1 more wait with it" in clog.summary
    assert clog.amounts["left"] == {"cpu": 10 * CORE}


def test_the_head_of_the_line_blocks_what_would_fit() -> None:
    holder = gang(1, 4, [0, 1, 2, 3], running=4)
    line = [gang(2, 6, admitted=False, waiting=0), gang(3, 2, admitted=False, waiting=0)]
    clog = why(state(cores(8), [holder, *line], quota={"cpu": 16 * CORE}, queued=True))
    assert (clog.kind, clog.workloads, clog.waiters) == ("head of line", ("gang-2",), ("gang-3",))
    assert "it requests cpu 12 and cpu 8 is left of the quota" in clog.summary
    without_quota = why(state(cores(8), [holder, *line], queued=True))
    assert "needs room for 6 pods (cpu 2 each) and there is room for 4" in without_quota.summary


def test_a_higher_priority_is_the_head_of_the_line() -> None:
    urgent = PodShape({"cpu": 2 * CORE}, priority=5)
    line = [gang(2, 2, admitted=False, waiting=0), gang(3, 6, admitted=False, waiting=0, shape=urgent)]
    clog = why(state(cores(8), [gang(1, 4, [0, 1, 2, 3], running=4), *line], queued=True))
    assert clog.workloads == ("gang-3",)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (gang(1, 2, admitted=False, waiting=0), "gang-1 would fit, and the queue does not admit it"),
        (gang(1, 2, waiting=0), "gang-1 may run, and the Job controller does not create its pods"),
        (gang(1, 2, waiting=0, said="FailedCreate: no"), "gang-1 may run, and its pods cannot be created"),
        (gang(1, 2), "gang-1 has pods that would fit, and the scheduler does not place them"),
        (gang(1, 2, [0, 1]), "gang-1 has bound pods that the nodes do not start"),
        (gang(1, 2, [0, 1], running=2, due=50 * SECOND), "gang-1 has run for its duration, and its pods do not end"),
        (gang(1, 2, finished=2), "gang-1 has finished all its pods, and the Job controller does not complete it"),
    ],
)
def test_one_who_could_act_and_does_not_is_named(workload: object, said: str) -> None:
    clog = why(state(cores(4), [workload], queued=True))  # type: ignore[list-item]
    assert clog.kind == "not acting"
    assert said in clog.summary
    assert "nothing has moved for 45s" in clog.summary


def test_what_the_queue_says_is_quoted() -> None:
    said = "LocalQueue seatrial/main doesn't exist"
    clog = why(state(cores(4), [gang(n, 2, admitted=False, waiting=0, said=said) for n in range(5)], queued=True))
    assert f'Messages: "{said}".' in clog.summary
    assert clog.words == (said,)
    assert "gang-0, gang-1 and 3 more would fit, and the queue does not admit them" in clog.summary


def test_trouble_is_quoted_first_and_is_a_reason_by_itself() -> None:
    trouble = 'failed calling webhook "vworkload.kb.io": x509: certificate signed by unknown authority'
    clog = why(state(cores(4), [gang(1, 2, [0, 1], running=2)], troubles=(trouble,)))
    assert clog.kind == "not acting"
    assert "x509" in clog.summary
    assert trouble in clog.words


def test_workloads_that_take_turns_are_a_livelock_and_the_time_out_is_named() -> None:
    half = state(cores(4), [gang(1, 3, [0, 1]), gang(2, 3, [2, 3]), gang(3, 2)])
    clog = why(half, moving=["gang-1", "gang-2"], releases=[10 * SECOND])
    assert (clog.kind, clog.workloads, clog.waiters) == ("livelock", ("gang-1", "gang-2"), ("gang-3",))
    assert "gang-1 and gang-2 fail in turn" in clog.summary
    assert "after 10s" in clog.summary
    assert "At this moment gang-1 holds 2 nodes" in clog.summary
    assert clog.edges
    assert why(half, moving=["gang-1", "gang-2"]).kind == "gang deadlock"  # nothing would ever free them


def test_one_that_never_fits_and_tries_again_and_again_is_no_livelock() -> None:
    clog = why(state(cores(4), [gang(1, 6, [0, 1]), gang(2, 2)]), moving=["gang-1"], releases=[10 * SECOND])
    assert (clog.kind, clog.waiters) == ("never fits", ("gang-2",))


def test_what_nobody_can_explain_is_described() -> None:
    clog = why(state(cores(2), [gang(1, 2, [0, 1], running=2, due=200 * SECOND), gang(2, 1)]))
    assert clog.kind == "unknown"
    assert "Nothing has moved for 45s" in clog.summary
    assert "gang-1 holds 2 nodes" in clog.summary
    assert "gang-2 waits" in clog.summary


def test_every_kind_is_described() -> None:
    page = (Path(__file__).parents[2] / "docs" / "clogs.md").read_text(encoding="utf-8")
    assert not [kind for kind in KINDS if f"| `{kind}` |" not in page]
    assert not [field for field in why(state([], [gang(1, 1)])).as_json() if f"`{field}`" not in page]


def test_lists_are_short() -> None:
    assert listing([]) == ""
    assert listing(["a"]) == "a"
    assert listing(["a", "b", "c"]) == "a, b and c"
    assert listing([f"gang-{n}" for n in range(13)]) == "gang-0, gang-1 and 11 more"


@settings(max_examples=300, deadline=None)
@given(states(), st.data())
def test_whatever_the_state_there_is_a_well_formed_answer(state: State, data: st.DataObject) -> None:
    moving = data.draw(st.lists(st.sampled_from([w.name for w in state.workloads]), unique=True))
    quota = data.draw(st.none() | st.fixed_dictionaries({"cpu": st.integers(0, 8).map(lambda n: n * CORE)}))
    changed = State(state.at, state.nodes, state.workloads, quota, queued=data.draw(st.booleans()))
    clog = why(changed, moving=moving, releases=data.draw(st.lists(st.just(SECOND))))
    named = {w.name for w in state.workloads}
    assert set(clog.workloads) | set(clog.waiters) <= named
    assert set(clog.nodes) <= {node.name for node in state.nodes}
    assert len(clog.summary) < 2000
