"""How far behind our own process was: what it stamps cannot be better than that."""

from __future__ import annotations

import asyncio
import time

from seatrial.kube import clock
from seatrial.model.doubts import RATES, TIMES, Doubt
from seatrial.model.units import MILLISECOND, SECOND

EVERY_S = 0.05
MOST = 100 * MILLISECOND  # an event loop that is further behind stamps its own sends too late
SHARE = 0.1  # of what a request takes on average: so much of a load's times may be our own lateness
BUSIEST = 0.9  # of a core


class Lateness:
    """From when it is made on."""

    def __init__(self) -> None:
        self.worst = self._looks = self._total = 0
        self._began_cpu, self._began_at = time.process_time(), time.monotonic()

    async def look(self) -> int:
        """Sleeps a moment and returns the time: how much later than it asked for it was woken is what we know."""
        due = clock() + int(EVERY_S * SECOND)
        await asyncio.sleep(EVERY_S)
        now = clock()
        self.worst = max(self.worst, now - due)
        self._looks += 1
        self._total += max(now - due, 0)
        return now

    def reasons(self, request_ns: float | None) -> list[Doubt]:
        """Not to trust the trial, whose requests took so long on average (`None`: it sent no load of requests)."""
        reasons: list[Doubt] = []
        if request_ns is not None:
            if self.mean > SHARE * request_ns:
                late, took = self.mean / 1e6, request_ns / 1e6
                reason = f"the client's event loop was {late:.1f} ms late on average; a request took {took:.1f} ms"
                reasons.append(Doubt(reason, (TIMES,), round(self.mean / SECOND, 6)))
        elif self.worst > MOST:
            reason = f"the client's event loop was up to {self.worst / 1e6:.0f} ms late"
            reasons.append(Doubt(reason, (TIMES, RATES), round(self.mean / SECOND, 6)))
        if self.cpu > BUSIEST:
            reason = f"the client used {self.cpu:.0%} of a core: it may have been the bottleneck"
            reasons.append(Doubt(reason, (TIMES, RATES)))
        return reasons

    @property
    def mean(self) -> float:
        return self._total / max(self._looks, 1)

    @property
    def cpu(self) -> float:
        """Of one core."""
        return (time.process_time() - self._began_cpu) / max(time.monotonic() - self._began_at, 1e-9)
