"""Fire-and-forget requests from the handlers of watches, which must not block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from seatrial.kube import ApiProblem, Lost, Unreachable


class BackgroundRequests:
    """`problem` is told of every request that failed, except if its object is gone (404)."""

    def __init__(self, problem: Callable[[str], None]) -> None:
        self._problem = problem
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, request: Coroutine[Any, Any, object], what: str) -> None:
        """`what` prefixes the error message if the request fails."""
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
        """Cancels what is in flight."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
