"""Sources of times and their error bounds. Every record has the number of its source; the table is in trial.json."""

from __future__ import annotations

from typing import Any

from seatrial.kube.shapes import nanoseconds
from seatrial.model.units import MICROSECOND, MILLISECOND, SECOND

CLIENT, WATCH, LISTED, AUDIT, OBJECT, EVENT, RUNTIME = range(7)
NAMES = ("client", "watch", "list", "audit", "object", "event", "runtime")

# Delay of a watch event on a machine that keeps up, until a run has measured it.
WATCH_ERROR = 50 * MILLISECOND
# Timestamps of objects are truncated to whole seconds: half a second is added, and is the error. Events have microseconds of their
# sender, some time after the fact.
OBJECT_ERROR = SECOND // 2
EVENT_ERROR = 100 * MILLISECOND


def table(watch_error: int | None = None, longest_gap: int = 0, clock_off: int = 0) -> list[dict[str, Any]]:
    """The table for trial.json. `watch_error` is the p99 of watch times against the audit log, `clock_off` the error of the
    cluster's clock. A record of a list has its own error: the time since the gap began."""
    errors = (
        0, WATCH_ERROR if watch_error is None else watch_error, max(longest_gap, SECOND), MICROSECOND,
        OBJECT_ERROR + clock_off, EVENT_ERROR + clock_off, MICROSECOND,
    )  # fmt: skip
    return [{"name": name, "error_ns": error} for name, error in zip(NAMES, errors, strict=True)]


def said(text: str) -> tuple[int, int]:
    """The timestamp of an object or event in nanoseconds of the wall clock, and its source."""
    return (nanoseconds(text), EVENT) if "." in text else (nanoseconds(text) + OBJECT_ERROR, OBJECT)
