"""How far a time may be off, by how it came to be known."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from seatrial.kube import Gap, WatchState
from seatrial.kube.shapes import Condition, ContainerState, ContainerStatus, Meta, Pod, PodSpec, PodStatus, Running
from seatrial.kube.watching import LISTED, MODIFIED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.lifecycle import PLAIN
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.observe import time_sources
from seatrial.observe.following import CATCH_UP, STALLED, doubt
from seatrial.observe.observer import Observer, see_pod
from seatrial.record import merging
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment

EPOCH = 1_000 * SECOND  # on the clock of the stamps
WALL = 1_800_000_000 * SECOND  # the same moment on the wall clock: 2027-01-15T08:00:00Z
ERRORS = [int(one["error_ns"]) for one in time_sources.table()]


def observer(directory: Path) -> Observer:
    made = Observer(Ledger(PLAIN, Segment(directory)))
    made.epoch, made.wall_epoch, made.early = EPOCH, WALL, {}
    return made


def running_pod() -> Pod:
    """Created at 08:00:02, bound at 08:00:03, started at 08:00:05."""
    bound = Condition("PodScheduled", "True", last_transition_time="2027-01-15T08:00:03Z")
    started = ContainerStatus("main", ContainerState(running=Running("2027-01-15T08:00:05Z")))
    meta = Meta("load-0-x", uid="u", creation_timestamp="2027-01-15T08:00:02Z", labels={WORKLOAD_LABEL: "load-0"})
    return Pod(meta, PodSpec("n0"), PodStatus("Running", conditions=[bound], container_statuses=[started]))


def known(directory: Path, seen: Observer) -> dict[str, tuple[float, float]]:
    """Stage → seconds, error in seconds: the best of what was recorded."""
    seen.ledger.close()
    part = merging.merge([merging.read(directory, PLAIN, ERRORS)], PLAIN, ERRORS)
    table = part.observed.with_columns(merging.error_of(ERRORS).alias("error"))
    rows = table.select("stage", pl.col("at_ns") / SECOND, pl.col("error") / SECOND).rows()
    return {PLAIN[stage].name: (at, error) for stage, at, error in rows}


def test_what_is_listed_goes_by_what_the_object_says(tmp_path: Path) -> None:
    seen = observer(tmp_path)
    seen.knows("load-0", seen.ledger.workload_as(0, 0, 1))
    stamp = EPOCH + 60 * SECOND
    seen.doubt = doubt(seen, WatchState("pods"), stamp, LISTED)
    assert seen.doubt == 60_000
    see_pod(seen, stamp, LISTED, running_pod())
    assert known(tmp_path, seen) == {"pods_created": (2.5, 0.5), "scheduled": (3.5, 0.5), "running": (5.5, 0.5)}


def test_what_is_watched_goes_by_its_arrival(tmp_path: Path) -> None:
    seen = observer(tmp_path)
    seen.knows("load-0", seen.ledger.workload_as(0, 0, 1))
    stamp = EPOCH + 5 * SECOND + 200 * MILLISECOND
    seen.doubt = doubt(seen, WatchState("pods"), stamp, MODIFIED)
    see_pod(seen, stamp, MODIFIED, running_pod())
    assert set(known(tmp_path, seen).values()) == {(5.2, 0.05)}


def test_after_a_gap_the_smaller_of_gap_and_object_wins() -> None:
    seen = Observer.__new__(Observer)
    seen.epoch, seen.alive = EPOCH, 0
    short = WatchState("pods", gaps=[Gap(EPOCH + 9 * SECOND, EPOCH + 10 * SECOND, "closed", False)])
    arrival = EPOCH + 10 * SECOND + 100 * MILLISECOND
    assert doubt(seen, short, arrival, MODIFIED) == 1100
    assert doubt(seen, short, EPOCH + 10 * SECOND + CATCH_UP, MODIFIED) == 0, "what was late has come by then"
    broken = WatchState("pods", silent=EPOCH + 4 * SECOND)
    assert doubt(seen, broken, arrival, LISTED) == 6100, "a list after a gap shows what came about in it"


def test_what_arrives_while_we_do_not_run_is_not_stamped_when_it_does() -> None:
    seen = Observer.__new__(Observer)
    seen.epoch, seen.alive = EPOCH, EPOCH + 10 * SECOND
    assert doubt(seen, WatchState("pods"), seen.alive + STALLED, MODIFIED) == 0
    assert doubt(seen, WatchState("pods"), seen.alive + 30 * SECOND, MODIFIED) == 30_000


def test_what_is_seen_before_its_line_is_there_counts_when_it_comes(tmp_path: Path) -> None:
    seen = observer(tmp_path)
    see_pod(seen, EPOCH + 6 * SECOND, MODIFIED, running_pod())
    assert not seen.ledger.pod_workload
    seen.knows("load-0", seen.ledger.workload_as(0, 0, 1))
    assert set(known(tmp_path, seen).values()) == {(6.0, 0.05)}
    assert not seen.early
