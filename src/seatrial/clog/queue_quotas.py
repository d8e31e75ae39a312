"""The quotas of a fleet's queues at one moment: who has how much of which, what is left for a workload, and who borrows.

Flavors count together: a state does not say in which flavor a workload was admitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seatrial.clog.wording import amounts_of, listing, only, quantities
from seatrial.model.fleet import Fleet, Queue, nominal, topmost
from seatrial.model.plan import Amounts

UNLIMITED = 1 << 62


class QueueQuotas:
    """Quotas and what is used of them. `held`: queue → what an admitted workload counts for, for each of them. Without a quota a
    resource is not limited; with `closed`, as Kueue has it, a workload that requests the resource is never admitted."""

    def __init__(self, fleet: Fleet, held: Iterable[tuple[str, Amounts]], *, closed: bool = False) -> None:
        self._fleet, self._closed = fleet, closed
        self._queues: Mapping[str, Queue] = {queue.name: queue for queue in fleet.queues}
        self.used: dict[str, dict[str, int]] = {name: {} for name in self._queues}
        for name, amounts in held:
            for resource, amount in amounts.items():
                if name in self.used:
                    self.used[name][resource] = self.used[name].get(resource, 0) + amount

    def own(self, queue: str) -> dict[str, int]:
        """Its nominal quota."""
        return nominal(self._queues[queue].quotas)

    def most(self, queue: str) -> dict[str, int]:
        """The queue's limit if no other queue uses anything."""
        own, pool = self.own(queue), self._pool(queue)
        return {name: min(amount + self._borrowable(queue, name), pool.get(name, 0)) for name, amount in own.items()}

    def left(self, queue: str) -> dict[str, int]:
        """The room left for the queue now, without evictions."""
        own, pool = self.own(queue), self._pool(queue)
        found = {}
        for name, amount in own.items():
            free = pool.get(name, 0) - sum(self._used(one.name, name) for one in self._mates(queue))
            kept = sum(self._kept(one, name) for one in self._mates(queue) if one.name != queue)
            within = amount + self._borrowable(queue, name) - self._used(queue, name)
            found[name] = max(min(free - kept, within), 0)
        return found

    def lacking(self, queue: str, asked: Amounts) -> list[str]:
        """The resources of which too little is left. Nothing for a queue that is not known."""
        if queue not in self._queues:
            return []
        left = self.left(queue)
        return [name for name, amount in asked.items() if name in left and amount > left[name]]

    def why_never(self, queue: str, asked: Amounts) -> str:
        """Why a workload never fits into its queue; empty if it does."""
        if queue not in self._queues:
            return ""
        most = self.most(queue)
        if self._closed and (none := [name for name in asked if name not in most]):
            which = " and ".join(none)
            requests = quantities(only(asked, none))
            return f"it requests {requests} and queue {queue} has no quota of {which}: add {which} to its quota"
        short = [name for name, amount in asked.items() if name in most and amount > most[name]]
        if not short:
            return ""
        return (
            f"it requests {quantities(only(asked, short))} in all and queue {queue} admits at most {amounts_of(most, short)}: its "
            f"quota of {amounts_of(self.own(queue), short)} and what it may borrow"
        )

    def waits_for(self, queue: str, asked: Amounts) -> str:
        """The quota that a workload waits for: `the quota of queue blue: it requests cpu 5 …`."""
        short = self.lacking(queue, asked)
        used = {name: self._used(queue, name) for name in short}
        text = (
            f"the quota of queue {queue}: it requests {quantities(only(asked, short))}, {amounts_of(used, short)} of "
            f"{amounts_of(self.own(queue), short)} is used"
        )
        mates = self._mates(queue)
        if len(mates) < 2:
            return text
        pool = self._pool(queue)
        all_used = {name: sum(self._used(one.name, name) for one in mates) for name in short}
        text += f", and {amounts_of(all_used, short)} of {amounts_of(pool, short)} in its cohort"
        borrowers = [
            (one.name, over) for one in mates if one.name != queue and (over := self._borrowed(one.name, short))
        ]
        if borrowers:
            text += f"; {listing([f'{name} borrows {quantities(over)}' for name, over in borrowers])}"
        return text

    def _used(self, queue: str, resource: str) -> int:
        return self.used[queue].get(resource, 0)

    def _borrowed(self, queue: str, resources: Iterable[str]) -> dict[str, int]:
        own = self.own(queue)
        over = {name: self._used(queue, name) - own.get(name, 0) for name in resources}
        return {name: amount for name, amount in over.items() if amount > 0}

    def _mates(self, queue: str) -> list[Queue]:
        """The queues that it shares with, itself among them."""
        mine = self._queues[queue]
        top = topmost(self._fleet, mine.cohort)
        if not top:
            return [mine]
        return [one for one in self._fleet.queues if topmost(self._fleet, one.cohort) == top]

    def _pool(self, queue: str) -> dict[str, int]:
        """The whole quota of its cohorts."""
        top = topmost(self._fleet, self._queues[queue].cohort)
        cohorts = [one for one in self._fleet.cohorts if top and topmost(self._fleet, one.name) == top]
        own = [quota for one in self._mates(queue) for quota in one.quotas]
        return nominal([*own, *(quota for one in cohorts for quota in one.quotas)])

    def _borrowable(self, queue: str, resource: str) -> int:
        mine = self._queues[queue]
        if not mine.cohort:
            return 0
        return sum(quota.borrow.get(resource, UNLIMITED) for quota in mine.quotas if resource in quota.nominal)

    def _kept(self, queue: Queue, resource: str) -> int:
        """The unused quota that the queue does not lend."""
        lends = sum(min(quota.nominal.get(resource, 0), quota.lend.get(resource, UNLIMITED)) for quota in queue.quotas)
        free = nominal(queue.quotas).get(resource, 0) - self._used(queue.name, resource)
        return max(free - lends, 0)
