"""Requests that nobody waits for: sent beside a watch whose handler must not stand still, each with a word if it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from seatrial.kube import ApiProblem, Lost, Unreachable


class Errands:
    """`problem` is told of every one that failed; that its object is gone meanwhile is no failure."""

    def __init__(self, problem: Callable[[str], None]) -> None:
        self._problem = problem
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, request: Coroutine[Any, Any, object], what: str) -> None:
        task = asyncio.create_task(self._do(request, what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, request: Coroutine[Any, Any, object], what: str) -> None:
        try:
            await request
        except (ApiProblem, Lost, Unreachable) as error:
            if getattr(error, "code", 0) != 404:
                self._problem(f"{what}: {error}")

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
