"""Usage, borrowing and lending of each queue, and the distance from its fair share.

Queues that lend each other (all below the same topmost cohort) are a pool; a queue without a cohort is a pool of its own. The fair
share of a queue at a moment: what it wants, up to its nominal quota; what the others then leave is divided among those that want
more, by weight, up to what each wants and may borrow (weighted max-min fairness, by water filling), cohort by cohort
(`cohort_shares`). That is what Kueue's fair sharing aims at: it compares what siblings use beyond their quotas, divided by weight.

Fairness is about one resource of a pool, the one most in demand: the largest sum of what was wanted, in proportion to the quota. If
quotas are larger than what the nodes have, they count in proportion to it. Queues compete while at least two of the pool want
something and together more than there is; at other times nobody is treated unfairly, however little is used.

Quotas of several flavors count together: a pod's flavor is known by its node only (pods.csv), and usage begins before it is bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from seatrial.analysis.cohort_shares import Branch, Reals, fair_shares
from seatrial.analysis.holdings import UNITS, Spans, has_admissions, held_spans, kind_of, wanted_spans
from seatrial.analysis.occupancy import Numbers
from seatrial.analysis.stage_times import Lifecycle
from seatrial.model.fleet import Cohort, Fleet, Queue, nominal, topmost
from seatrial.model.units import SECOND

CELLS = 4_000_000  # queues × moments of a pool; with more, it is looked at in evenly spaced moments


@dataclass(frozen=True)
class QueueUse:
    """The usage of one queue over the trial. Amounts by resource, in units × seconds; shares are of the pool."""

    nominal: Mapping[str, float] = field(default_factory=dict)
    borrowed: Mapping[str, float] = field(default_factory=dict)
    lent: Mapping[str, float] = field(default_factory=dict)
    resource: str = ""  # that shares are of
    share: float | None = None  # mean, while it wanted something
    fair_share: float | None = None  # mean, while the pool competed
    error: float | None = None  # mean distance of what it used from its fair share, while the pool competed
    received: float = 0.0  # units × seconds while the pool competed
    entitled: float = 0.0  # its fair share of them


@dataclass(frozen=True)
class QuotaPool:
    """Queues that lend each other, and when they held and wanted how much.

    `moments` are the times between which nothing changes (or evenly spaced ones, see CELLS); a column stands for the time until the
    next moment. Rows are queues in the order of `queues`.
    """

    name: str  # of the topmost cohort, or of the only queue
    queues: tuple[Queue, ...]
    extra: Mapping[str, int]  # quotas of the cohorts themselves
    moments: Numbers
    resources: tuple[str, ...]
    _held: Sequence[tuple[Numbers, Numbers, Mapping[str, Numbers]]] = field(repr=False, default=())
    _wanted: Sequence[tuple[Numbers, Numbers, Mapping[str, Numbers]]] = field(repr=False, default=())

    @property
    def lasting(self) -> Reals:
        """How long each column lasts, in seconds."""
        return np.diff(self.moments) / SECOND

    def used(self, resource: str) -> Reals:
        """Queue × moment: what it held of its quota and of others'."""
        return self._summed(self._held, resource)

    def wanted(self, resource: str) -> Reals:
        """Queue × moment: what its workloads ask for, those that hold something and those that wait."""
        return np.maximum(self._summed(self._wanted, resource), self.used(resource))

    def _summed(self, changes: Sequence[tuple[Numbers, Numbers, Mapping[str, Numbers]]], resource: str) -> Reals:
        table = np.zeros((len(self.queues), len(self.moments)))
        for queue, at, amounts in changes:
            np.add.at(table, (queue, np.searchsorted(self.moments, at)), amounts[resource])
        return np.cumsum(table, axis=1)[:, :-1]

    def nominal(self, resource: str) -> Reals:
        """The nominal quota of each queue."""
        return np.array([nominal(queue.quotas).get(resource, 0) for queue in self.queues], dtype=float)

    def borrow_limit(self, resource: str) -> Reals:
        """How much each queue may hold beyond its nominal quota; infinite where nothing limits it."""
        return np.array([_limit(queue, resource) for queue in self.queues])

    def lendable(self, resource: str) -> Reals:
        """How much of its nominal quota each queue may lend."""
        return np.array([_lendable(queue, resource) for queue in self.queues])

    def size(self, resource: str) -> float:
        """The whole quota of the pool."""
        return float(self.nominal(resource).sum()) + self.extra.get(resource, 0)

    @cached_property
    def contended(self) -> str:
        """The resource most in demand; empty if nothing was wanted."""
        asked = {
            name: float((self.wanted(name) * self.lasting).sum()) / self.size(name)
            for name in self.resources
            if self.size(name)
        }
        return max(asked, key=lambda name: asked[name]) if any(asked.values()) else ""


