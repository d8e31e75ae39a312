"""Evictions: every one is kept, in order, and none is counted twice when several processes saw it."""

from __future__ import annotations

from pathlib import Path

from seatrial.model.fleet import PREEMPTED, RECLAIMED
from seatrial.model.lifecycle import PLAIN
from seatrial.record import merging
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment


def ledger_in(directory: Path, writer: str) -> Ledger:
    ledger = Ledger(PLAIN, Segment(directory, writer))
    for _ in range(2):
        ledger.workload(ledger.phase("p"), 1)
    return ledger


def test_an_evicted_workload_has_no_place_until_it_is_readmitted(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path, "a")
    ledger.evict(5, 1, PREEMPTED, by=0, message="higher priority")
    assert ledger.evicted == {1}
    ledger.readmit(9, 1)
    assert ledger.evicted == set()
    ledger.close()
    rows = merging.seal(tmp_path, PLAIN, [0])
    assert rows is not None
    assert rows.evictions.select("at_ns", "workload", "event", "reason", "by").rows() == [
        (5, 1, "evicted", PREEMPTED, 0),
        (9, 1, "readmitted", "", -1),
    ]
    assert merging.read(tmp_path, PLAIN, [0]).evictions.equals(rows.evictions)


def test_the_same_eviction_seen_by_two_processes_is_one(tmp_path: Path) -> None:
    one, other = ledger_in(tmp_path, "a"), ledger_in(tmp_path, "b")
    one.evict(7, 0, RECLAIMED, key="t1")
    other.evict(5, 0, RECLAIMED, key="t1")
    other.evict(8, 0, RECLAIMED, key="t2")
    one.close()
    other.close()
    sealed = merging.seal(tmp_path, PLAIN, [0])
    assert sealed is not None
    assert sealed.evictions.select("at_ns", "key").rows() == [(5, "t1"), (8, "t2")]


def test_who_gets_the_place_may_be_known_later(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path, "a")
    ledger.evict(5, 1, PREEMPTED, message="said so", key="u")
    ledger.name_preemptor(5, 1, PREEMPTED, "said so", "u", by=0)
    ledger.close()
    sealed = merging.seal(tmp_path, PLAIN, [0])
    assert sealed is not None
    assert sealed.evictions.select("at_ns", "workload", "by", "key").rows() == [(5, 1, 0, "u")]


def test_a_trial_without_evictions_has_no_file_of_them(tmp_path: Path) -> None:
    ledger_in(tmp_path, "a").close()
    merging.seal(tmp_path, PLAIN, [0])
    assert not (tmp_path / "evictions.parquet").exists()
