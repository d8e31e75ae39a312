"""From events of a watch to lines of a recording: each object is described once, and each stage that it reaches is told once.

What was told by earlier processes is known (`knows`). A list after a gap shows objects whose stages were missed: their own
timestamps say when, to a second. An object that is not in the list any more is gone, and nobody saw how it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from seatrial.kube.shapes import PodStatus, condition
from seatrial.kube.watching import DELETED, LISTED, SYNCED
from seatrial.model.units import MILLISECOND
from seatrial.observe import time_sources
from seatrial.observe.describing import Describer
from seatrial.observe.recorded_shapes import RecordedJob, RecordedPod
from seatrial.record.recordings import BOUND, ENDED, GONE, JOB, POD, STARTED, UNSEEN, SeenLine

_SEEN, _BOUND, _STARTED, _ENDED, _IGNORED = 1, 2, 4, 8, 16
_BITS = {"": _SEEN, BOUND: _BOUND, STARTED: _STARTED, ENDED: _ENDED}


class _Reached(NamedTuple):
    """A stage that an object shows. `said`: its own timestamp; `fresh`: it may have been reached only now."""

    stage: str
    said: str | None
    outcome: str = ""
    fresh: bool = True


class Sightings:
    """`epoch`: the clock of stamps at the recording's beginning, which was `began` on the wall clock. `ahead`: ns by which the
    cluster's clock is ahead of ours."""

    def __init__(
        self, describer: Describer, epoch: int, began: int, tell: Callable[[list[SeenLine]], None], ahead: int = 0
    ) -> None:
        self.epoch, self.began, self.ahead = epoch, began, ahead
        self.doubt = 0  # possible error in ms of what is observed now: after a gap, or in a list
        self.workloads: set[str] = set()
        self.running: set[str] = set()  # pods
        self._describer, self._tell = describer, tell
        self._known: dict[str, dict[str, int]] = {JOB: {}, POD: {}}  # uid → stages that were told
        self._listed: dict[str, set[str]] = {JOB: set(), POD: set()}

    def knows(self, lines: Iterable[SeenLine]) -> None:
        """Takes over what earlier processes told."""
        for line in lines:
            known = self._known[line.of]
            if line.stage == GONE:
                known.pop(line.uid, None)
            else:
                known[line.uid] = known.get(line.uid, 0) | _BITS[line.stage]
            if line.stage == "":
                self.workloads.add(line.root)
            elif line.of == POD:
                (self.running.add if line.stage == STARTED else self.running.discard)(line.uid)

    def job(self, stamp: int, event: str, job: RecordedJob | None) -> None:
        """An event of a Job."""
        if job is None:
            self._missing(JOB, stamp, event)
        else:
            self._see(JOB, stamp, event, job, self._describer.job, _stages_of_job(job))

    def pod(self, stamp: int, event: str, pod: RecordedPod | None) -> None:
        """An event of a pod."""
        if pod is None:
            self._missing(POD, stamp, event)
        else:
            self._see(POD, stamp, event, pod, self._describer.pod, _stages_of_pod(pod))

    def _see(
        self, of: str, stamp: int, event: str, thing: Any, describe: Callable[[Any], SeenLine | None],
        reached: Iterable[_Reached],
    ) -> None:  # fmt: skip
        known, uid = self._known[of], self._describer.names.uid(thing.metadata.uid)
        told, lines = known.get(uid, 0), list[SeenLine]()
        if event == LISTED:
            self._listed[of].add(uid)
        if not told & _SEEN:
            first = describe(thing) if not told else None
            if first is None:
                self._ignore(known, uid, event)
                return
            first.at_ns, first.error_ns = self._when(stamp, thing.metadata.creation_timestamp)
            self.workloads.add(first.root)
            lines.append(first)
            told |= _SEEN
        for one in reached:
            if not told & _BITS[one.stage] and (one.fresh or one.said):
                at, error = self._when(stamp, one.said, one.fresh)
                lines.append(SeenLine(uid, of, one.stage, at, error, one.outcome))
                told |= _BITS[one.stage]
        known[uid] = told
        if event == DELETED:
            if not told & _ENDED:
                lines.append(self._gone(of, uid, stamp))
            del known[uid]
        if of == POD:
            alive = told & _STARTED and not told & _ENDED and event != DELETED
            (self.running.add if alive else self.running.discard)(uid)
        if lines:
            self._tell(lines)

    def _missing(self, of: str, stamp: int, event: str) -> None:
        """A list is complete: what is known and not in it is gone."""
        if event != SYNCED:
            return
        known, listed = self._known[of], self._listed[of]
        absent = [uid for uid in known if uid not in listed]
        lines = [self._gone(of, uid, stamp, UNSEEN) for uid in absent if not known[uid] & (_ENDED | _IGNORED)]
        for uid in absent:
            del known[uid]
            self.running.discard(uid)
        listed.clear()
        if lines:
            self._tell(lines)

    def _ignore(self, known: dict[str, int], uid: str, event: str) -> None:
        if event == DELETED:
            known.pop(uid, None)
        else:
            known[uid] = _IGNORED

    def _gone(self, of: str, uid: str, stamp: int, outcome: str = "") -> SeenLine:
        return SeenLine(uid, of, GONE, *self._when(stamp, None), outcome)

    def _when(self, stamp: int, said: str | None, fresh: bool = True) -> tuple[int, int]:
        """The better of arrival and timestamp, and how far it may be off."""
        found = []
        if fresh:
            found.append((self.doubt * MILLISECOND + time_sources.WATCH_ERROR, stamp - self.epoch))
        if said:
            at, _ = time_sources.said(said)
            found.append((time_sources.OBJECT_ERROR, at - self.began - self.ahead))
        error, at = min(found)
        return at, error


def _stages_of_job(job: RecordedJob) -> Iterator[_Reached]:
    for kind, outcome in (("Complete", "completed"), ("Failed", "failed")):
        found = condition(job.status.conditions, kind)
        if found is not None and found.status == "True":
            yield _Reached(ENDED, found.last_transition_time, outcome)


def _stages_of_pod(pod: RecordedPod) -> Iterator[_Reached]:
    """A pod that has ended was bound and started some time before: only its own timestamps can say when."""
    status = pod.status
    over = status.phase in ("Succeeded", "Failed")
    if pod.spec.node_name:
        found = condition(status.conditions, "PodScheduled")
        yield _Reached(BOUND, found.last_transition_time if found else None, fresh=not over)
    if over or status.phase == "Running":
        yield _Reached(STARTED, _started_at(status), fresh=not over)
    if over:
        outcome = "completed" if status.phase == "Succeeded" else "failed"
        yield _Reached(ENDED, _finished_at(status), outcome)


def _started_at(status: PodStatus) -> str | None:
    states = [one.state.running or one.state.terminated for one in status.container_statuses]
    return min((state.started_at for state in states if state and state.started_at), default=None)


def _finished_at(status: PodStatus) -> str | None:
    ended = [one.state.terminated for one in status.container_statuses]
    return max((one.finished_at for one in ended if one and one.finished_at), default=None)
