"""Waits of a replayed trace beside those of the system that was recorded.

Only jobs whose wait the trace has are compared. A job that never got its place in the replay has waited until the end, as in
all figures of waits. How long both took, from the first submission to the last end, is told where every job can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from seatrial.analysis.holdings import over_ns, placed_ns
from seatrial.analysis.stage_times import Lifecycle
from seatrial.model.lifecycle import COMPLETED, SUBMITTED
from seatrial.model.units import SECOND

QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class WaitSummary:
    """Waits in seconds; `lasted_s`: from the first submission to the last end, with the run times of the
    replay; None if not every job completed, with a known wait."""

    mean_s: float
    quantiles_s: tuple[float, ...]  # at QUANTILES, by nearest rank
    lasted_s: float | None


@dataclass(frozen=True)
class ReplayedWaits:
    """One phase that replays a trace. `longer`, `shorter`: jobs that waited longer, or not as long, by more than a second."""

    phase: str
    jobs: int
    without: int  # jobs whose wait the trace does not have
    recorded: WaitSummary
    replayed: WaitSummary
    longer: int
    shorter: int


def replayed_waits(seen: Lifecycle) -> list[ReplayedWaits]:
    """The waits of each phase that replays a trace with waits."""
    workloads = seen.workloads
    if "trace_wait_s" not in workloads.columns or not workloads["trace_wait_s"].count():
        return []
    ended = COMPLETED.name if COMPLETED.name in workloads.columns else SUBMITTED.name
    frame = pl.DataFrame(
        {
            "phase": workloads["phase"],
            "submitted": workloads[SUBMITTED.name],
            "placed": pl.select(pl.coalesce(placed_ns(seen), over_ns(seen), pl.lit(seen.end_ns))).to_series(),
            "ended": workloads[ended],
            "recorded": workloads["trace_wait_s"],
            "refused": workloads["refused"].fill_null("") != "",
        }
    ).filter(~pl.col("refused"))
    parts = frame.partition_by("phase", maintain_order=True)
    return [_compared(part) for part in parts if part["recorded"].count()]


def _compared(part: pl.DataFrame) -> ReplayedWaits:
    known = part.filter(pl.col("recorded").is_not_null())
    recorded = known["recorded"].to_numpy()
    replayed = np.maximum((known["placed"] - known["submitted"]).to_numpy() / SECOND, 0)
    begin, last, then, now = part["submitted"].min(), part["ended"].max(), None, None
    if (
        known.height == part.height
        and not part["ended"].null_count()
        and isinstance(begin, int)
        and isinstance(last, int)
    ):
        ran = (part["ended"] - part["placed"]).to_numpy()
        then = float(((part["submitted"].to_numpy() - begin + ran) / SECOND + recorded).max())
        now = (last - begin) / SECOND
    return ReplayedWaits(
        str(part["phase"][0]), known.height, part.height - known.height, _summary(recorded, then), _summary(replayed, now),
        int((replayed > recorded + 1).sum()), int((replayed < recorded - 1).sum()),
    )  # fmt: skip


def _summary(waits: np.ndarray[tuple[int], np.dtype[np.float64]], lasted: float | None) -> WaitSummary:
    ranks: Sequence[float] = np.quantile(waits, QUANTILES, method="inverted_cdf").tolist()
    return WaitSummary(float(waits.mean()), tuple(ranks), lasted)
