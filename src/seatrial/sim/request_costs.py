"""Costs of a request: processor time, waiting time and seats.

Processor time is the sum over all processes of a control plane on one machine: API server, etcd and watchers, without the client.
docs/simulator.md has the sources of the figures. Seats follow k8s.io/apiserver v0.36.3, util/flowcontrol/request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from seatrial.model.units import MICROSECOND, MILLISECOND
from seatrial.sim.fair_queuing import ONE_SEAT, Width


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of a request of one verb."""

    cpu: int  # ns of a core, after admission
    wait: int  # ns without a core
    per_object: int = 0  # ns of a core per object returned or deleted


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


def list_width(objects: int, size: int, max_seats: int) -> Width:
    """Seats by the bytes in memory at once. 1.36 answers all but continued pages from its cache, as streams, so no list counts
    more than a megabyte."""
    if not objects:
        return ONE_SEAT
    seats = math.ceil(min(objects * size, _MOST_FROM_CACHE) / _BYTES_PER_SEAT)
    return Width(max(1, min(seats, max_seats or _MOST_LIST_SEATS, _MOST_LIST_SEATS)))


def write_width(watchers: int, max_seats: int) -> Width:
    """A write with many watchers keeps seats after its answer, while the watchers are notified."""
    if watchers < _WATCHES_PER_SEAT:
        return ONE_SEAT
    final = math.ceil(watchers / _WATCHES_PER_SEAT)
    seats = min(final, max_seats or _MOST_MUTATING_SEATS, _MOST_MUTATING_SEATS)
    return Width(1, seats, final * _EVENT // seats)
