"""Fake nodes: KWOK plays a pod's stages, each after its delay, with one PATCH, a limited number in parallel.

Facts (KWOK v0.8): a stage's delay is exact, or uniform between delay and jitter; `podPlayStageParallelism` workers play the
stages that are due, so stages of many pods at once queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Any

from seatrial.model.plan import Scalar, Span
from seatrial.sim.apiserver import WRITE, ApiClient, ApiServer
from seatrial.sim.kernel import Do, Kernel


class Kwok:
    """The workers of KWOK."""

    def __init__(self, kernel: Kernel, api: ApiServer, settings: Mapping[str, Scalar], random: Random) -> None:
        self._kernel, self._api, self._random = kernel, api, random
        self._client = ApiClient("kwok")
        self._idle = int(settings["parallelism"])
        self._due: deque[tuple[Any, Do]] = deque()
        self._waits: dict[Any, tuple[int, int, Do]] | None = None  # pod → when its stage is due, its delay, what then

    def drawn(self, delay: Span) -> int:
        """Draws a stage's delay for one pod."""
        wait = delay.least
        return wait + int((delay.most - wait) * self._random.random()) if delay.most > wait else wait

    def play(self, pod: Any, wait: int, then: Do) -> None:
        """Plays a stage of the pod after the delay: one PATCH, then calls `then(pod)`."""
        if self._waits is None:
            self._kernel.after(wait, self._is_due, (pod, then))
        else:
            self._waits[pod] = (self._kernel.now + wait, wait, then)
            self._kernel.after(wait, self._may_be_due, (pod, self._kernel.now + wait))

    def follows_updates(self) -> None:
        """Somebody updates pods while KWOK waits with a stage: call before there are pods."""
        self._waits = {}

    def updated(self, pod: Any) -> None:
        """An update of the pod: the delay of its stage begins anew (pod_controller.go of v0.8.0, preprocess)."""
        waits = self._waits
        if waits is not None and pod in waits:
            _, wait, then = waits[pod]
            self.play(pod, wait, then)

    def _may_be_due(self, stage: tuple[Any, int]) -> None:
        pod, due = stage
        assert self._waits is not None
        if pod in self._waits and self._waits[pod][0] == due:
            self._is_due((pod, self._waits.pop(pod)[2]))

    def _is_due(self, stage: tuple[Any, Do]) -> None:
        if self._idle:
            self._idle -= 1
            self._api.call(self._client, WRITE, self._played, stage)
        else:
            self._due.append(stage)

    def _played(self, stage: tuple[Any, Do]) -> None:
        if self._due:
            self._api.call(self._client, WRITE, self._played, self._due.popleft())
        else:
            self._idle += 1
        pod, then = stage
        then(pod)
