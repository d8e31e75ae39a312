"""The audits of a queue: did it admit what the nodes could take, by the requests that the pods have, and did it block?"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from seatrial.analysis.head_of_line import WaitingLine
from seatrial.analysis.occupancy import NEVER, PODS, Mask, Occupancy, Steps
from seatrial.analysis.stage_times import Lifecycle
from seatrial.model.lifecycle import ADMITTED
from seatrial.model.units import SECOND, format_quantity

EXAMPLES = 5
Audit = dict[str, Any]

_NO_QUEUE = "No queue admits workloads here."


def aggregate_admission(occupancy: Occupancy) -> Audit:
    """Workloads that were admitted although no node could take their pods."""
    seen = occupancy.seen
    if why := _nothing_to_hold_against(occupancy):
        return audit_of("aggregate admission", why, 0, [], never=0, crowded=0)
    parts: list[pl.DataFrame] = []
    for place, phase in enumerate(occupancy.phases):
        let_go = seen.workloads.filter((pl.col("shape") == phase) & pl.col(ADMITTED.name).is_not_null())
        gang = bool(occupancy.details[place].get("gang"))
        at = let_go[ADMITTED.name].to_numpy()
        needs = let_go["pods"].to_numpy().astype(np.int64) if gang else np.minimum(let_go["pods"].to_numpy(), 1)
        empty, room = occupancy.empty(place).when(at), occupancy.room(place).when(at)
        parts.append(
            let_go.select("workload", "pods", pl.col(ADMITTED.name).alias("at")).with_columns(
                pl.lit(place).alias("place"), pl.Series("needs", needs, dtype=pl.Int64),
                pl.Series("empty", empty, dtype=pl.Int64), pl.Series("room", room, dtype=pl.Int64),
            )
        )  # fmt: skip
    never, crowded = pl.col("needs") > pl.col("empty"), pl.col("needs") > pl.col("room")
    rows = pl.concat(parts).filter(never | crowded).sort(~never, "at", maintain_order=True) if parts else pl.DataFrame()
    count = rows.height
    hopeless = int(rows.select(never.sum()).item()) if count else 0
    examples = [
        {
            "workload": row["workload"],
            "at_s": seconds(seen, row["at"]),
            "pods": row["pods"],
            "room": row["room"],
            "room_when_empty": row["empty"],
            "asks": asks(occupancy, row["place"]),
        }
        for row in rows.head(EXAMPLES).rows(named=True)
    ]
    finding = "The nodes had room for all admitted workloads."
    if count:
        first = examples[0]
        when = "even empty nodes have" if hopeless else "the nodes had at that moment"
        finding = (
            f"{some(count, 'workload was', 'workloads were')} admitted by the cluster's totals, not by the room on each node "
            f"({hopeless} could never run, {count - hopeless} not at that moment): {first['workload']}, admitted at "
            f"{first['at_s']} s, needs room for {some(first['pods'], 'pod', 'pods')} of {first['asks']}; {when} room for "
            f"{first['room_when_empty'] if hopeless else first['room']}."
        )
    return audit_of("aggregate admission", finding, count, examples, never=hopeless, crowded=count - hopeless)


def _nothing_to_hold_against(occupancy: Occupancy) -> str:
    """The reason why admission cannot be judged; empty if it can. A trial that was cut off does not say which nodes it had."""
    if ADMITTED.name not in occupancy.seen.workloads.columns:
        return _NO_QUEUE
    return "" if occupancy.phases and occupancy.spans else "The nodes of this trial are not known."


def over_admission(occupancy: Occupancy) -> Audit:
    """More pods admitted than the nodes hold at the same time."""
    seen = occupancy.seen
    if why := _nothing_to_hold_against(occupancy):
        return audit_of("over-admission", why, 0, [])
    alive = (occupancy.created != NEVER) & (occupancy.gone > occupancy.created)
    worst = (0, 0, 0, 0, 0)  # too many, when, of how many, room for, for how long
    cases = [(alive & (occupancy.phase == place), occupancy.empty(place)) for place in range(len(occupancy.phases))]
    for which, empty in [*cases, (alive, occupancy.empty_for_any())]:
        worst = max(worst, _most_too_many(occupancy, which, empty), key=lambda case: case[0])
    too_many, at, pods, room, lasted = worst
    finding = "Never were more pods admitted than the nodes can hold at the same time."
    examples: list[dict[str, Any]] = []
    if too_many:
        examples = _without_a_place(occupancy, alive, at)
        finding = (
            f"At {seconds(seen, at)} s {pods} admitted pods were not over, and the nodes can hold {room} of them at the same "
            f"time: {too_many} too many. More were admitted than can stand for {seconds_of(lasted)} s in all."
        )
    extra = {"at_s": seconds(seen, at), "pods": pods, "room": room, "lasted_s": seconds_of(lasted)} if too_many else {}
    return audit_of("over-admission", finding, too_many, examples, **extra)


def _most_too_many(occupancy: Occupancy, which: Mask, empty: Steps) -> tuple[int, int, int, int, int]:
    """The worst moment of these pods against what empty nodes could hold. Pods that fit no node at all are another audit's."""
    created, gone = occupancy.created[which], occupancy.gone[which]
    if not len(created):
        return (0, 0, 0, 0, 0)
    ones = np.ones(len(created), dtype=np.int64)
    pods = Steps.of(np.concatenate((created, gone)), np.concatenate((ones, -ones)))
    at = np.unique(np.concatenate((pods.at, empty.at)))
    there, room = pods.when(at), empty.when(at)
    over = np.where(room > 0, np.maximum(there - room, 0), 0)
    worst = int(over.argmax())
    until = np.append(at[1:], max(int(at[-1]), occupancy.seen.end_ns))
    lasted = int((until - at)[over > 0].sum())
    return int(over[worst]), int(at[worst]), int(there[worst]), int(room[worst]), lasted


