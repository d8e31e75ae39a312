"""Plays the applications on fake nodes of a real cluster: a gang's pods run their time only once all of them run.

KWOK ends a pod when its annotation says how long it runs, and a gang's pods get that annotation from here. Losing one takes it
off the others: the application has lost its progress. The state machine is the simulator's (`model.barrier`).
"""

from __future__ import annotations

import asyncio
from typing import Any

from seatrial.kube import ApiProblem, Client, Lost, Unreachable
from seatrial.kube.resources import PODS
from seatrial.kube.shapes import Pod
from seatrial.kube.watching import DELETED
from seatrial.model.barrier import Barrier
from seatrial.model.labels import DURATION_ANNOTATION, WORKLOAD_LABEL
from seatrial.model.plan import Workload
from seatrial.model.units import MILLISECOND


class Applications:
    """`joins` makes a gang known before its pods can be seen; `sees` takes every pod event."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._barrier = Barrier()
        self._gangs: dict[str, tuple[int, Workload]] = {}
        self._running: dict[str, set[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.problems: list[str] = []

    def joins(self, number: int, workload: Workload) -> None:
        self._gangs[workload.name] = (number, workload)
        self._running[workload.name] = set()

    def sees(self, event: str, pod: Pod) -> None:
        name = pod.metadata.labels.get(WORKLOAD_LABEL, "")
        if name not in self._gangs:
            return
        (number, workload), running = self._gangs[name], self._running[name]
        if event == DELETED:
            if pod.metadata.name in running:
                running.discard(pod.metadata.name)
                if self._barrier.gone(number, workload.pods):
                    self._tell(sorted(running), None)
        elif pod.status.phase == "Running" and pod.metadata.name not in running:
            running.add(pod.metadata.name)
            if self._barrier.runs(number, workload.pods):
                self._tell(sorted(running), f"{workload.duration // MILLISECOND}ms")

    def _tell(self, pods: list[str], duration: str | None) -> None:
        mark: dict[str, Any] = {"metadata": {"annotations": {DURATION_ANNOTATION: duration}}}
        for pod in pods:
            task = asyncio.create_task(self._patch(pod, mark))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _patch(self, pod: str, mark: dict[str, Any]) -> None:
        try:
            await self._client.patch(PODS, mark, pod, self._namespace)
        except (ApiProblem, Lost, Unreachable) as problem:
            if getattr(problem, "code", 0) != 404:  # gone meanwhile: the watch will say so
                self.problems.append(f"pod {pod} could not be told that its application runs: {problem}")

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
