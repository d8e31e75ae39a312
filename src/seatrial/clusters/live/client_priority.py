"""Scheduling priority of our own client on a machine whose cores are all busy.

On `local` the control plane runs on the machine that measures it. If its components take every core, the client is woken late
and stamps late: 3 ms on average where a request took 26 ms. So the thread of the event loop gets priority while a trial runs,
if the system allows it. Only that thread: the processes it starts do not inherit it, and the control plane loses only what the
client uses (`client_cpu`).

A lower nice value is often not enough: with autogroups (a default of Linux) it counts only among the processes of one session,
and every component has its own. Beside six busy processes on two cores a thread was woken up to 25 ms late at the usual
priority, 37 ms late with nice -10, and 4 ms late with real-time scheduling.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

NICE = -10
FIRST, NICER, USUAL = "real-time", f"nice {NICE}", "usual"


@contextmanager
def ahead() -> Iterator[str]:
    """Gives the calling thread priority; yields which: real-time, nice -10, or the usual one if neither is allowed."""
    if not hasattr(os, "SCHED_RESET_ON_FORK"):
        yield USUAL
        return
    policy, param = os.sched_getscheduler(0), os.sched_getparam(0)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    how = _go_first()
    try:
        yield how
    finally:
        with suppress(OSError):
            if how != USUAL:
                os.sched_setscheduler(0, policy, param)
                os.setpriority(os.PRIO_PROCESS, 0, nice)


def _go_first() -> str:
    """`RESET_ON_FORK`: threads and processes started by this one do not inherit it."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return FIRST
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
        return NICER
    return USUAL
