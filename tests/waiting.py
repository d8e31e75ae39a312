"""Waiting for what comes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_S = 90.0  # ends a test that would hang: how quick the machine is, is no matter of ours


def eventually(holds: Callable[[], bool], within_s: float = LONGEST_S) -> bool:
    until = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
