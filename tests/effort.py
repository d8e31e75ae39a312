"""What work costs, told the same way on every machine: processor time against processor time of the same minute.

How fast it is in seconds stands in `benchmarks/`; a test that holds seconds fails on the first machine that is slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LINEAR = 20  # at most, for ten times as much: in proportion it is 10, squared 100
TRIES = 6  # noise only ever adds time: what is really in proportion shows it in one of so many tries


def costs_at_most(times: float, few: Callable[[], object], many: Callable[[], object], tries: int = TRIES) -> None:
    """`many` takes at most so many times the processor time of `few`: the least of each, both run again while it does not hold.

    One cold cache or one busy neighbour made tests of a single measurement fail; what is truly too dear fails every time.
    """
    least_few = least_many = float("inf")
    for _ in range(tries):
        least_few, least_many = min(least_few, spent(few)), min(least_many, spent(many))
        if least_many <= times * least_few:
            return
    raise AssertionError(
        f"{least_many:.3f} s of processor time, more than {times:g} times {least_few:.3f} s, in the best of {tries} tries"
    )


def spent(work: Callable[[], object]) -> float:
    """Seconds of processor time of this thread."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun
