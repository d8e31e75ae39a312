"""A closed loop sends every item once, none before it is due, whatever order items end in."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.closed_loop import ReadyItems

ITEMS = st.lists(
    st.tuples(st.integers(0, 100), st.integers(-1, 60), st.integers(0, 50), st.integers(0, 80)), min_size=1, max_size=60
)


@given(written=ITEMS)
def test_every_item_is_sent_once_and_a_follower_a_thinking_time_after_the_end(
    written: list[tuple[int, int, int, int]],
) -> None:
    after = [first if first < index else -1 for index, (_, first, _, _) in enumerate(written)]
    columns = [np.asarray(column, dtype=np.int64) for column in zip(*written, strict=True)]
    items = ReadyItems(columns[0], np.asarray(after, dtype=np.int64), columns[2])
    ends: dict[int, int] = {}  # item → when it ended
    sent: dict[int, int] = {}
    now = 0
    while items.left:
        due = items.next_due
        pending = [(sent[one] + written[one][3], one) for one in sent if one not in ends]
        ending = min(pending, default=None)
        if due is None or (ending is not None and ending[0] <= max(due, now)):
            assert ending is not None, "something always ends, so the loop goes on"
            now, one = max(now, ending[0]), ending[1]
            ends[one] = now
            items.ended(one, now)
            continue
        now = max(now, due)
        index, due = items.take()
        assert index not in sent
        sent[index] = now
        assert due == (written[index][0] if after[index] < 0 else ends[after[index]] + written[index][2])
    assert len(sent) == len(written)
