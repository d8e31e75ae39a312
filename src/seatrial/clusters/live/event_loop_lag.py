"""The lag of our own event loop: the client's stamps cannot be better than that."""

from __future__ import annotations

import asyncio
import time

from seatrial.kube import clock
from seatrial.model.doubts import RATES, TIMES, Doubt
from seatrial.model.units import MILLISECOND, SECOND

EVERY_S = 0.05
MOST = 100 * MILLISECOND  # with more lag the client stamps its own requests too late
SHARE = 0.1  # of the mean request time: this much of a load's times may be our own lag
BUSIEST = 0.9  # of a core


class EventLoopLag:
    """Measured from its creation on."""

    def __init__(self) -> None:
        self.worst = self._looks = self._total = 0
        self._began_cpu, self._began_at = time.process_time(), time.monotonic()

    async def look(self) -> int:
        """Sleeps 50 ms, notes how late it was woken, and returns the time."""
        due = clock() + int(EVERY_S * SECOND)
        await asyncio.sleep(EVERY_S)
        now = clock()
        self.worst = max(self.worst, now - due)
        self._looks += 1
        self._total += max(now - due, 0)
        return now

    def reasons(self, request_ns: float | None) -> list[Doubt]:
        """Reasons not to trust the trial. `request_ns`: mean time of a load's requests; None without such a load."""
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
        """The mean, in nanoseconds."""
        return self._total / max(self._looks, 1)

    @property
    def cpu(self) -> float:
        """Processor time used, as a share of one core."""
        return (time.process_time() - self._began_cpu) / max(time.monotonic() - self._began_at, 1e-9)
