"""The progress at which a workload continues after an eviction: its last checkpoint, or 0 without checkpoints.

A gang's progress is that of its application, which runs while all its pods do. The pods of other workloads are on their own: the
replacement of a lost pod takes over the progress of the one that was lost first.
"""

from __future__ import annotations

from seatrial.model.plan import Workload


class Checkpoints:
    """Progress of the workloads that make checkpoints; the others are never in here."""

    def __init__(self) -> None:
        self._gangs: dict[int, tuple[int, int]] = {}  # workload → when its application started, progress it had then
        self._saved: dict[int, int] = {}  # gang → progress at its last checkpoint
        self._pods: dict[
            int, dict[int, tuple[int, int]]
        ] = {}  # workload → pod → when it started, progress it took over
        self._left: dict[int, list[int]] = {}  # workload → progress of its lost pods, for their replacements

    def gang_starts(self, number: int, workload: Workload, now: int) -> int:
        """Returns how long the application still runs."""
        saved = self._saved.get(number, 0)
        self._gangs[number] = (now, saved)
        return workload.duration - saved

    def gang_stops(self, number: int, workload: Workload, now: int) -> None:
        """The application lost a pod while it ran."""
        since, had = self._gangs.pop(number)
        self._saved[number] = _last(had + now - since, workload)

    def pod_starts(self, pod: int, number: int, workload: Workload, now: int) -> int:
        """Returns how long the pod of a workload without gang semantics still runs."""
        left = self._left.get(number)
        had = left.pop(0) if left else 0
        self._pods.setdefault(number, {})[pod] = (now, had)
        return workload.duration - had

    def pod_lost(self, pod: int, number: int, workload: Workload, now: int) -> None:
        """The pod ran, and is gone."""
        since, had = self._pods[number].pop(pod)
        self._left.setdefault(number, []).append(_last(had + now - since, workload))

    def forget(self, number: int) -> None:
        """The workload is over."""
        for column in (self._gangs, self._saved, self._pods, self._left):
            column.pop(number, None)


def _last(progress: int, workload: Workload) -> int:
    """Progress at the last checkpoint before."""
    return min(progress - progress % workload.checkpoint, workload.duration)