def _limit(queue: Queue, resource: str) -> float:
    if not queue.cohort:
        return 0.0
    limits = [quota.borrow.get(resource, np.inf) for quota in queue.quotas if resource in quota.nominal]
    return float(sum(limits)) if limits else 0.0


def _lendable(queue: Queue, resource: str) -> float:
    if not queue.cohort:
        return 0.0
    return float(sum(
        min(quota.nominal.get(resource, 0), quota.lend.get(resource, np.inf)) for quota in queue.quotas
    ))  # fmt: skip


class FleetUse:
    """The queues of a trial, pool by pool."""

    def __init__(self, seen: Lifecycle, until_ns: int) -> None:
        self.seen, self.fleet = seen, seen.trial.fleet
        self.until_ns = max(until_ns, seen.first_ns + 1)

    @cached_property
    def pools(self) -> list[QuotaPool]:
        """The pools, in the order of the fleet's queues."""
        members: dict[str, list[Queue]] = {}
        for queue in self.fleet.queues:
            members.setdefault(topmost(self.fleet, queue.cohort) or f"queue {queue.name}", []).append(queue)
        spans = [held_spans(self.seen), wanted_spans(self.seen)]
        names = [queue.name for queue in self.fleet.queues]
        place = {name: number for number, name in enumerate(names)}
        of_row = self.seen.workloads["queue"].fill_null("").replace_strict(place, default=-1, return_dtype=pl.Int64)
        queue_of_row = of_row.to_numpy()
        return [self._pool(name, queues, spans, queue_of_row, place) for name, queues in members.items()]

    def _pool(
        self, name: str, queues: Sequence[Queue], spans: Sequence[Spans], queue_of_row: Numbers, place: Mapping[str, int]
    ) -> QuotaPool:  # fmt: skip
        resources = tuple(dict.fromkeys(r for queue in queues for r in nominal(queue.quotas)))
        inside = np.full(len(place) + 1, -1)
        for number, queue in enumerate(queues):
            inside[place[queue.name]] = number
        held, wanted = (self._changes(one, inside[queue_of_row], resources) for one in spans)
        times = np.concatenate([at for _, at, _ in (*held, *wanted)])
        times = times[(times > self.seen.first_ns) & (times < self.until_ns)]
        moments = np.unique(np.concatenate((times, [self.seen.first_ns, self.until_ns])))
        if len(moments) * len(queues) > CELLS:
            moments = np.linspace(self.seen.first_ns, self.until_ns, CELLS // len(queues) + 1).astype(np.int64)
        kept = [
            [(queue[at < self.until_ns], np.maximum(at[at < self.until_ns], self.seen.first_ns),
              {r: amounts[r][at < self.until_ns] for r in resources}) for queue, at, amounts in one]
            for one in (held, wanted)
        ]  # fmt: skip
        extra = _cohort_quotas(self.fleet, name)
        return QuotaPool(name, tuple(queues), extra, moments, resources, kept[0], kept[1])

    def _changes(
        self, spans: Spans, inside: Numbers, resources: Sequence[str]
    ) -> list[tuple[Numbers, Numbers, dict[str, Numbers]]]:
        """Queue, time and amounts of every beginning and of every end."""
        queue = inside[spans.row]
        mine = queue >= 0
        phases = self.seen.workloads["shape"].gather(spans.row[mine])
        amounts = {r: self._amounts(phases, r) * spans.pods[mine] for r in resources}
        ends = {r: -of for r, of in amounts.items()}
        return [(queue[mine], spans.since[mine], amounts), (queue[mine], spans.until[mine], ends)]

    def _amounts(self, phases: pl.Series, resource: str) -> Numbers:
        """Amounts that a queue counts per pod: declared requests if the queue admits workloads, else the pods' requests."""
        known = {}
        for name, phase in self.seen.trial.shapes.items():
            told = phase.get("declares") if has_admissions(self.seen) else None
            asked: Mapping[str, Any] = (phase.get("requests") if told is None else told) or {}
            known[name] = int(asked.get(resource, 0))
        return np.asarray(phases.replace_strict(known, default=0, return_dtype=pl.Int64).to_numpy())

    @cached_property
    def _scale(self) -> dict[str, float]:
        """Resource → how much of the quotas the nodes can honour: 1, or less where quotas are larger than the nodes."""
        asked: dict[str, float] = {}
        for pool in self.pools:
            for name in pool.resources:
                asked[name] = asked.get(name, 0.0) + pool.size(name)
        there = _capacity(self.seen.trial.document.get("nodes") or ())
        return {
            name: min(1.0, there[name] / total) if there.get(name) and total else 1.0 for name, total in asked.items()
        }

    @cached_property
    def queues(self) -> dict[str, QueueUse]:
        """Queue → what it used, borrowed and lent."""
        return {name: use for pool in self.pools for name, use in self._of_pool(pool).items()}

    @cached_property
    def share_error(self) -> float | None:
        """The part of the quota that was not where it should have been: half the sum of the queues' distances from their fair
        share, in proportion to the quota, over the time in which queues competed. None if nobody competed."""
        wrong = whole = 0.0
        for pool in self.pools:
            if not pool.contended:
                continue
            used, fair, competing = self.fair(pool)
            lasting = pool.lasting[competing]
            wrong += float((np.abs(used - fair)[:, competing] * lasting).sum()) / 2
            whole += float(lasting.sum()) * self.size(pool)
        return wrong / whole if whole else None

    @cached_property
    def jain(self) -> float | None:
        """Jain's index over what queues received in proportion to their fair share; None if nobody competed."""
        parts = [use.received / use.entitled for use in self.queues.values() if use.entitled > 0]
        squares = sum(part * part for part in parts)
        return sum(parts) ** 2 / (len(parts) * squares) if squares else None

    def size(self, pool: QuotaPool) -> float:
        """The pool's quota of its contended resource, as far as the nodes can honour it."""
        return pool.size(pool.contended) * self._scale[pool.contended]

    def fair(self, pool: QuotaPool) -> tuple[Reals, Reals, npt.NDArray[np.bool_]]:
        """Queue × moment: what was used and what was fair of the contended resource; and when the queues competed."""
        resource = pool.contended
        scale = self._scale[resource]
        used, wanted = pool.used(resource), pool.wanted(resource)
        own = pool.nominal(resource) * scale
        fair = fair_shares(
            wanted, own, pool.borrow_limit(resource), pool.lendable(resource) * scale,
            np.array([queue.weight for queue in pool.queues]), self._tree(pool, pool.name, resource, scale),
        )  # fmt: skip
        competing = ((wanted > 0).sum(axis=0) >= 2) & (wanted.sum(axis=0) > self.size(pool))
        return used, fair, competing

    def _tree(self, pool: QuotaPool, name: str, resource: str, scale: float) -> Branch:
        """The cohort of this name in the pool; of a queue without a cohort, the queue alone."""
        cohort = next((one for one in self.fleet.cohorts if one.name == name), Cohort(name))
        quotas = [quota for quota in cohort.quotas if resource in quota.nominal]
        rows = [n for n, queue in enumerate(pool.queues) if queue.cohort in (name, "")]
        below = [one.name for one in self.fleet.cohorts if one.parent == name]
        return Branch(
            tuple(rows), tuple(self._tree(pool, one, resource, scale) for one in below), cohort.weight,
            sum(quota.nominal[resource] for quota in quotas) * scale,
            sum(quota.borrow.get(resource, np.inf) for quota in quotas) if quotas else np.inf,
            sum(quota.lend.get(resource, np.inf) for quota in quotas) * scale if quotas else np.inf,
        )  # fmt: skip

    def _of_pool(self, pool: QuotaPool) -> dict[str, QueueUse]:
        lasting, resource = pool.lasting, pool.contended
        borrowed, lent, own = {}, {}, {name: pool.nominal(name) for name in pool.resources}
        for name in pool.resources:
            borrowed[name], lent[name] = ((table * lasting).sum(axis=1) for table in borrowed_and_lent(pool, name))
        if resource:
            used, fair, competing = self.fair(pool)
            size = self.size(pool)
            wanting = (pool.wanted(resource) > 0) * lasting
            during = lasting[competing]
        found = {}
        for place, queue in enumerate(pool.queues):
            use = QueueUse(
                {name: float(own[name][place] * lasting.sum()) for name in pool.resources},
                {name: float(borrowed[name][place]) for name in pool.resources},
                {name: float(lent[name][place]) for name in pool.resources},
            )
            if not resource:
                found[queue.name] = use
                continue
            mine, right = used[place][competing], fair[place][competing]
            wanted_s, competed_s = float(wanting[place].sum()), float(during.sum())
            found[queue.name] = replace(
                use,
                resource=resource,
                share=float((used[place] * wanting[place]).sum()) / size / wanted_s if wanted_s else None,
                fair_share=float((right * during).sum()) / size / competed_s if competed_s else None,
                error=float((np.abs(mine - right) * during).sum()) / size / competed_s if competed_s else None,
                received=float((mine * during).sum()),
                entitled=float((right * during).sum()),
            )
        return found


def borrowed_and_lent(pool: QuotaPool, resource: str) -> tuple[Reals, Reals]:
    """Queue × moment: what each held beyond its nominal quota, and what of its quota others held. A cohort does not decide who
    lends to whom: what is borrowed counts as lent by all that have something left, in proportion to that."""
    used, own = pool.used(resource), pool.nominal(resource)[:, None]
    borrowed = np.maximum(used - own, 0)
    spare = np.minimum(np.maximum(own - used, 0), pool.lendable(resource)[:, None])
    there = spare.sum(axis=0) + pool.extra.get(resource, 0)
    lent = np.minimum(borrowed.sum(axis=0) / np.where(there > 0, there, 1), 1) * spare
    return borrowed, lent


def by_kind(amounts: Mapping[str, float], kind: str) -> float:
    """Amounts of resources as core-, GPU- or GiB-seconds."""
    return sum(amount for name, amount in amounts.items() if kind_of(name) == kind) / UNITS[kind]


def _cohort_quotas(fleet: Fleet, pool: str) -> dict[str, int]:
    """Quotas of the cohorts of a pool themselves."""
    mine: list[Cohort] = [cohort for cohort in fleet.cohorts if topmost(fleet, cohort.name) == pool]
    return nominal([quota for cohort in mine for quota in cohort.quotas])


def _capacity(spans: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The most that the nodes had of each resource at the same time."""
    names = {name for span in spans for name in span.get("capacity") or {}}
    times = sorted({int(span.get("from_ns") or 0) for span in spans})

    def there(span: Mapping[str, Any], at: int) -> bool:
        until = span.get("until_ns")
        return int(span.get("from_ns") or 0) <= at and (until is None or int(until) > at)

    return {
        name: max(
            sum(int((s.get("capacity") or {}).get(name, 0)) * int(s.get("count", 1)) for s in spans if there(s, at))
            for at in times
        )
        for name in names
    }
