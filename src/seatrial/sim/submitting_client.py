"""The submitting client: sends each item of a load when it is due and the client's rate allows.

Without a rate it sends as fast as our real client gets answers from a small API server.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from seatrial.model.interfaces import Tally
from seatrial.model.load import Load, lateness
from seatrial.model.plan import Workload
from seatrial.sim.apiserver import WRITE, ApiClient, ApiServer
from seatrial.sim.kernel import Kernel

# Creates per second that the API server of a 2-core machine took from 32 connections (benchmarks/create_rate.py: 1,407 to 1,552).
FASTEST = 1400.0

Send = Callable[[Workload], int]  # registers a submission now; returns its number
Create = Callable[[int], None]  # the server has created it


class SubmittingClient:
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
        self._kernel, self._api, self._bucket, self._load = kernel, api, bucket, load
        self._connection = ApiClient("seatrial")
        self._send_one, self._create, self._done = send, create, done
        self._start = kernel.now
        self._sent = self._answered = 0
        self._round_at = kernel.now
        self._released = (
            load.count if load.due is not None else 0
        )  # items that may be sent; with rounds, those of started rounds
        self._due = None if load.due is None else array("q", load.due.tobytes())
        self._times = array("q")  # when each was sent

    def begin(self) -> None:
        """Starts sending."""
        if not self._load.count:
            self._done(Tally(self._load.phase, 0, 0, 0))
        elif self._due is None:
            self._round(None)
        else:
            self._next()

    def _next(self) -> None:
        """A phase takes the client's next slot when its item is due, one item at a time: parallel phases share the client's
        rate, not their schedules."""
        now = self._kernel.now
        due = now if self._due is None else self._start + self._due[self._sent]
        if due > now:
            self._kernel.at(due, self._ask)
        else:
            self._kernel.at(self._bucket.slot(now), self._send)

    def _ask(self, _: object) -> None:
        slot = self._bucket.slot(self._kernel.now)
        if slot > self._kernel.now:
            self._kernel.at(slot, self._send)
        else:
            self._send(None)

    def _send(self, _: object) -> None:
        self._times.append(self._kernel.now - self._start)
        number = self._send_one(self._load.item(self._sent))
        self._sent += 1
        self._api.call(self._connection, WRITE, self._answer, number)
        if self._sent < self._released:
            self._next()

    def _answer(self, number: int) -> None:
        self._create(number)
        self._answered += 1
        if self._answered == self._load.count:
            took, due = self._times[-1] - self._times[0], self._load.due
            wanted, late = (took, ()) if due is None else (int(due[-1]), lateness(due, self._times))
            self._done(Tally(self._load.phase, self._load.count, wanted, took, *late))
        elif self._answered == self._released:
            self._kernel.at(self._round_at + self._load.pace.every, self._round)

    def _round(self, _: object) -> None:
        self._round_at = self._kernel.now
        self._released = min(self._released + self._load.pace.size, self._load.count)
        self._next()
