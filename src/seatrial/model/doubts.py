"""Reasons against a trial's figures, and the kinds of figures that each affects.

A client that was 3 ms late spoils latencies and leaves counts as they are. A trial that only said "invalid" would lose both, so
every reason names the kinds of figures that it touches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TIMES, RATES, COUNTS = "times", "rates", "counts"
KINDS = (TIMES, RATES, COUNTS)


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason against a trial's figures; `by_s` is about how far times are off, if known."""

    reason: str
    touches: tuple[str, ...] = KINDS
    by_s: float | None = None

    @property
    def effect(self) -> str:
        """The affected and unaffected figures, in words; empty if it affects all."""
        left = " and ".join(kind for kind in KINDS if kind not in self.touches)
        if not left:
            return ""
        by = "" if self.by_s is None else f" by about {self.by_s * 1000:,.1f} ms"
        found = " and ".join(f"{kind}{by if kind == TIMES else ''}" for kind in KINDS if kind in self.touches)
        return f"affects {found}, not {left}"

    def __str__(self) -> str:
        return f"{self.reason}{f' ({self.effect})' if self.effect else ''}"


def touched(doubts: Iterable[Doubt], kinds: Iterable[str]) -> bool:
    """Whether a doubt touches figures of these kinds."""
    wanted = set(kinds)
    return any(wanted & set(doubt.touches) for doubt in doubts)
