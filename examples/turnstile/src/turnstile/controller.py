"""The controller itself: `python -m turnstile.controller --kubeconfig FILE --places 10`.

It watches Jobs with the label `turnstile.example/waits`, and resumes the oldest suspended one whenever a place is free. A place is
free again when the Job is complete, failed or deleted. Everything that it knows comes from the watch, so it may be killed and
started again at any time.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from seatrial.kube import ApiProblem, Client, access_from, watch
from seatrial.kube.resources import JOBS
from seatrial.kube.shapes import Job
from seatrial.kube.watching import DELETED, SYNCED

WAITS = "turnstile.example/waits"


class Turnstile:
    """Who waits, and who is inside."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting: dict[tuple[str, str], str] = {}  # namespace and name → when it was created
        self._inside: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()

    def see(self, _stamp: int, event: str, seen: Job) -> None:
        """One event of the watch."""
        if event == SYNCED:
            return
        key = (seen.metadata.namespace, seen.metadata.name)
        over = any(c.status == "True" and c.type in ("Complete", "Failed") for c in seen.status.conditions)
        if event == DELETED or over:
            self._waiting.pop(key, None)
            self._inside.discard(key)
        elif not seen.spec.suspend:
            self._waiting.pop(key, None)
            self._inside.add(key)
        elif key not in self._inside:  # else it was just resumed, and the watch lags behind
            self._waiting[key] = seen.metadata.creation_timestamp
        self._changed.set()

    async def turn(self, client: Client) -> None:
        """Resumes Jobs for ever, one after another."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting and len(self._inside) < self._places:
                key = min(self._waiting, key=lambda one: self._waiting[one])  # of the same second the first seen
                self._waiting.pop(key)
                self._inside.add(key)
                await resume(client, *key)


async def resume(client: Client, namespace: str, name: str) -> None:
    """One PATCH. A Job that was deleted meanwhile needs none; the watch will say so."""
    try:
        await client.patch(JOBS, {"spec": {"suspend": False}}, name, namespace)
    except ApiProblem as problem:
        if problem.code != 404:
            raise


async def run(kubeconfig: Path, places: int) -> None:
    """Until the process is ended."""
    turnstile = Turnstile(places)
    async with Client(access_from(kubeconfig)) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(turnstile.turn(client))
        tasks.create_task(watch(client, JOBS, Job, turnstile.see, labelSelector=WAITS))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Resumes suspended Jobs, so many at a time.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--places", type=int, default=10)
    asked = parser.parse_args()
    asyncio.run(run(asked.kubeconfig, asked.places))
