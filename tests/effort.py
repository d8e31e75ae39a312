"""What work costs, told the same way on every machine: processor time against processor time of the same minute.

How fast it is in seconds stands in `benchmarks/`; a test that holds seconds fails on the first machine that is slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LINEAR = 20  # at most, for ten times as much: in proportion it is 10, squared 100


def spent(work: Callable[[], object], rounds: int = 1) -> float:
    """Seconds of processor time of this thread, the least of some rounds."""

    def once() -> float:
        begun = time.thread_time()
        work()
        return time.thread_time() - begun

    return min(once() for _ in range(rounds))
