"""The submitting client of a closed loop: what it sends next depends on what has ended (`model.closed_loop`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from seatrial.model.closed_loop import ReadyItems
from seatrial.model.interfaces import Tally
from seatrial.model.load import Load, lateness
from seatrial.sim.apiserver import WRITE, ApiClient, ApiServer
from seatrial.sim.kernel import Kernel
from seatrial.sim.submitting_client import Create, Send


class ClosedLoopClient:
    """Runs one load; calls `done(tally)` at the last answer."""

    def __init__(
        self,
        kernel: Kernel,
        api: ApiServer,
        bucket: ApiClient,
        load: Load,
        send: Send,
        create: Create,
        done: Callable[[Tally], None],
    ) -> None:
        assert load.due is not None and load.after is not None and load.think is not None
        self._kernel, self._api, self._bucket, self._load = kernel, api, bucket, load
        self._connection = ApiClient("seatrial")
        self._send_one, self._create, self._done = send, create, done
        self._start = kernel.now
        self._items = ReadyItems(load.due, load.after, load.think)
        self._numbers: dict[int, int] = {}  # of workloads → their items
        self._due: list[int] = []
        self._sent: list[int] = []
        self._answered = self._alarm = 0  # a later alarm replaces an earlier one

    def begin(self, tell_ends: Callable[[Callable[[int], None]], None]) -> None:
        """Starts sending. `tell_ends` takes who is to be told of workloads that have ended."""
        tell_ends(self._over)
        self._next()

    def _over(self, number: int) -> None:
        """A workload has ended."""
        index = self._numbers.get(number)
        if index is not None and self._items.ended(index, self._kernel.now - self._start):
            self._next()

    def _next(self) -> None:
        due = self._items.next_due
        if due is not None:
            self._alarm += 1
            self._kernel.at(max(self._start + due, self._kernel.now), self._ask, self._alarm)

    def _ask(self, alarm: int) -> None:
        if alarm == self._alarm:
            slot = self._bucket.slot(self._kernel.now)
            self._alarm += 1
            self._kernel.at(max(slot, self._kernel.now), self._send, None)

    def _send(self, _: object) -> None:
        index, due = self._items.take()
        self._due.append(due)
        self._sent.append(self._kernel.now - self._start)
        number = self._send_one(self._load.item(index))
        self._numbers[number] = index
        self._api.call(self._connection, WRITE, self._answer, number)
        self._next()

    def _answer(self, number: int) -> None:
        self._create(number)
        self._answered += 1
        if self._answered == self._load.count:
            took = self._sent[-1] - self._sent[0]
            late = lateness(np.asarray(self._due, dtype=np.int64), self._sent)
            self._done(Tally(self._load.phase, self._load.count, took, took, *late))
