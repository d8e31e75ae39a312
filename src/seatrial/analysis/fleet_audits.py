"""The audits of a shared fleet: quotas that were not kept, queues and workloads that got less than promised, evictions in vain.

They are made where a set-up has queues or workloads were evicted. Each names queues and workloads, and says what to change.

- `quota exceeded`: queues that held more than their quota and what they may borrow, or a cohort that held more than all its quota.
- `kept below quota` (kept_below_quota.py): queues that did not get their own quota for 30 s or longer while others borrowed.
- `priority inversion`: workloads that waited while one of their queue with a lower priority, which asks for no less, got a place.
- `freed nothing`: evictions for a workload that did not get its place within a minute.
- `evicted again`: workloads that were evicted three times or more.
- `starvation`: workloads that waited for ten minutes and ten times as long as most while ten or more later ones got a place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from seatrial.analysis.admission_audits import EXAMPLES, Audit, audit_of, quantity, seconds, seconds_of, some
from seatrial.analysis.cohort_shares import Reals
from seatrial.analysis.fair_shares import FleetUse
from seatrial.analysis.holdings import has_admissions, over_ns, placed_ns
from seatrial.analysis.kept_below_quota import kept_below, longest
from seatrial.analysis.occupancy import NEVER, Numbers
from seatrial.analysis.stage_times import Lifecycle
from seatrial.model.fleet import NEVER as NOBODY
from seatrial.model.lifecycle import PODS_CREATED, SUBMITTED
from seatrial.model.units import MINUTE, SECOND
from seatrial.record.evictions import EVICTED

TOGETHER_NS = 1 * SECOND  # changes within a second count as simultaneous
PROMPT_NS = 1 * MINUTE  # a preemptor waits for the pods of its victims to end: 30 s of grace, and a margin
AGAIN = 3
ENDLESS = 1 << 62
STARVED_NS, STARVED_TIMES, STARVED_BY = 10 * MINUTE, 10, 10


def fleet_audits(seen: Lifecycle) -> list[Audit]:
    """All fleet audits; none without a queue and an eviction."""
    if not seen.trial.fleet.queues and not seen.evictions.height:
        return []
    use, line = FleetUse(seen, seen.end_ns), _Line(seen)
    return [
        _quota_exceeded(seen, use),
        kept_below(seen, use),
        _inverted(line),
        _freed_nothing(line),
        _evicted_again(line),
        _starved(line),
    ]


# quotas


def _quota_exceeded(seen: Lifecycle, use: FleetUse) -> Audit:
    examples: list[dict[str, Any]] = []
    for pool in use.pools:
        for resource in pool.resources:
            used = pool.used(resource)
            most = pool.nominal(resource) + pool.borrow_limit(resource)
            rows: list[tuple[str, Reals, float]] = [
                (f"queue {queue.name}", used[n], float(most[n])) for n, queue in enumerate(pool.queues)
            ]
            if len(pool.queues) > 1 or pool.queues[0].cohort:
                rows.append((f"cohort {pool.name}", used.sum(axis=0), pool.size(resource)))
            for name, held, allowed in rows:
                since, until, lasted = longest(held > allowed + 1e-6, pool)
                if until - since > TOGETHER_NS:
                    there = int(held[(pool.moments[:-1] >= since) & (pool.moments[:-1] < until)].max())
                    examples.append({
                        "of": name, "resource": resource, "held": there, "allowed": int(allowed), "from_s": seconds(seen, since),
                        "until_s": seconds(seen, until), "lasted_s": seconds_of(lasted),
                    })  # fmt: skip
    examples.sort(key=lambda one: -one["lasted_s"])
    finding = "No queue held more than its quota plus its borrowing limit."
    if examples:
        first = examples[0]
        had, limit = (quantity(first["resource"], first[name]) for name in ("held", "allowed"))
        finding = (
            f"{first['of']} held {had} where {limit} is allowed, from {first['from_s']} s to {first['until_s']} s; "
            f"{some(len(examples), 'case', 'cases')} in all. The stack does not enforce this quota: look at its queue objects, and "
            "at `declares` if pods request more than they declare."
        )
    return audit_of("quota exceeded", finding, len(examples), examples[:EXAMPLES])


# workloads


class _Line:
    """The workloads of a trial in rows: when they were submitted, got a place (again), and were over."""

    def __init__(self, seen: Lifecycle) -> None:
        self.seen = seen
        table = seen.workloads
        self.names = table["workload"]
        self.submitted: Numbers = table[SUBMITTED.name].to_numpy()
        self.placed: Numbers = placed_ns(seen).fill_null(NEVER).to_numpy()
        self.over: Numbers = over_ns(seen).fill_null(NEVER).to_numpy()
        self.priority = table["priority"].fill_null(0).to_numpy().astype(np.int64)
        self.size = table["pods"].to_numpy().astype(np.int64)
        self.phase = table["shape"].to_list()  # of its pods
        self.queue = table["queue"].fill_null("").to_list()
        self.row_of = {number: row for row, number in enumerate(table["number"].to_list())}
        self.again: dict[int, list[int]] = {}  # row → admissions after an eviction
        self.lost: dict[int, list[int]] = {}  # row → evictions
        self.evictions: list[
            tuple[int, int, str, int]
        ] = []  # at, row, reason, row of who gets the place (−1: not known)
        for at, number, event, reason, by in seen.evictions.select("at_ns", "workload", "event", "reason", "by").rows():
            if number not in self.row_of:
                continue
            if event == EVICTED:
                self.evictions.append((at, self.row_of[number], reason, self.row_of.get(by, -1)))
                self.lost.setdefault(self.row_of[number], []).append(at)
            else:
                self.again.setdefault(self.row_of[number], []).append(at)

    @property
    def waited_until(self) -> Numbers:
        """When each got its first place, or was over, or the trial ended."""
        return np.minimum(np.minimum(self.placed, self.over), self.seen.end_ns)

    def next_place(self, row: int, after: int) -> int:
        """When a workload got a place at or after this time, or had one already; NEVER if it did not."""
        at = [int(self.placed[row]), *self.again.get(row, ())]
        had = max((when for when in at if when <= after), default=-1)
        if had > max((when for when in self.lost.get(row, ()) if when <= after), default=-1):
            return after
        return min((when for when in at if when >= after - TOGETHER_NS), default=NEVER)

    def groups(self) -> Iterator[tuple[str, Numbers]]:
        """Queues with the rows of their workloads; all together where there are no queues."""
        table = pl.DataFrame({"queue": self.queue}).with_row_index("row")
        for (name,), rows in table.group_by("queue", maintain_order=True):
            yield str(name), rows["row"].to_numpy().astype(np.int64)

    def asks_no_less(self, rows: Numbers, row: int) -> Numbers:
        """The rows whose workloads request at least as much as this one, of every resource."""
        phases = self.seen.trial.shapes
        mine = (phases.get(self.phase[row]) or {}).get("requests") or {}

        def needed(phase: str) -> int:
            """The number of pods of the phase that request as much as all pods of this workload."""
            theirs = (phases.get(phase) or {}).get("requests") or {}
            asked = [
                (int(amount) * int(self.size[row]), int(theirs.get(name, 0))) for name, amount in mine.items() if amount
            ]
            return max((-(-wanted // each) if each else ENDLESS for wanted, each in asked), default=1)

        least = {phase: needed(phase) for phase in {self.phase[n] for n in rows.tolist()}}
        return np.array([n for n in rows.tolist() if self.size[n] >= least[self.phase[n]]], dtype=np.int64)


def _inverted(line: _Line) -> Audit:
    found: list[tuple[int, int, int, str]] = []  # for how long, who waited, who passed, queue
    until = line.waited_until
    for name, rows in line.groups():
        levels = np.unique(line.priority[rows])
        for level in levels[1:].tolist():
            mine = rows[line.priority[rows] == level]
            lower = rows[line.priority[rows] < level]
            for kind in {(line.phase[row], int(line.size[row])) for row in mine.tolist()}:
                alike = np.array([row for row in mine.tolist() if (line.phase[row], int(line.size[row])) == kind])
                rivals = line.asks_no_less(lower, int(alike[0]))
                moves = [(int(line.placed[row]), row) for row in rivals.tolist() if line.placed[row] != NEVER]
                moves += [(at, row) for row in rivals.tolist() for at in line.again.get(row, ())]
                moves.sort()
                at = np.array([when for when, _ in moves], dtype=np.int64)
                first = np.searchsorted(at, line.submitted[alike] + TOGETHER_NS, side="right")
                for row, place in zip(alike.tolist(), first.tolist(), strict=True):
                    if place < len(moves) and moves[place][0] < until[row] - TOGETHER_NS:
                        found.append((int(until[row]) - moves[place][0], row, moves[place][1], name))
    found.sort(key=lambda one: -one[0])
    examples = [
        {"workload": line.names[row], "priority": int(line.priority[row]), "behind": line.names[other],
         "its_priority": int(line.priority[other]), "queue": name, "for_s": seconds_of(lasted)}
        for lasted, row, other, name in found[:EXAMPLES]
    ]  # fmt: skip
    finding = "No workload waited while one of a lower priority in its queue got a place that it could have had."
    if found:
        one = examples[0]
        where = f" in queue {one['queue']}" if one["queue"] else ""
        finding = (
            f"{some(len(found), 'workload waited', 'workloads waited')} while lower priorities{where} got places that they could "
            f"have had: {one['workload']} (priority {one['priority']}) waited {one['for_s']} s longer after {one['behind']} "
            f"(priority {one['its_priority']}) got one. {_remedy_of_inversion(line.seen)}"
        )
    return audit_of("priority inversion", finding, len(found), examples)


def _remedy_of_inversion(seen: Lifecycle) -> str:
    """`preemption` goes with queues, and has an effect where the stack has such: a ResourceQuota has no order."""
    fleet = seen.trial.fleet
    if fleet.queues and not has_admissions(seen) and seen.trial.quota_from == PODS_CREATED.name:
        return (
            "A namespace's quota has no order, each Job retries by itself: use a stack whose queue orders by priority."
        )
    if fleet.queues and fleet.preemption.within_queue == NOBODY:
        return "Let it take theirs with `preemption: {within-queue: lower-priority}`."
    return "Check that the stack orders its queue by priority."


def _freed_nothing(line: _Line) -> Audit:
    seen, found = line.seen, []
    for at, row, reason, by in line.evictions:
        if by < 0 or line.over[by] <= at:
            continue
        came = line.next_place(by, at)
        if min(came, seen.end_ns) - at > PROMPT_NS:
            found.append((at, row, reason, by, came))
    examples = [
        {"evicted": line.names[row], "for": line.names[by], "reason": reason, "at_s": seconds(seen, at), "queue": line.queue[by],
         "placed_after_s": None if came == NEVER else seconds_of(came - at)}
        for at, row, reason, by, came in found[:EXAMPLES]
    ]  # fmt: skip
    finding = "Every workload that others were evicted for got its place within a minute."
    if found:
        one = examples[0]
        late = "never got it" if one["placed_after_s"] is None else f"got it {one['placed_after_s']} s later"
        finding = (
            f"{some(len(found), 'eviction', 'evictions')} freed nothing for a minute or longer: {one['evicted']} was evicted at "
            f"{one['at_s']} s ({one['reason']}) for {one['for']}, which {late}. Another took the place, or one eviction was "
            "not enough: look at the order of the queue, at gangs that need several nodes, and at the time that pods take to end."
        )
    return audit_of("freed nothing", finding, len(found), examples)


def _evicted_again(line: _Line) -> Audit:
    counts = Counter(row for _, row, _, _ in line.evictions)
    found = [(row, count) for row, count in counts.most_common() if count >= AGAIN]
    examples = []
    for row, count in found[:EXAMPLES]:
        mine = [(reason, by) for _, loser, reason, by in line.evictions if loser == row]
        by = Counter(other for _, other in mine if other >= 0).most_common(1)
        examples.append({
            "workload": line.names[row], "times": count, "queue": line.queue[row],
            "reasons": dict(Counter(reason for reason, _ in mine)), "mostly_by": line.names[by[0][0]] if by else None,
        })  # fmt: skip
    finding = f"No workload was evicted {AGAIN} times or more."
    if found:
        one = examples[0]
        where = f" of queue {one['queue']}" if one["queue"] else ""
        mostly = f", mostly for {one['mostly_by']}" if one["mostly_by"] else ""
        reasons = ", ".join(f"{reason} {times}" for reason, times in one["reasons"].items())
        finding = (
            f"{some(len(found), 'workload was', 'workloads were')} evicted {AGAIN} times or more: {one['workload']}{where} "
            f"{one['times']} times ({reasons}{mostly}). {_remedy_of_evictions(line, found[0][0])}"
        )
    return audit_of("evicted again", finding, len(found), examples)


def _remedy_of_evictions(line: _Line, row: int) -> str:
    saves = bool((line.seen.trial.shapes.get(line.phase[row]) or {}).get("checkpoint_ns"))
    each = "It continues from its last `checkpoint`" if saves else "It starts over each time"
    give = [] if saves else ["it `checkpoint`"]
    give += (
        ["its queue more quota of its own", "others a lower borrowing limit"]
        if line.queue[row]
        else ["it a higher priority"]
    )
    return f"{each}: give {', or '.join([', '.join(give[:-1]), give[-1]] if give[1:] else give)}."


def _starved(line: _Line) -> Audit:
    until = line.waited_until
    waits = until - line.submitted
    usual = float(np.median(waits)) if len(waits) else 0.0
    long = np.flatnonzero((waits >= STARVED_NS) & (waits >= STARVED_TIMES * usual))
    order = np.argsort(line.submitted, kind="stable")
    placed = line.placed[order]
    found = []
    for row in long[np.argsort(-waits[long], kind="stable")].tolist():
        later = placed[np.searchsorted(line.submitted[order], line.submitted[row], side="right") :]
        passed = int((later < until[row]).sum())
        if passed >= STARVED_BY:
            found.append((row, passed))
    examples = [
        {"workload": line.names[row], "queue": line.queue[row], "priority": int(line.priority[row]),
         "waited_s": seconds_of(int(waits[row])), "passed_by": passed, "got_a_place": bool(line.placed[row] != NEVER)}
        for row, passed in found[:EXAMPLES]
    ]  # fmt: skip
    finding = "No workload starved."
    if found:
        one = examples[0]
        where = f" of queue {one['queue']}" if one["queue"] else ""
        queues = Counter(line.queue[row] for row, _ in found if line.queue[row]).most_common(3)
        most = f" By queue: {', '.join(f'{name} {count}' for name, count in queues)}." if queues else ""
        got = "" if one["got_a_place"] else " and still did at the end"
        finding = (
            f"{some(len(found), 'workload', 'workloads')} starved: {one['workload']}{where} (priority {one['priority']}) waited "
            f"{one['waited_s']} s{got}, while {one['passed_by']} later ones got a place; the median is {seconds_of(int(usual))} s."
            f"{most} Give its queue quota of its own that others cannot borrow (`lend`), raise its priority, or turn on "
            "`fair-sharing`."
        )
    return audit_of("starvation", finding, len(found), examples)
