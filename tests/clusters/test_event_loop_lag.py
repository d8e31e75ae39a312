"""How late our own process was, and when that makes a trial one not to be trusted."""

from __future__ import annotations

import asyncio
import time

from seatrial.clusters.live.event_loop_lag import MOST, SHARE, EventLoopLag


def blocked_for(seconds: float) -> EventLoopLag:
    """Seen by one whose event loop did something else meanwhile."""
    lateness = EventLoopLag()

    async def main() -> None:
        asyncio.get_running_loop().call_later(0.01, time.sleep, seconds)
        await lateness.look()

    asyncio.run(main())
    return lateness


def test_a_loop_that_did_something_else_is_late_by_that() -> None:
    lateness = blocked_for(0.3)
    assert lateness.worst > 0.2e9
    assert lateness.worst == lateness.mean > MOST
    assert any("event loop was up to" in reason.reason for reason in lateness.reasons(None))


def test_a_load_is_judged_by_what_its_requests_took() -> None:
    lateness = blocked_for(0.3)
    long, short = lateness.mean / SHARE * 2, lateness.mean / SHARE / 2
    assert not any("event loop" in reason.reason for reason in lateness.reasons(long))
    assert any("late on average" in reason.reason for reason in lateness.reasons(short))


def test_a_client_that_takes_a_core_may_be_the_bottleneck() -> None:
    idle = EventLoopLag()
    time.sleep(0.2)
    assert idle.cpu < 0.9
    assert not any("bottleneck" in reason.reason for reason in idle.reasons(None))
    busy = EventLoopLag()
    busy._began_cpu -= 10  # ten seconds of work in a moment
    assert any("bottleneck" in reason.reason for reason in busy.reasons(None))
