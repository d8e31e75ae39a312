"""How the levels of Priority & Fairness share one server: nominal limits by shares, and borrowing, adjusted every ten seconds.

Source: k8s.io/apiserver v0.36.3, util/flowcontrol/apf_controller.go (finishQueueSetReconfigsLocked, updateBorrowingLocked) and
conc_alloc.go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.model.units import SECOND
from seatrial.sim.fair_queuing import Seats
from seatrial.sim.flow_schemas import Level

PERIOD = 10 * SECOND  # borrowingAdjustmentPeriod
SMOOTHING = 0.977  # seatDemandSmoothingCoefficient
_LEAST_TARGET = 0.001  # MinTarget
MAX_SEATS_SHARE = 0.15  # priorityLevelMaxSeatsPercent


@dataclass(slots=True)
class _Bounds:
    seats: Seats
    nominal: int
    least: int
    most: int
    smoothed: float = 0.0
    highest: int = 0

    @property
    def floor(self) -> int:
        """Peak demand up to the nominal limit, but at least the seats that the level may not lend."""
        if self.seats.level.exempt:
            return max(self.least, self.highest)
        return max(self.least, min(self.nominal, self.highest))


class SeatBorrowing:
    """The limits of all levels of a server with `concurrency` seats."""

    def __init__(self, levels: Sequence[Level], concurrency: int) -> None:
        shares = sum(level.shares for level in levels)
        self._bounds: list[_Bounds] = []
        for level in levels:
            nominal = math.ceil(concurrency * level.shares / shares)
            lendable = _round(nominal * level.lendable / 100)
            borrowing = concurrency if level.borrowing is None else _round(nominal * level.borrowing / 100)
            self._bounds.append(_Bounds(Seats(level, nominal), nominal, nominal - lendable, nominal + borrowing))
        self.seats = {bounds.seats.level.name: bounds.seats for bounds in self._bounds}
        self._sum = sum(bounds.nominal for bounds in self._bounds)
        self.adjust(0)

    def nominal(self, level: str) -> int:
        """Seats a level has without borrowing."""
        return next(bounds.nominal for bounds in self._bounds if bounds.seats.level.name == level)

    def max_seats(self, level: str) -> int:
        """Most seats that this level gives one request; 0: no limit by the level."""
        bounds = next(bounds for bounds in self._bounds if bounds.seats.level.name == level)
        if not bounds.seats.level.queues:
            return 0
        hand = bounds.nominal // bounds.seats.level.hand
        return max(1, min(math.ceil(bounds.nominal * MAX_SEATS_SHARE), hand))

    def adjust(self, now: int) -> None:
        """Sets new limits from the demand since the last adjustment."""
        for bounds in self._bounds:
            seats = bounds.seats
            seats.set_limit(now, seats.limit)  # integrates the demand up to now
            bounds.highest, envelope = seats.demand.take(seats.in_use + seats.seats_waiting)
            bounds.smoothed = max(envelope, SMOOTHING * bounds.smoothed + (1 - SMOOTHING) * envelope)
        limited = [bounds for bounds in self._bounds if not bounds.seats.level.exempt]
        left = self._sum - sum(bounds.floor for bounds in self._bounds if bounds.seats.level.exempt)
        for bounds, limit in zip(limited, self._limits(limited, left), strict=True):
            bounds.seats.set_limit(now, limit)

    def _limits(self, limited: list[_Bounds], left: int) -> list[int]:
        least, floors = sum(b.least for b in limited), sum(b.floor for b in limited)
        if left <= least:
            return [b.least for b in limited]
        if left <= floors:
            share = (left - least) / (floors - least)
            return [b.least + _round((b.floor - b.least) * share) for b in limited]
        wanted = [(b.floor, b.most, max(b.floor, b.smoothed)) for b in limited]
        return [_round(limit) for limit in allocate(self._sum, wanted)]


def allocate(total: int, wanted: Sequence[tuple[float, float, float]]) -> list[float]:
    """Divides `total` in proportion to targets, each within its bounds: (lower, upper, target).

    The proportion that meets the sum is unique; between two bounds the sum is linear in the proportion.
    """
    items = [(low, high, max(target, _LEAST_TARGET)) for low, high, target in wanted]
    if total >= sum(high for _, high, _ in items):
        return [float(high) for _, high, _ in items]
    if total <= sum(low for low, _, _ in items):
        return [float(low) for low, _, _ in items]

    def given(proportion: float) -> list[float]:
        return [max(low, min(high, proportion * target)) for low, high, target in items]

    below = 0.0
    for corner in sorted({bound / target for low, high, target in items for bound in (low, high)}):
        if sum(given(corner)) >= total:
            break
        below = corner
    start = sum(given(below))
    moving = sum(target for low, high, target in items if low / target <= below < high / target)
    return given(below + (total - start) / moving)


def _round(value: float) -> int:
    """Rounds half away from zero, as Go does."""
    return math.floor(value + 0.5)