def _without_a_place(occupancy: Occupancy, alive: Mask, at: int) -> list[dict[str, Any]]:
    """Workloads with pods that were not bound at that moment."""
    nowhere = alive & (occupancy.created <= at) & (occupancy.gone > at) & (occupancy.bound > at)
    numbers, counts = np.unique(occupancy.workload[nowhere], return_counts=True)
    names = names_of(occupancy.seen)
    pairs = zip(numbers[:EXAMPLES].tolist(), counts[:EXAMPLES].tolist(), strict=True)
    return [{"workload": names[number], "pods_without_a_place": count} for number, count in pairs]


def declared_otherwise(occupancy: Occupancy) -> Audit:
    """Workloads for which the queue was told other requests than their pods have."""
    seen = occupancy.seen
    if ADMITTED.name not in seen.workloads.columns:
        return audit_of("declared otherwise", _NO_QUEUE, 0, [])
    counts = dict(seen.workloads.group_by("shape").len().rows())
    examples: list[dict[str, Any]] = []
    count = 0
    for name, phase in zip(occupancy.phases, occupancy.details, strict=True):
        asked, told = phase.get("requests") or {}, phase.get("declares")
        if told is None or not counts.get(name):
            continue
        differ = [r for r in sorted({*asked, *told}) if asked.get(r, 0) != told.get(r, 0)]
        if differ:
            count += int(counts[name])
            what = {r: {"declared": told.get(r, 0), "asked": asked.get(r, 0)} for r in differ}
            examples.append({"phase": name, "workloads": int(counts[name]), "differ": what})
    finding = "All declared requests are those of the pods."
    if count:
        first = examples[0]
        resource, amounts = next(iter(first["differ"].items()))
        finding = (
            f"{some(count, 'workload declares', 'workloads declare')} other requests than the pods have: {first['phase']} "
            f"declares {quantity(resource, amounts['declared'])}, and its pods request {quantity(resource, amounts['asked'])}."
        )
    return audit_of("declared otherwise", finding, count, examples[:EXAMPLES])


def head_of_line(occupancy: Occupancy) -> Audit:
    """Workloads that would have fitted and waited behind the first of the queue, which did not."""
    seen = occupancy.seen
    if why := _nothing_to_hold_against(occupancy):
        return audit_of("head of line", why, 0, [])
    if seen.trial.fleet.queues:
        return audit_of("head of line", "Not judged where there are several queues.", 0, [])
    found = WaitingLine(occupancy).blockings()
    names = seen.workloads["workload"]
    examples = [
        {
            "head": names[one.head],
            "from_s": seconds(seen, one.since),
            "until_s": seconds(seen, one.until),
            "behind": len(one.behind),
            "first": names[int(one.behind[0])],
            "blocked_s": seconds_of(int(one.lasted[0])),
        }
        for one in found[:EXAMPLES]
    ]
    count = len({row for one in found for row in one.behind.tolist()})
    finding = "No workload that would have fitted waited for longer than a minute behind one that did not."
    if count:
        first, place = examples[0], occupancy.phases.index(seen.workloads["shape"][found[0].head])
        more = f", and {some(len(found) - 1, 'other head', 'other heads')} likewise" if len(found) > 1 else ""
        pods = int(seen.workloads["pods"][found[0].head])
        waited = f"{first['first']}{f' and {n} more' if (n := first['behind'] - 1) else ''}"
        finding = (
            f"{some(count, 'workload waited', 'workloads waited')} behind one that did not fit although "
            f"{'it' if count == 1 else 'each of them'} would have fitted: {first['head']} ({some(pods, 'pod', 'pods')} of "
            f"{asks(occupancy, place)}) was first in the queue from {first['from_s']} s to {first['until_s']} s, and {waited} "
            f"waited behind it for up to {first['blocked_s']} s{more}.{_instead(seen)}"
        )
    return audit_of("head of line", finding, count, examples)


def _instead(seen: Lifecycle) -> str:
    """The remedy, if a setting of the stack makes the queue wait for its head."""
    if (seen.trial.document.get("settings") or {}).get("kueue", {}).get("strategy") != "StrictFIFO":
        return ""
    return " Kueue lets others pass a head that does not fit with settings: {kueue: {strategy: BestEffortFIFO}}."


def asks(occupancy: Occupancy, place: int) -> str:
    """The requests of a pod of a phase, in words."""
    asked = occupancy.details[place].get("requests") or {}
    return ", ".join(quantity(name, int(amount)) for name, amount in asked.items() if amount) or "nothing"


def quantity(resource: str, amount: int) -> str:
    """`cpu 500m`."""
    return f"{resource} {format_quantity(amount, resource) if resource != PODS else amount}"


def some(count: int, one: str, many: str) -> str:
    """`1 pod was`, `2 pods were`."""
    return f"{count} {one if count == 1 else many}"


def seconds(seen: Lifecycle, at: int) -> float:
    """Since the first submission."""
    return seconds_of(at - seen.first_ns)


def seconds_of(nanoseconds: int) -> float:
    """Seconds, rounded to the millisecond."""
    return round(nanoseconds / SECOND, 3)


def audit_of(name: str, finding: str, count: int, examples: list[dict[str, Any]], **more: Any) -> Audit:
    """An audit as trial.json has it."""
    return {"audit": name, "finding": finding, "count": count, "examples": examples, **more}


def names_of(seen: Lifecycle) -> dict[int, str]:
    """Number → name of a workload."""
    return dict(seen.workloads.select("number", "workload").rows())
