"""One machine of a load: sends its share of a phase, keeps its own record, and hands it over at the end. A Ray actor.

It sends with the code of a load from one machine. Its times are on the caller's clock as far as the offset between the two clocks
is known.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.clusters.access.submitting import RateLimit
from seatrial.clusters.requests.load_shares import LoadShare
from seatrial.clusters.requests.request_templates import RequestTemplate
from seatrial.clusters.requests.sending import PhaseProgress, Sender
from seatrial.clusters.requests.workload_share import Submitted, WorkloadSender, WorkloadShare
from seatrial.kube import Access, Client, ClientIdentity, clock
from seatrial.record.request_log import RequestLog
from seatrial.scenario.actions.send_requests import Requests

MOST_OPEN = 4000  # connections of an open loop


@dataclass(frozen=True, slots=True)
class PhaseShare:
    """The part of a phase that one machine sends, and its identity. `epoch` is the trial's, on the clock of that machine."""

    phase: Requests
    templates: Sequence[RequestTemplate]
    access: Access
    identity: ClientIdentity
    namespaces: Sequence[str]
    epoch: int
    share: LoadShare


@dataclass(frozen=True, slots=True)
class Sent:
    """How a share went; times on the clock of that machine."""

    items: int
    wanted_ns: int
    first: int
    last: int
    progress: PhaseProgress


class LoadMachine:
    """The actor; one phase at a time for each name."""

    def __init__(self, name: str, rate: float | None = None) -> None:
        self._name = name
        self._limit = RateLimit.of(rate)  # of submissions: this machine's part of the client's
        self._workloads: dict[str, WorkloadSender] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="seatrial-load-"))
        self._senders: dict[str, Sender] = {}
        self._clients: dict[str, Client] = {}
        self._logs: dict[str, RequestLog] = {}
        self._stopped = ""

    async def clock(self) -> int:
        """The clock of this machine, to measure its offset from the caller's."""
        return clock()

    async def prepare(self, packed: bytes) -> None:
        """Opens the connections of a phase."""
        one: PhaseShare = pickle.loads(packed)
        name = one.phase.name
        wanted = MOST_OPEN if one.phase.per_s else one.share.part(one.phase.workers)
        client = self._clients[name] = Client(one.access, connections=wanted, identity=one.identity)
        log = self._logs[name] = RequestLog(self._folder, f"{self._name}-{name}")
        sender = Sender(one.phase, one.templates, client, one.namespaces, log, one.epoch, self._stop, one.share)
        self._senders[name] = sender
        await sender.connect()

    def _stop(self, why: str) -> None:
        self._stopped = self._stopped or why

    async def run(self, phase: str, begin: int) -> Sent:
        """Sends its share from `begin` on, a time of its own clock."""
        sender = self._senders[phase]
        tally = await sender.run(begin)
        wanted = tally.wanted_ns
        return Sent(tally.count, wanted, sender.first, sender.last, sender.progress)

    async def progress(self, phase: str) -> tuple[PhaseProgress, str]:
        """The phase's progress, and why it cannot send more; empty if it can."""
        return self._senders[phase].progress, self._stopped

    async def records(self, phase: str) -> dict[str, bytes]:
        """The files of a phase's record, by name; it ends with that, also in the middle."""
        await self._clients.pop(phase).close()
        self._logs.pop(phase).close()
        found = {path.name: path.read_bytes() for path in self._folder.glob(f"requests-{self._name}-{phase}.*")}
        for name in found:
            (self._folder / name).unlink()
        return found

    async def prepare_workloads(self, packed: bytes) -> None:
        """Opens the connections of a phase of submissions."""
        one: WorkloadShare = pickle.loads(packed)
        sender = self._workloads[one.phase] = WorkloadSender(one, self._limit)
        await sender.connect()

    async def submit(self, phase: str, begin: int, end: int, behind: int) -> None:
        """Submits its workloads below the index `end`, from `begin` on, a time of its own clock. `behind`: ns by which this machine
        follows the first one under the client's rate."""
        self._limit.free = max(self._limit.free, begin + behind)
        await self._workloads[phase].send(begin, end)

    async def submitted(self, phase: str) -> Submitted:
        """Submissions since the last call."""
        return self._workloads[phase].news()

    async def end_workloads(self, phase: str) -> Submitted:
        """Ends a phase of submissions, also in the middle; what was not told yet."""
        return await self._workloads.pop(phase).end()

    async def leave(self) -> None:
        """Removes what is left on its disk."""
        shutil.rmtree(self._folder, ignore_errors=True)
