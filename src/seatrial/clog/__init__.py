"""Explains why a trial makes no progress: pure functions from the state of a trial to a diagnosis. `knot` proves, `diagnose`
explains."""

from __future__ import annotations

from seatrial.clog.diagnosis import KINDS, Diagnosis, Edge
from seatrial.clog.knots import knot
from seatrial.clog.livelocks import livelock, stuck
from seatrial.clog.reasons import diagnose, unfinished

__all__ = ["KINDS", "Diagnosis", "Edge", "diagnose", "knot", "livelock", "stuck", "unfinished"]
