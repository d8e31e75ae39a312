"""Head-of-line blocking: the first of a queue did not fit, and workloads behind it would have.

The head is the earliest submitted workload of its priority that is not admitted yet. A workload fits if the quota that admitted
workloads leave takes all of it, and if the nodes have room for it: for a gang as a whole, for other pods one by one. A queue that
admits a workload behind the head does not block, so only periods of a minute or longer without an admission count. MCAD's backoff
of 20 s is not blocking.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from seatrial.analysis.occupancy import NEVER, Numbers, Occupancy
from seatrial.model.lifecycle import ADMITTED, COMPLETED, DELETED, FAILED, RELEASED, SUBMITTED
from seatrial.model.units import MINUTE

BLOCKED_NS = 1 * MINUTE


@dataclass(frozen=True)
class Blocking:
    """A head of a queue that blocked others. `behind`: rows of the workloads that would have fitted; `lasted`: how long each was
    blocked, in ns."""

    head: int
    since: int
    until: int
    behind: Numbers
    lasted: Numbers


class WaitingLine:
    """The workloads of a trial as its queue saw them, a row for each."""

    def __init__(self, occupancy: Occupancy) -> None:
        self._occupancy = occupancy
        seen = occupancy.seen
        workloads = seen.workloads
        self.phase = occupancy.phase_of_workloads
        self.size = workloads["pods"].to_numpy().astype(np.int64)
        self.submitted = workloads[SUBMITTED.name].to_numpy()
        self.admitted = workloads[ADMITTED.name].fill_null(NEVER).to_numpy()
        ends = [s.name for s in (RELEASED, COMPLETED, FAILED, DELETED) if s.name in workloads.columns]
        over = pl.coalesce(*ends) if ends else pl.lit(None, dtype=pl.Int64)
        self.over = workloads.select(over.fill_null(NEVER).alias("over"))["over"].to_numpy()
        self.left = np.minimum(self.admitted, self.over)  # the line, by being admitted or deleted
        self.priority = occupancy.priority[self.phase]
        self.end = seen.end_ns

    def blockings(self) -> list[Blocking]:
        """All heads that blocked a workload, those that blocked most workloads first."""
        heads = [pair for level in np.unique(self.priority).tolist() for pair in self._heads(level)]
        if not heads:
            return []
        self._compute_fits()
        found = [one for head, since, until in heads if (one := self._behind(head, since, until))]
        return sorted(found, key=lambda one: (-len(one.behind), one.since))

    def _heads(self, level: int) -> list[tuple[int, int, int]]:
        """Workloads of this priority that were first for longer than a minute: from when to when."""
        rows = np.flatnonzero((self.priority == level) & (self.phase >= 0))
        rows = rows[np.argsort(self.submitted[rows], kind="stable")]
        left = np.minimum(self.left[rows], self.end)
        before = np.concatenate((np.zeros(1, dtype=np.int64), np.maximum.accumulate(left)))[: len(rows)]
        since = np.maximum(before, self.submitted[rows])
        long = np.flatnonzero(left - since > BLOCKED_NS)
        return [(int(rows[n]), int(since[n]), int(left[n])) for n in long]

    def _compute_fits(self) -> None:
        """Workloads of one phase and size fit at the same times: a class. Computes for each class after which events it fits."""
        occupancy, moments = self._occupancy, [self.submitted, self.admitted, self.over]
        classes, self.kind = np.unique(np.stack((self.phase, self.size)), axis=1, return_inverse=True)
        self.kind = self.kind.reshape(-1)
        rooms = {place: occupancy.room(place) for place in set(classes[0].tolist()) if place >= 0}
        at = np.unique(np.concatenate([*moments, *(room.at for room in rooms.values())]))
        self._at = at[(at >= 0) & (at < self.end)]
        left = self._quota_left()
        fits = np.zeros((classes.shape[1], len(self._at)), dtype=bool)
        for number, (place, size) in enumerate(classes.T.tolist()):
            if place >= 0:
                need = size if occupancy.details[place].get("gang") else min(size, 1)
                fits[number] = rooms[place].when(self._at) >= need
                for name, amount in self._declared(place).items():
                    if name in left:
                        fits[number] &= left[name] >= amount * size
        self._fits = fits
        self._lasts = np.diff(np.append(self._at, self.end))

    def _quota_left(self) -> dict[str, Numbers]:
        """Resource → the rest of the quota after each event. A quota equal to the capacity of the nodes follows the nodes."""
        quota = self._occupancy.seen.trial.document.get("quota") or {}
        left = {}
        for name in quota:
            asked = [int(self._declared(place).get(name, 0)) for place in range(len(self._occupancy.phases))]
            amounts = np.array(asked, dtype=np.int64)[self.phase] * self.size
            change = np.concatenate((amounts, -amounts))
            at = np.concatenate((self.admitted, np.where(self.admitted == NEVER, NEVER, self.over)))
            order = np.argsort(at, kind="stable")
            used = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(change[order])))
            left[name] = self._quota(name, int(quota[name])) - used[np.searchsorted(at[order], self._at, side="right")]
        return left

    def _quota(self, name: str, quota: int) -> Numbers:
        at = np.zeros(len(self._at), dtype=np.int64)
        for span in self._occupancy.spans:
            amount = int((span.get("capacity") or {}).get(name, 0)) * int(span.get("count", 1))
            until = NEVER if span.get("until_ns") is None else int(span["until_ns"])
            at += np.where((self._at >= int(span.get("from_ns") or 0)) & (self._at < until), amount, 0)
        return at if len(at) and quota == at[0] else np.full(len(at), quota, dtype=np.int64)

    def _declared(self, place: int) -> dict[str, int]:
        phase = self._occupancy.details[place]
        told = phase.get("declares")
        amounts = (phase.get("requests") or {}) if told is None else told
        return {name: int(amount) for name, amount in amounts.items()}

    def _behind(self, head: int, since: int, until: int) -> Blocking | None:
        """The workloads that would have fitted while the head did not, and no later one was admitted."""
        level = self.priority[head]
        later = (self.priority < level) | ((self.priority == level) & (self.submitted >= self.submitted[head]))
        later &= (self.submitted < until) & (self.left > since)
        later[head] = False
        rows = np.flatnonzero(later)
        let_go = self.admitted[rows]
        edges = np.concatenate(([since], np.unique(let_go[(let_go > since) & (let_go < until)]), [until]))
        lasted = np.zeros(len(rows), dtype=np.int64)
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if end - begin > BLOCKED_NS:
                self._add_blocked(lasted, head, rows, begin, end)
        long = np.flatnonzero(lasted > BLOCKED_NS)
        if not len(long):
            return None
        long = long[np.argsort(-lasted[long], kind="stable")]
        return Blocking(head, since, until, rows[long], lasted[long])

    def _add_blocked(self, lasted: Numbers, head: int, rows: Numbers, begin: int, end: int) -> None:
        """Adds for each of the later workloads how long in this period it waited and would have fitted while the head did not."""
        waiting = np.flatnonzero((self.submitted[rows] < end) & (self.left[rows] >= end))
        if not len(waiting):
            return
        first, last = np.searchsorted(self._at, [begin, end], side="left").tolist()
        part = slice(first, last)
        stuck = ~self._fits[self.kind[head], part]
        kinds = self.kind[rows[waiting]]
        for kind in np.unique(kinds).tolist():
            blocked = np.where(stuck & self._fits[kind, part], self._lasts[part], 0)
            if blocked.sum() <= BLOCKED_NS:
                continue
            alike = waiting[kinds == kind]
            to_come = np.append(np.cumsum(blocked[::-1])[::-1], 0)
            since = np.maximum(self.submitted[rows[alike]], begin)
            lasted[alike] += to_come[np.searchsorted(self._at[part], since, side="left")]
