"""Whether a sampled trial is valid, and whether it has ended."""

from __future__ import annotations

from typing import Any

import polars as pl

from seatrial.analysis.impossible_times import hidden_stages
from seatrial.analysis.stage_times import Lifecycle, lifecycle
from seatrial.model.doubts import RATES, TIMES, Doubt
from seatrial.model.lifecycle import COMPLETED, DELETED, FAILED
from seatrial.model.plan import to_json
from seatrial.model.units import SECOND
from seatrial.record import gaps
from seatrial.record.trial_record import RUNNING, TrialRecord

FINE = SECOND // 10  # precision of watches and events
BEHIND_MOST = 5 * SECOND
SHOWN = 50  # gaps in trial.json; the gap files have all


def judge_sampled(trial: TrialRecord) -> dict[str, Any]:
    """Outcome and validity, for trial.json."""
    seen = lifecycle(trial)
    watched = gaps.read(trial.directory)
    ended = int(_ended(seen).sum()) + _unseen(seen, watched.gone)
    planned = sum(int(phase.get("count") or 0) for phase in trial.phases.values())
    over = seen.workloads.height >= planned > 0 and ended == seen.workloads.height
    return {
        "submitted": seen.workloads.height,
        "end_ns": seen.end_ns,
        "outcome": COMPLETED.name if over else RUNNING,
        "stalls": None,
        "audits": None,  # they need to know the nodes
        "validity": _validity(seen, watched),
    }


def _ended(seen: Lifecycle) -> pl.Series:
    ended = pl.Series(values=[False] * seen.workloads.height, dtype=pl.Boolean)
    for stage in (COMPLETED.name, FAILED.name, DELETED.name):
        if stage in seen.workloads.columns:
            ended = ended | seen.workloads[stage].is_not_null()
    return ended


def _unseen(seen: Lifecycle, gone: frozenset[str]) -> int:
    """How many workloads were found gone by one process and seen to end by none."""
    return sum(not ended for name, ended in zip(seen.workloads["workload"], _ended(seen), strict=True) if name in gone)


def _validity(seen: Lifecycle, watched: gaps.Watched) -> dict[str, Any]:
    """A gap that hid no stage and made no time less precise is listed, but is no reason for doubt."""
    begin, end = seen.first_ns, seen.end_ns
    unwatched = watched.unwatched(begin, end) if watched.spans else []
    told = [line for line in watched.told if (line.to_ns or 0) > begin and (line.from_ns or 0) < end]
    hidden, known = hidden_stages(seen), _known(seen)
    reasons: list[Doubt] = []
    if watched.spans and (coarse := known["to_a_second"] + known["worse"]):
        total, longest = (
            sum(b - a for a, b in unwatched) / SECOND,
            max((b - a for a, b in unwatched), default=0) / SECOND,
        )
        reasons.append(
            _of_times(
                f"{coarse} of {sum(known.values())} times are known to half a second at best: no process watched for "
                f"{total:.1f} s in all, up to {longest:.1f} s at a time"
            )
        )
    elif known["worse"]:
        reasons.append(_of_times(f"{known['worse']} of {sum(known.values())} times are known only roughly"))
    if hidden:
        stages = ", ".join(f"{stage} of {count}" for stage, count in hidden.items())
        reasons.append(_of_times(f"workloads passed unseen stages: {stages}"))
    gone = _unseen(seen, watched.gone)
    if gone:
        reasons.append(Doubt(f"{gone} workloads were gone before their end was observed"))
    if watched.behind_ns > BEHIND_MOST:
        reasons.append(_of_times(f"the follower was up to {watched.behind_ns / SECOND:.1f} s behind"))
    return {
        "valid": not reasons,
        "reasons": to_json(reasons),
        "followed": bool(watched.spans),
        "known": known,
        "hidden": hidden,
        "gone": gone,
        "behind_worst_s": watched.behind_ns / SECOND,
        "gaps": [
            *({"from_s": first / SECOND, "to_s": last / SECOND, "what": "", "reason": "no process watched"}
              for first, last in unwatched),
            *({"from_s": (line.from_ns or 0) / SECOND, "to_s": (line.to_ns or 0) / SECOND, "what": line.what,
               "reason": line.reason} for line in told),
        ][:SHOWN],
    }  # fmt: skip


def _of_times(reason: str) -> Doubt:
    return Doubt(reason, (TIMES, RATES))


def _known(seen: Lifecycle) -> dict[str, int]:
    """How many times of workloads are known to 0.1 s, to a second, and less precisely."""
    counts = {"finely": 0, "to_a_second": 0, "worse": 0}
    asked = 2 * seen.trial.resolution_ns  # times are rounded to this anyway
    fine, coarse = max(FINE, asked), max(SECOND, asked)
    for stage, errors in seen.errors.items():
        of = errors[seen.workloads[stage].is_not_null().to_numpy()]
        finely, to_a_second = int((of <= fine).sum()), int((of <= coarse).sum())
        counts["finely"] += finely
        counts["to_a_second"] += to_a_second - finely
        counts["worse"] += len(of) - to_a_second
    return counts
