"""The ledger records every transition, on every kind of cluster.

It appends packed records and keeps counters, so a wait is a number counted down, not a predicate evaluated per event. A workload
reaches a pod stage when its last pod does; the ledger counts that down too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from seatrial.model.lifecycle import COMPLETED, DELETED, FAILED, FINISHED, LOST, Stage, index_of
from seatrial.record.eviction_turns import EvictionTurns
from seatrial.record.evictions import eviction_line, readmission_line
from seatrial.record.segments import RECORD, Segment

_pack = RECORD.pack
FLUSH_AT = 1 << 20  # bytes: a million records make 24 writes
AHEAD = 1024
_ROOM = [1] * AHEAD
MOVED, GOT_ON, LOST_POD = 1, 2, 4  # what `listen` can wait for: any record; what `last` counts; a pod that is gone


@dataclass(slots=True)
class Waiting:
    """A wait until `left` more workloads of these phases (None: all) reach `stage` or have ended without it."""

    stage: int
    phases: frozenset[int] | None
    left: int
    call: Callable[[], None]


class Ledger:
    """Numbers workloads and pods in order, records the stages they reach, counts workloads per stage."""

    def __init__(self, stages: Sequence[Stage], segment: Segment) -> None:
        self.stages = tuple(stages)
        self.number = index_of(stages)
        self.counts = [0] * len(self.stages)  # workloads that reached each stage
        self.last = 0  # time of the last progress: a workload, or one more of its pods, reached a stage
        self.touched = 0  # time of the last record
        self.stirred = 0  # when a pod last changed without reaching a stage: rejected, held, released
        self.nodes: list[str] = []
        self.pod_workload: list[int] = []
        self.workload_phase: list[int] = []
        self._phases: dict[str, int] = {}
        self.segment = segment
        self._records = bytearray()
        self._names: list[str] = []
        self._nodes_written = 0
        # Left per stage and workload: pods for a pod stage, else 1; 0: reached. There is room for more workloads of one pod: twelve
        # appends per workload took a fiftieth of a simulation of one-pod Jobs.
        self._left: list[list[int]] = [[] for _ in self.stages]
        self._of_pods = [stage.of == "pod" for stage in self.stages]
        self._left_for_pods = [left for left, of_pods in zip(self._left, self._of_pods, strict=True) if of_pods]
        self._last_first = [(left, stage.name) for left, stage in zip(self._left, self.stages, strict=True)
                            if stage.name != LOST.name][::-1]  # fmt: skip
        self._finished = self.number[FINISHED.name]
        self._ends = frozenset(self.number[s.name] for s in (FAILED, DELETED) if s.name in self.number)
        self._waiting: list[list[Waiting]] = [[] for _ in self.stages]
        self._when_over: list[Callable[[int], None]] = []
        self._overs: frozenset[int] = frozenset()
        self._counted = self._ends  # stages that `_count_waits` looks at even if nobody waits for them
        self._began_again: set[int] = set()  # workloads that lost a pod: its replacement is no progress
        self.evicted: set[int] = set()  # workloads that lost their place and have none yet
        self.evictions = 0
        self.turns = EvictionTurns()
        self._eviction_lines = bytearray()
        self._awaited = 0  # MOVED, GOT_ON, LOST_POD, added up
        self._tell: Callable[[int], None] = lambda _: None

    def phase(self, name: str) -> int:
        """The number of a phase."""
        return self._phases.setdefault(name, len(self._phases))

    def workload(self, phase: int, pods: int) -> int:
        """Adds a workload and returns its number."""
        number = len(self.workload_phase)
        self.workload_phase.append(phase)
        if number >= len(self._left[0]):
            for left in self._left:
                left.extend(_ROOM)
        if pods != 1:
            for left in self._left_for_pods:
                left[number] = pods
        return number

    def workload_as(self, number: int, phase: int, pods: int) -> int:
        """Adds a workload with a given number; unknown workloads before it get empty places."""
        while len(self.workload_phase) <= number:
            self.workload(-1, 0)
        self.workload_phase[number] = phase
        for of_pods, left in zip(self._of_pods, self._left, strict=True):
            left[number] = pods if of_pods else 1
        return number

    def knows(self, workload: int, stage: int) -> None:
        """The workload reached the stage before this process observed it: counted, not recorded again."""
        if self._left[stage][workload] > 0:
            self._left[stage][workload] = 0
            self.counts[stage] += 1

    def pod(self, workload: int, name: str, uid: str = "") -> int:
        """Adds a pod and returns its number."""
        self.pod_workload.append(workload)
        self._names.append(f"{workload}\t{name}\t{uid}\n" if uid else f"{workload}\t{name}\n")
        return len(self.pod_workload) - 1

    def node(self, name: str) -> int:
        """Adds a node and returns its number."""
        self.nodes.append(name)
        return len(self.nodes) - 1

    def move(self, at: int, workload: int, stage: int, detail: int = 0, source: int = 0) -> None:
        """A workload reached a workload stage. Called once per workload and stage; what `knows` counted is not counted again."""
        self._records += _pack(at, workload, stage, source, -1, detail)
        self.touched = at
        if self._awaited & MOVED:
            self._ring(MOVED)
        left = self._left[stage]
        if left[workload] > 0:
            left[workload] = 0
            self.last = at
            if self._awaited & GOT_ON:
                self._ring(GOT_ON)
            self.counts[stage] += 1
            if self._waiting[stage] or stage in self._counted:
                self._count_waits(workload, stage)
            if len(self._records) > FLUSH_AT:
                self.flush()

    def move_pod(self, at: int, pod: int, stage: int, node: int = -1, detail: int = 0, source: int = 0) -> None:
        """A pod reached a pod stage. Called once per pod and stage; a replacement is a new pod."""
        self._records += _pack(at, pod, stage, source, node, detail)
        self.touched = at
        if self._awaited & MOVED:
            self._ring(MOVED)
        workload = self.pod_workload[pod]
        left = self._left[stage]
        left[workload] = rest = left[workload] - 1
        if rest and stage != self._finished and workload in self._began_again:
            return
        self.last = at
        if self._awaited & GOT_ON:
            self._ring(GOT_ON)
        if not rest:
            self.counts[stage] += 1
            if self._waiting[stage] or stage in self._ends:
                self._count_waits(workload, stage)
            if stage == self._finished and len(self._records) > FLUSH_AT:
                self.flush()

    def note(self, at: int, thing: int, stage: int, source: int, node: int = -1) -> None:
        """The time of another source for a stage that was reached: recorded, not counted."""
        self._records += RECORD.pack(at, thing, stage, source, node, 0)

    def lose_pod(self, at: int, pod: int, reached: Iterable[int]) -> None:
        """A pod is gone before it finished: another has to reach the stages it had reached."""
        self._records += RECORD.pack(at, pod, self.number[LOST.name], 0, -1, 0)
        self.touched = at
        workload = self.pod_workload[pod]
        self._began_again.add(workload)
        if self._awaited & LOST_POD:
            self._ring(LOST_POD)
        for stage in reached:
            if self._left[stage][workload] > 0:
                self._left[stage][workload] += 1

    def evict(self, at: int, workload: int, reason: str, by: int = -1, message: str = "", key: str = "") -> None:
        """The workload lost its place (its pods are lost one by one, by `lose_pod`). `reason`: of model.fleet.REASONS; `by`: the
        workload that gets its place; `message`: in the stack's words; `key`: tells this eviction from others of the workload."""
        self.evicted.add(workload)
        self.evictions += 1
        self.turns.evicted(at, workload, by, reason)
        self._began_again.add(workload)
        self._eviction_lines += eviction_line(at, workload, reason, by, message, key)
        self.touched = max(self.touched, at)
        if self._awaited & LOST_POD:
            self._ring(LOST_POD)

    def name_preemptor(self, at: int, workload: int, reason: str, message: str, key: str, by: int) -> None:
        """An eviction that is recorded already, once it is known who gets the place: the same `key`."""
        self._eviction_lines += eviction_line(at, workload, reason, by, message, key)

    def readmit(self, at: int, workload: int, key: str = "") -> None:
        """A workload that was evicted has a place again."""
        self.evicted.discard(workload)
        self.turns.readmitted(at, workload)
        self._eviction_lines += readmission_line(at, workload, key)
        self.touched = max(self.touched, at)

    def achieved(self, at: int) -> None:
        """Progress without a stage change; resets the clog timer."""
        self.last = max(self.last, at)
        self.touched = max(self.touched, at)
        if self._awaited & GOT_ON:
            self._ring(GOT_ON)

    def listen(self, what: int, call: Callable[[int], None]) -> None:
        """Calls back once, at the next of these events (MOVED, GOT_ON, LOST_POD, added up). A new listener replaces the last."""
        self._awaited, self._tell = what, call

    def _ring(self, what: int) -> None:
        self._awaited = 0
        self._tell(what)

    def stage_of(self, workload: int) -> str:
        """The last stage that all of the workload has reached."""
        for left, name in self._last_first:
            if left[workload] <= 0:
                return name
        return ""

    def has_reached(self, workload: int, stage: int) -> bool:
        """Whether all of the workload has reached the stage."""
        return self._left[stage][workload] <= 0

    def left(self, workload: int, stage: int) -> int:
        """How many pods of the workload have not reached the stage yet, when it is reached for the first time."""
        return max(self._left[stage][workload], 0)

    def tell_ends(self, call: Callable[[int], None]) -> None:
        """From now on calls back with the number of every workload that completes, fails or is deleted."""
        self._when_over.append(call)
        self._overs = self._ends | {self.number[COMPLETED.name]}
        self._counted = self._ends | self._overs

    def _count_waits(self, workload: int, stage: int) -> None:
        """The workload reached a stage that is waited for, or one that ends it."""
        if stage in self._overs:
            for call in self._when_over:
                call(workload)
        if self._waiting[stage]:
            self._count_down(workload, stage)
        if stage in self._ends:
            for other, waiting in enumerate(self._waiting):
                if waiting and other != stage and self._left[other][workload] > 0:
                    self._count_down(workload, other)

    def _count_down(self, workload: int, stage: int) -> None:
        phase = self.workload_phase[workload]
        for wait in tuple(self._waiting[stage]):
            if wait.phases is None or phase in wait.phases:
                wait.left -= 1
                if wait.left <= 0:
                    self._waiting[stage].remove(wait)
                    wait.call()

    def reached(self, stage: int, phases: Collection[int] | None = None) -> int:
        """How many workloads of these phases (None: all) have reached the stage, or have ended without it."""
        left = self._left[stage]
        ours = (workload for workload, phase in enumerate(self.workload_phase) if phases is None or phase in phases)
        return self.missed(stage, phases) + sum(1 for workload in ours if left[workload] <= 0)

    def missed(self, stage: int, phases: Collection[int] | None = None) -> int:
        """How many workloads of these phases have ended without reaching the stage."""
        left = self._left[stage]
        ended = [self._left[end] for end in self._ends if end != stage]
        return sum(
            1
            for workload, phase in enumerate(self.workload_phase)
            if (phases is None or phase in phases) and left[workload] > 0 and any(end[workload] == 0 for end in ended)
        )

    def when(self, stage: int, phases: Collection[int] | None, count: int, call: Callable[[], None]) -> Waiting | None:
        """Calls back once `count` workloads have reached the stage or ended without it; None if they have."""
        wait = Waiting(stage, None if phases is None else frozenset(phases), count - self.reached(stage, phases), call)
        if wait.left <= 0:
            return None
        self._waiting[stage].append(wait)
        return wait

    def forget(self, wait: Waiting) -> None:
        """Cancels a wait, after a timeout."""
        if wait in self._waiting[wait.stage]:
            self._waiting[wait.stage].remove(wait)

    def flush(self) -> None:
        """Writes names before the records that use them. What a full disk rejects is kept for the next call."""
        if len(self.nodes) > self._nodes_written:
            names = self.nodes[self._nodes_written :]
            self.segment.write("nodes", "".join(f"{name}\n" for name in names).encode())
            self._nodes_written += len(names)
        if self._names:
            self.segment.write("pods", "".join(self._names).encode())
            self._names.clear()
        if self._records:
            self.segment.write("observed", self._records)
            self._records = bytearray()
        if self._eviction_lines:
            self.segment.write("evictions", self._eviction_lines)
            self._eviction_lines = bytearray()

    def close(self) -> None:
        """Flushes, and closes the segment."""
        self.flush()
        self.segment.close()
