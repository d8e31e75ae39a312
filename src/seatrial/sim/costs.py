"""What a request costs the server: processor time, time that passes without it, and seats.

Processor time is that of all processes that a request keeps busy on a control plane of one machine: API server, etcd and those
who watch; the client's own is apart. Where the figures come from is in docs/simulator.md. Seats follow k8s.io/apiserver
v0.36.3, util/flowcontrol/request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from seatrial.model.units import MICROSECOND, MILLISECOND
from seatrial.sim.fairness import ONE_SEAT, Width


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: int  # ns of a core, after it was let in
    wait: int  # ns without one
    per_object: int = 0  # ns of a core for every object in the answer, or deleted


COSTS = {
    "create": Cost(1050 * MICROSECOND, 600 * MICROSECOND),
    "update": Cost(1350 * MICROSECOND, 600 * MICROSECOND),
    "patch": Cost(1350 * MICROSECOND, 600 * MICROSECOND),
    "delete": Cost(1000 * MICROSECOND, 600 * MICROSECOND),
    "get": Cost(450 * MICROSECOND, 300 * MICROSECOND),
    "list": Cost(450 * MICROSECOND, 300 * MICROSECOND, 8 * MICROSECOND),
    "watch": Cost(450 * MICROSECOND, 300 * MICROSECOND, 8 * MICROSECOND),
    "deletecollection": Cost(450 * MICROSECOND, 600 * MICROSECOND, 900 * MICROSECOND),
}

_BYTES_PER_SEAT = 100_000  # list_work_estimator.go, bytesPerSeat
_MOST_FROM_CACHE = 1_000_000  # cacheWithStreamingMaxMemoryUsage
_MOST_LIST_SEATS, _MOST_MUTATING_SEATS = 100, 10  # config.go
_WATCHES_PER_SEAT = 10  # watchesPerSeat
_EVENT = 5 * MILLISECOND  # eventAdditionalDuration


def list_width(objects: int, size: int, widest: int) -> Width:
    """By the bytes that stand in memory at once. Since 1.36 answers all but continued pages from its cache, as streams, no list
    counts more than a megabyte."""
    if not objects:
        return ONE_SEAT
    seats = math.ceil(min(objects * size, _MOST_FROM_CACHE) / _BYTES_PER_SEAT)
    return Width(max(1, min(seats, widest or _MOST_LIST_SEATS, _MOST_LIST_SEATS)))


def write_width(watchers: int, widest: int) -> Width:
    """A write that many watch keeps seats for a while after its answer, while they are told."""
    if watchers < _WATCHES_PER_SEAT:
        return ONE_SEAT
    final = math.ceil(watchers / _WATCHES_PER_SEAT)
    seats = min(final, widest or _MOST_MUTATING_SEATS, _MOST_MUTATING_SEATS)
    return Width(1, seats, final * _EVENT // seats)
