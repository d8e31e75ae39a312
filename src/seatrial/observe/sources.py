"""Where a time comes from, and how far off it may be. The number stands in every record; the table in trial.json."""

from __future__ import annotations

from typing import Any

from seatrial.model.units import MICROSECOND, MILLISECOND, SECOND

CLIENT, WATCH, LISTED, AUDIT = range(4)
NAMES = ("client", "watch", "list", "audit")

# Until a run has measured it: what a watch event may be late on a machine that keeps up.
WATCH_ERROR = 50 * MILLISECOND


def table(watch_error: int | None = None, longest_gap: int = 0) -> list[dict[str, Any]]:
    """`watch_error` is the p99 of watch arrival against the audit log; a listed object was there since the gap began."""
    errors = (0, WATCH_ERROR if watch_error is None else watch_error, max(longest_gap, SECOND), MICROSECOND)
    return [{"name": name, "error_ns": error} for name, error in zip(NAMES, errors, strict=True)]
