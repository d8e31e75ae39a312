"""What several processes saw becomes one table, and nothing that was known gets lost or worse by that."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.model.lifecycle import PLAIN, index_of
from seatrial.model.units import MILLISECOND
from seatrial.record import layout, merging, segments
from seatrial.record.ledger import Ledger
from seatrial.record.merging import merge, seal
from seatrial.record.segments import Observations, Segment

ERRORS = [0, 50 * MILLISECOND, 1000 * MILLISECOND, 1000]
STAGE = index_of(PLAIN)
Known = dict[tuple[object, ...], tuple[int, int]]  # what → error, time


def part(records: Sequence[tuple[int, ...]], pods: Sequence[tuple[int, str, str]], nodes: list[str]) -> Observations:
    columns = ["at_ns", "object", "stage", "source", "node", "detail"]
    observed = pl.DataFrame(records, schema=dict.fromkeys(columns, pl.Int64), orient="row")
    named = pl.DataFrame(pods, schema={"workload": pl.Int32, "name": pl.String, "uid": pl.String}, orient="row")
    return Observations(observed, named.with_row_index("pod").cast({"pod": pl.Int32}), nodes)


def known(of: Observations) -> tuple[Known, Mapping[str, set[str]]]:
    """Per thing and stage the best there is, and the node of each pod: by names, since numbers differ between parts."""
    best: Known = {}
    places: dict[str, set[str]] = {}
    names = of.pods.rows()
    nth = {pod: sum(other[1:] == row[1:] for other in names[:pod]) for pod, row in enumerate(names)}
    for row in of.observed.with_columns(merging.error_of(ERRORS).alias("error")).iter_rows(named=True):
        thing: tuple[object, ...] = (row["object"],)
        if PLAIN[row["stage"]].of == "pod":
            thing = (*names[row["object"]][1:], nth[row["object"]])
            if row["node"] >= 0:
                places.setdefault(str(thing), set()).add(of.nodes[row["node"]])
        key = (*thing, row["stage"])
        best[key] = min(best.get(key, (2**63, 0)), (row["error"], row["at_ns"]))
    return best, places


@st.composite
def parts(draw: st.DrawFn) -> Observations:
    """A few pods of two workloads under names that recur, times and errors that often tie."""
    pods = draw(
        st.lists(st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.sampled_from(["", "u1", "u2"])), max_size=4)
    )
    nodes = draw(st.lists(st.sampled_from(["n0", "n1", "n2"]), unique=True, min_size=1))
    records = []
    for _ in range(draw(st.integers(0, 8))):
        stage = draw(st.sampled_from(["created", "completed", "scheduled", "running", "finished", "lost"]))
        of_pod = PLAIN[STAGE[stage]].of == "pod"
        if of_pod and not pods:
            continue
        thing = draw(st.integers(0, len(pods) - 1 if of_pod else 1))
        node = draw(st.integers(-1, len(nodes) - 1)) if of_pod else -1
        at, source = draw(st.integers(0, 3)), draw(st.integers(0, 5))
        records.append((at, thing, STAGE[stage], source, node, draw(st.sampled_from([0, 0, 20, 3000]))))
    return part(records, pods, nodes)


@settings(max_examples=40, deadline=None)
@given(st.lists(parts(), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_merging_does_not_matter(given_parts: list[Observations], random: object) -> None:
    whole = known(merge(given_parts, PLAIN, ERRORS))
    shuffled = list(given_parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one_by_one = merge(shuffled[:1], PLAIN, ERRORS)
    for other in shuffled[1:]:
        one_by_one = merge([one_by_one, other], PLAIN, ERRORS)
    assert known(merge(shuffled, PLAIN, ERRORS)) == whole
    assert known(one_by_one)[0] == whole[0]


@settings(max_examples=40, deadline=None)
@given(st.lists(parts(), min_size=1, max_size=3))
def test_merging_again_changes_nothing(given_parts: list[Observations]) -> None:
    once = merge(given_parts, PLAIN, ERRORS)
    again = merge([once, *given_parts, once], PLAIN, ERRORS)
    assert again.observed.equals(once.observed)
    assert again.pods.equals(once.pods)
    assert again.nodes == once.nodes


@settings(max_examples=40, deadline=None)
@given(st.lists(parts(), min_size=1, max_size=3), parts())
def test_a_time_once_known_is_never_lost_or_worsened(before: list[Observations], more: Observations) -> None:
    old, _ = known(merge(before, PLAIN, ERRORS))
    new, _ = known(merge([*before, more], PLAIN, ERRORS))
    finished = {key[:-1] for key in new if key[-1] == STAGE["finished"]}
    for key, value in old.items():
        if key[-1] == STAGE["lost"] and key[:-1] in finished:
            continue  # who took it for lost was mistaken
        assert new[key] <= value


def test_the_numbers_of_the_first_part_stay(tmp_path: Path) -> None:
    """What is sealed can be read with the names of a later seal: a crash between the two files does no harm."""
    first = part([(1, 0, STAGE["running"], 0, 1, 0)], [(0, "a", "u1"), (0, "b", "u2")], ["n0", "n1"])
    other = part([(1, 0, STAGE["running"], 0, 0, 0)], [(1, "c", "u3"), (0, "b", "u2")], ["n2", "n1"])
    whole = merge([first, other], PLAIN, ERRORS)
    assert whole.pods["name"].to_list() == ["a", "b", "c"]
    assert whole.nodes == ["n0", "n1", "n2"]
    segments.write_sealed(tmp_path, first)
    whole.pods.write_parquet(tmp_path / layout.OBSERVED_PODS)
    sealed = segments.sealed(tmp_path)
    assert sealed and known(sealed) == known(first)


def _write(directory: Path, writer: str, at: int) -> Ledger:
    ledger = Ledger(PLAIN, Segment(directory, writer))
    ledger.workload_as(3, 0, 1)
    ledger.node("n0")
    ledger.move(at, 3, STAGE["created"], source=1)
    ledger.move_pod(at + 5, ledger.pod(3, "short-3-x", "uid"), STAGE["scheduled"], 0, source=1)
    ledger.flush()
    return ledger


def test_what_still_grows_is_read_but_not_sealed(tmp_path: Path) -> None:
    _write(tmp_path, "ended", 20).close()
    grows = _write(tmp_path, "grows", 10)
    assert not seal(tmp_path, PLAIN, ERRORS)
    assert segments.writers(tmp_path) == ["grows"]
    whole = merging.read(tmp_path, PLAIN, ERRORS)
    assert sorted(whole.observed["at_ns"].to_list()) == [10, 15]
    assert whole.pods.height == 1
    grows.move(30, 3, STAGE["completed"], source=1)
    grows.close()
    assert seal(tmp_path, PLAIN, ERRORS)
    assert segments.writers(tmp_path) == []
    assert merging.read(tmp_path, PLAIN, ERRORS).observed["at_ns"].to_list() == [10, 15, 30]


def test_what_was_known_before_is_recorded_again_but_counted_once(tmp_path: Path) -> None:
    ledger = Ledger(PLAIN, Segment(tmp_path, "again"))
    ledger.workload_as(0, 0, 2)
    ledger.knows(0, STAGE["completed"])
    ledger.knows(0, STAGE["running"])
    ledger.move(10, 0, STAGE["completed"], source=1)
    for name in "ab":
        ledger.move_pod(5, ledger.pod(0, name), STAGE["running"], source=1)
    assert ledger.counts[STAGE["completed"]] == ledger.counts[STAGE["running"]] == 1
    ledger.close()
    assert merging.read(tmp_path, PLAIN, ERRORS).observed.height == 3


def test_many_that_seal_at_once_lose_nothing(tmp_path: Path) -> None:
    for n in range(8):
        _write(tmp_path, f"writer{n}", 100 - n).close()
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(seal, tmp_path, PLAIN, ERRORS) for _ in range(8)]
    assert all(future.result() for future in done)
    assert merging.read(tmp_path, PLAIN, ERRORS).observed["at_ns"].to_list() == [93, 98]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nodes.txt", "observed.parquet", "pods.parquet"]


def test_a_full_disk_leaves_whole_records_and_the_rest_can_be_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that takes 7 bytes of what it is given and then says that it is full."""
    ledger = _write(tmp_path, "mine", 10)
    write = os.write
    left = [7]

    def nearly_full(descriptor: int, data: bytes | memoryview) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        count = write(descriptor, data[: left[0]])
        left[0] = 0
        return count

    ledger.move(40, 3, STAGE["completed"], source=1)
    ledger.move_pod(50, ledger.pod(3, "short-3-y", "uid2"), STAGE["scheduled"], 0, source=1)
    monkeypatch.setattr(os, "write", nearly_full)
    with pytest.raises(OSError, match="No space"):
        ledger.flush()
    monkeypatch.undo()
    assert merging.read(tmp_path, PLAIN, ERRORS).observed["at_ns"].to_list() == [10, 15]
    ledger.close()
    part = merging.read(tmp_path, PLAIN, ERRORS)
    assert part.observed["at_ns"].to_list() == [10, 15, 40, 50]
    assert part.pods["name"].to_list() == ["short-3-x", "short-3-y"]
