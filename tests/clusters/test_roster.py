"""How many nodes a trial had at any moment, whatever was added and removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seatrial.clusters.roster import Roster

STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 4)), max_size=20)


@given(STEPS)
def test_spans_tell_at_every_moment_how_many_there_were(steps: list[tuple[str, int]]) -> None:
    """Each step one second after the last; a negative number removes."""
    now = 0
    roster: Roster[int] = Roster(lambda: now)
    cores, made, there = {"a": 1, "b": 10}, 0, []
    for now, (group, count) in enumerate(steps, 1):  # noqa: B007
        if count >= 0:
            roster.add(group, range(made, made + count), {"cpu": cores[group]})
            made += count
        for node in roster.of(group)[: max(-count, 0)]:
            roster.remove(group, node)
        there.append({name: len(roster.of(name)) for name in cores})
        assert roster.capacity().get("cpu", 0) == sum(cores[name] * n for name, n in there[-1].items())
    for moment, wanted in enumerate(there, 1):
        for group, count in wanted.items():
            spans = [span for span in roster.spans() if span["group"] == group and span["from_ns"] <= moment]
            assert count == sum(s["count"] for s in spans if s["until_ns"] is None or s["until_ns"] > moment)


def test_nodes_of_others_count_but_were_not_made_by_us() -> None:
    roster: Roster[str] = Roster(lambda: 7)
    roster.note("existing", 3, {"cpu": 8})
    roster.add("fake", ["fake-0"], {"cpu": 1})
    roster.begin()
    assert roster.made() == {"fake-0"}
    assert roster.capacity() == {"cpu": 25}
    assert [span["from_ns"] for span in roster.spans()] == [0, 0]
