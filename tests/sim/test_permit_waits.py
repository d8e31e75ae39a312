"""Waits in permit: each ends at its own time or when the pod is let go, and one event serves them all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.units import SECOND
from seatrial.sim.kernel import Kernel
from seatrial.sim.permit_waits import PermitWaits

MOMENTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 5), st.sampled_from([3, 10]), st.integers(0, 20)), max_size=30
)


@given(MOMENTS)
def test_a_pod_is_timed_out_exactly_if_it_still_waits_when_its_time_is_over(
    asked: list[tuple[int, int, int, int]],
) -> None:
    """Each: from when, which pod, for how long at most, let go after how long. A pod that holds again waits anew."""
    kernel = Kernel()
    found: list[tuple[int, int]] = []

    def time_out(pod: int) -> None:
        found.append((kernel.now, pod))
        del waits.holding[pod]

    waits: PermitWaits[object] = PermitWaits(kernel, time_out)
    expected: list[tuple[int, int]] = []
    free_at: dict[int, int] = {}
    for begins, pod, wait, lasts in sorted(asked):
        if free_at.get(pod, -1) >= begins:
            continue  # a pod holds one node at a time
        free_at[pod] = begins + min(wait, lasts)
        held = object()
        kernel.at(begins, lambda what: waits.hold(*what), (pod, held, wait))
        if lasts < wait:
            kernel.at(begins + lasts, waits.holding.__delitem__, pod)
        else:
            expected.append((begins + wait, pod))
    kernel.run()
    assert sorted(found) == sorted(expected)
    assert not waits.holding


def test_pods_that_are_let_go_cost_no_event() -> None:
    """A gang that lacks a node is rejected hundreds of times a second."""
    kernel = Kernel()
    waits: PermitWaits[object] = PermitWaits(kernel, lambda _pod: None)

    def round_of(number: int) -> None:
        waits.hold(0, object(), 60 * SECOND)
        del waits.holding[0]
        if number < 1000:
            kernel.after(SECOND // 500, round_of, number + 1)

    round_of(1)
    kernel.run()
    assert kernel.events <= 1000 + 2
