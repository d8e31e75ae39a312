"""The submitting client: sends each item of a load when it is due and its own rate allows.

Without a rate it sends as fast as a real client of ours gets answers from a small API server.
"""

from __future__ import annotations

from collections.abc import Callable

from seatrial.model.interfaces import Tally
from seatrial.model.load import Load
from seatrial.model.plan import Workload
from seatrial.sim.api import WRITE, ApiServer, Client
from seatrial.sim.kernel import Kernel

# Creates per second that the API server of a 2-core machine took from 32 connections (benchmarks/create_rate.py: 1,407 to 1,552).
FASTEST = 1400.0

Send = Callable[[Workload], int]  # registers it as submitted now; its number
Create = Callable[[int], None]  # the server has it


class Submitter:
    """Runs one load; `done(tally)` when the last item is answered."""

    def __init__(
        self,
        kernel: Kernel,
        api: ApiServer,
        bucket: Client,
        load: Load,
        send: Send,
        create: Create,
        done: Callable[[Tally], None],
    ) -> None:
        self._kernel, self._api, self._bucket, self._load = kernel, api, bucket, load
        self._connection = Client("seatrial")
        self._send_one, self._create, self._done = send, create, done
        self._start = self._first = self._last = kernel.now
        self._sent = self._answered = 0
        self._round_at = kernel.now
        self._planned = 0  # of rounds: those that are sent or wait for the client's rate
        self._due: list[int] | None = None if load.due is None else load.due.tolist()

    def begin(self) -> None:
        if not self._load.count:
            self._done(Tally(self._load.phase, 0, 0, 0))
        elif self._due is None:
            self._round(None)
        else:
            self._plan()

    def _plan(self) -> None:
        assert self._due is not None
        due = self._start + self._due[self._sent]
        self._kernel.at(self._bucket.slot(max(due, self._kernel.now)), self._send, True)

    def _send(self, goes_on: bool) -> None:
        now = self._kernel.now
        if not self._sent:
            self._first = now
        self._last = now
        number = self._send_one(self._load.item(self._sent))
        self._sent += 1
        self._api.call(self._connection, WRITE, self._answer, number)
        if goes_on and self._sent < self._load.count:
            self._plan()

    def _answer(self, number: int) -> None:
        self._create(number)
        self._answered += 1
        if self._answered == self._load.count:
            due = self._due
            wanted = due[-1] if due else self._last - self._first
            self._done(Tally(self._load.phase, self._load.count, wanted, self._last - self._first))
        elif self._due is None and self._answered == self._planned:
            self._kernel.at(self._round_at + self._load.pace.every, self._round)

    def _round(self, _: object) -> None:
        self._round_at = self._kernel.now
        for _item in range(min(self._load.pace.size, self._load.count - self._planned)):
            self._planned += 1
            self._kernel.at(self._bucket.slot(self._kernel.now), self._send, False)
