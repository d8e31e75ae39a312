"""The audit `kept below quota`: queues that did not get their own quota for 30 s or longer while others of the cohort borrowed.

A queue is kept below its quota while one of its workloads waits that its own quota has room for (of every resource the workload
asks for), and others hold more than theirs of one of these. A workload that is larger than what is left of the queue's own quota
waits for its own queue; so does one that lacks GPUs while others borrow cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from seatrial.analysis.admission_audits import EXAMPLES, Audit, audit_of, quantity, seconds, seconds_of, some
from seatrial.analysis.cohort_shares import Reals
from seatrial.analysis.fair_shares import FleetUse, QuotaPool, borrowed_and_lent
from seatrial.analysis.holdings import has_admissions, over_ns, placed_ns
from seatrial.analysis.occupancy import Mask
from seatrial.analysis.stage_times import Lifecycle
from seatrial.model.fleet import ANY, NEVER
from seatrial.model.lifecycle import SUBMITTED
from seatrial.model.units import SECOND
from seatrial.record.evictions import EVICTED

KEPT_NS = 30 * SECOND  # taking quota back takes a cycle, an eviction and the end of pods
Asked = tuple[tuple[str, int], ...]  # what a workload has to get at once: resource and amount
Waits = dict[
    str, dict[Asked, list[tuple[int, int]]]
]  # queue → what its workloads ask for → when they wait, from and until


def kept_below(seen: Lifecycle, use: FleetUse) -> Audit:
    """Each queue once, with the resource of which it was kept below the longest."""
    waits = _waits(seen)
    found = [one for pool in use.pools for one in _in_pool(pool, waits)]
    found.sort(key=lambda one: -one[0])
    examples = [_example(seen, *one) for one in found[:EXAMPLES]]
    finding = "No queue was kept below its quota for longer than 30 s while others borrowed."
    if found:
        first = examples[0]
        held, quota = (quantity(first["resource"], first[name]) for name in ("held", "quota"))
        finding = (
            f"{some(len(found), 'queue was', 'queues were')} kept below quota while others borrowed: {first['queue']} held "
            f"{held} of its {quota} from {first['from_s']} s to {first['until_s']} s ({first['lasted_s']} s in all) while "
            f"{', '.join(first['borrowers'])} borrowed. {_take_back(seen)}"
        )
    return audit_of("kept below quota", finding, len(found), examples)


def longest(wrong: Mask, pool: QuotaPool) -> tuple[int, int, int]:
    """Of the times in which something is wrong: from when to when the longest lasted, and how long all of them are."""
    if not wrong.any():
        return 0, 0, 0
    edges = np.flatnonzero(np.diff(np.concatenate(([False], wrong, [False])).astype(np.int8)))
    begins, ends = pool.moments[edges[::2]], pool.moments[edges[1::2]]
    worst = int(np.argmax(ends - begins))
    return int(begins[worst]), int(ends[worst]), int((ends - begins).sum())


def _in_pool(pool: QuotaPool, waits: Waits) -> Iterator[tuple[int, int, int, int, str, QuotaPool]]:
    """How long in all, from when to when the longest, which queue, of what."""
    borrowed = {name: borrowed_and_lent(pool, name)[0] for name in pool.resources}
    if not any(of.any() for of in borrowed.values()):
        return
    left = {name: pool.nominal(name)[:, None] - pool.used(name) for name in pool.resources}
    for place, queue in enumerate(pool.queues):
        room = {name: of[place] for name, of in left.items()}
        others = {name: of.sum(axis=0) > of[place] for name, of in borrowed.items()}
        kept = _kept(pool, waits.get(queue.name, {}), room, others)
        cases = [(*longest(wrong, pool), name) for name, wrong in kept.items()]
        since, until, lasted, resource = max(cases, key=lambda one: one[2], default=(0, 0, 0, ""))
        if until - since > KEPT_NS:
            yield lasted, since, until, place, resource, pool


def _kept(
    pool: QuotaPool, waits: Mapping[Asked, list[tuple[int, int]]], room: Mapping[str, Reals], others: Mapping[str, Mask]
) -> dict[str, Mask]:
    """Per resource when a workload waited that had room in its own quota, and others borrowed of this resource."""
    kept = {name: np.zeros(len(pool.moments) - 1, dtype=bool) for name in pool.resources}
    for asked, spans in waits.items():
        mine = [name for name, _ in asked if name in room]
        times = np.array(spans, dtype=np.int64)
        change = np.zeros(len(pool.moments), dtype=np.int64)
        np.add.at(change, np.searchsorted(pool.moments, times[:, 0]).clip(max=len(change) - 1), 1)
        np.add.at(change, np.searchsorted(pool.moments, times[:, 1]).clip(max=len(change) - 1), -1)
        fits = np.cumsum(change)[:-1] > 0
        for name, amount in asked:
            if name in room:
                fits &= room[name] >= amount
        for name in mine:
            kept[name] |= fits & others[name]
    return kept


def _waits(seen: Lifecycle) -> Waits:
    """When workloads wait for a place, the first and after each eviction. Where no queue admits them whole, the pods of a workload
    that is no gang get their places one by one."""
    whole = has_admissions(seen)
    table, found = seen.workloads, Waits()
    placed, over = placed_ns(seen).to_list(), over_ns(seen).fill_null(seen.end_ns).to_list()
    row_of = {number: row for row, number in enumerate(table["number"].to_list())}
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for number, at, event in seen.evictions.select("workload", "at_ns", "event").rows():
        if number in row_of:
            (begins if event == EVICTED else ends).setdefault(row_of[number], []).append(at)
    columns = (table[name].to_list() for name in (SUBMITTED.name, "queue", "shape", "pods", "refused"))
    for row, (submitted, queue, shape, pods, refused) in enumerate(zip(*columns, strict=True)):
        if refused:
            continue
        phase = seen.trial.shapes.get(shape) or {}
        told = phase.get("declares") if whole else None
        times = int(pods) if whole or phase.get("gang") else 1
        amounts = (phase.get("requests") if told is None else told) or {}
        asked = tuple((name, int(amount) * times) for name, amount in amounts.items() if amount)
        got = [*([placed[row]] if placed[row] is not None else []), *ends.get(row, ())]
        for since in (submitted, *begins.get(row, ())):
            until = min((at for at in got if at >= since), default=over[row])
            if asked and until > since:
                found.setdefault(queue or "", {}).setdefault(asked, []).append((since, until))
    return found


def _example(
    seen: Lifecycle, lasted: int, since: int, until: int, place: int, resource: str, pool: QuotaPool
) -> dict[str, Any]:
    here = (pool.moments[:-1] >= since) & (pool.moments[:-1] < until)
    borrowed, _ = borrowed_and_lent(pool, resource)
    borrowers = np.flatnonzero((borrowed[:, here] > 0).any(axis=1))
    return {
        "queue": pool.queues[place].name, "resource": resource, "quota": int(pool.nominal(resource)[place]),
        "held": int(pool.used(resource)[place][here].min()), "from_s": seconds(seen, since), "until_s": seconds(seen, until),
        "lasted_s": seconds_of(lasted), "borrowers": [pool.queues[n].name for n in borrowers[:EXAMPLES].tolist() if n != place],
    }  # fmt: skip


def _take_back(seen: Lifecycle) -> str:
    rule = seen.trial.fleet.preemption.reclaim
    if rule == NEVER:
        return "Write `preemption: {reclaim: any}` to let a queue reclaim its quota, or limit `borrow` or `lend`."
    if rule != ANY:
        return (
            f"`reclaim: {rule}` reclaims from lower priorities only: write `reclaim: any`, or limit `borrow` or `lend`."
        )
    return "It may reclaim its quota: evictions.parquet has the workloads that it evicted; check how long their pods took to end."
