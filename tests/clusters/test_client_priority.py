"""The client goes before the control plane while a trial runs, alone, and where the system allows it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from seatrial.clusters.live.client_priority import FIRST, NICE, NICER, USUAL, ahead

SAY = "import os; print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))"


def how_it_runs() -> tuple[int, int]:
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK, os.getpriority(os.PRIO_PROCESS, 0)


def test_the_thread_goes_first_and_what_it_starts_does_not() -> None:
    before = how_it_runs()
    threads: list[tuple[int, int]] = []
    with ahead() as how:
        ran = how_it_runs()
        child = subprocess.run([sys.executable, "-c", SAY], capture_output=True, text=True, check=True).stdout.split()
        thread = threading.Thread(target=lambda: threads.append(how_it_runs()))
        thread.start()
        thread.join()
    assert ran == {FIRST: (os.SCHED_RR, before[1]), NICER: (os.SCHED_OTHER, NICE), USUAL: before}[how]
    assert tuple(map(int, child)) == threads[0] == before, "a component that goes first too would be measured wrongly"
    assert how_it_runs() == before


def test_where_nothing_is_allowed_it_runs_as_usual_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with ahead() as how:
        assert how == USUAL
