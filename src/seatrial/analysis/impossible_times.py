"""Impossible times: a stage before the one it follows, by more than the errors of both, or a stage that was not seen although a
later one was. Causes are gaps in watches, clocks that disagree, and objects that were deleted too soon.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from seatrial.analysis.stage_times import Lifecycle
from seatrial.model.lifecycle import COMPLETED, FAILED, SUBMITTED
from seatrial.model.units import SECOND

_NO_LIMIT = 2**60  # an error that is not known; two of them, and a time of ten years, are less than 64 bits hold
_Flags = npt.NDArray[np.bool_]


def passed(seen: Lifecycle) -> list[str]:
    """The stages that every workload passes before it completes, in order; stages of a stack's own may be skipped."""
    names = [stage.name for stage in seen.trial.stages if stage.general or stage.name == SUBMITTED.name]
    return [name for name in names if name in seen.workloads.columns]


def hidden_stages(seen: Lifecycle) -> dict[str, int]:
    """Stage → how many workloads reached a later stage without being seen in this one."""
    missing = _missing(seen, passed(seen))
    return {name: int(flags.sum()) for name, flags in missing.items() if flags.any()}


def impossible(seen: Lifecycle) -> pl.DataFrame:
    """`workload`, `reason`: a row per workload with an impossible time, with the first in the order of stages."""
    stages = passed(seen)
    reasons = [""] * seen.workloads.height
    for name, flags in _missing(seen, stages).items():
        for row in np.flatnonzero(flags):
            reasons[row] = reasons[row] or f"{name} is missing, though a later stage was reached"
    for earlier, later, flags, by in _backwards(seen, stages):
        for row in np.flatnonzero(flags):
            reasons[row] = reasons[row] or f"{later} is {by[row] / SECOND:.3f} s before {earlier}"
    table = seen.workloads.select("workload", pl.Series("reason", reasons, dtype=pl.String))
    return table.filter(pl.col("reason") != "")


def _missing(seen: Lifecycle, stages: Sequence[str]) -> dict[str, _Flags]:
    """A failed workload may have skipped any stage, and an interactive one has no end."""
    table = seen.workloads
    excused = (
        table[FAILED.name].is_not_null().to_numpy() if FAILED.name in table.columns else np.zeros(table.height, bool)
    )
    later = np.zeros(table.height, bool)
    missing: dict[str, _Flags] = {}
    interactive = table["phase"].is_in(_interactive(seen)).to_numpy()
    for name in reversed(stages):
        known = table[name].is_not_null().to_numpy()
        missing[name] = later & ~known & ~excused
        later |= known & ~(interactive if name == COMPLETED.name else np.zeros(table.height, bool))
    return dict(reversed(missing.items()))


def _backwards(seen: Lifecycle, stages: Sequence[str]) -> list[tuple[str, str, _Flags, npt.NDArray[np.int64]]]:
    """Each stage against the last one before it that the workload has."""
    found = []
    table = seen.workloads
    interactive = table["phase"].is_in(_interactive(seen)).to_numpy()
    for place, later in enumerate(stages[1:], 1):
        at = table[later].fill_null(0).to_numpy()
        open_ = table[later].is_not_null().to_numpy()
        if later == COMPLETED.name:
            open_ = open_ & ~interactive
        for earlier in reversed(stages[:place]):
            here = open_ & table[earlier].is_not_null().to_numpy()
            before = table[earlier].fill_null(0).to_numpy()
            slack = np.minimum(seen.errors[later], _NO_LIMIT) + np.minimum(seen.errors[earlier], _NO_LIMIT)
            flags = here & (at + slack < before)
            if flags.any():
                found.append((earlier, later, flags, before - at))
            open_ = open_ & ~here
    return found


def _interactive(seen: Lifecycle) -> list[str]:
    return [name for name, phase in seen.trial.phases.items() if phase.get("interactive")]
