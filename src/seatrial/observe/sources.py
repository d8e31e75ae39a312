"""Where a time comes from, and how far off it may be. The number stands in every record; the table in trial.json."""

from __future__ import annotations

from typing import Any

from seatrial.kube.shapes import nanoseconds
from seatrial.model.units import MICROSECOND, MILLISECOND, SECOND

CLIENT, WATCH, LISTED, AUDIT, OBJECT, EVENT = range(6)
NAMES = ("client", "watch", "list", "audit", "object", "event")

# Until a run has measured it: what a watch event may be late on a machine that keeps up.
WATCH_ERROR = 50 * MILLISECOND
# Objects say whole seconds, cut off: what they mean is half a second later, give or take as much. Events have microseconds of
# whoever sent them, some time after it was so.
OBJECT_ERROR = SECOND // 2
EVENT_ERROR = 100 * MILLISECOND


def table(watch_error: int | None = None, longest_gap: int = 0, clock_off: int = 0) -> list[dict[str, Any]]:
    """`watch_error` is the p99 of watch arrival against the audit log; a listed object was there since the gap began, and its
    record says how long that is. What others stamped is as far off as their clock is."""
    errors = (
        0, WATCH_ERROR if watch_error is None else watch_error, max(longest_gap, SECOND), MICROSECOND,
        OBJECT_ERROR + clock_off, EVENT_ERROR + clock_off,
    )  # fmt: skip
    return [{"name": name, "error_ns": error} for name, error in zip(NAMES, errors, strict=True)]


def said(text: str) -> tuple[int, int]:
    """A time that an object or event gives, as nanoseconds of the wall clock and the source it is."""
    return (nanoseconds(text), EVENT) if "." in text else (nanoseconds(text) + OBJECT_ERROR, OBJECT)
