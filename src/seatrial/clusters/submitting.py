"""Sends workloads, for `run` and for `submit` alike: through the API, or through a command of the user's.

Nothing is made twice. A workload's objects have names of their own, and one that is there already counts as made if it
carries this study's label (`kube.retrying` settles lost answers and 409s that way); the same name without it is refused.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from seatrial.kube import Answer, Client, Patience, clock
from seatrial.kube.errors import read_status
from seatrial.kube.resources import create, encode, get
from seatrial.kube.shapes import Object
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import Pace, Workload
from seatrial.model.units import SECOND

ANSWER_S = 1.0  # interrupted: how long what is under way may still take to be answered
COMMAND_S = 300.0  # a command that takes longer hangs
PLACEHOLDERS = ("name", "namespace", "file", "labels", "pods", "index", "type", "project", "kubeconfig", "context")
# The server, or what stands before it, could not say yes or no: no fault of the workload's.
_NO_VERDICT = (401, 429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a submission. `refused`: why the server did not take it. `since`: it was there already, and ours, made
    at that (whole) second."""

    refused: str = ""
    since: str = ""


class Through(Protocol):
    """A way to submit. Raises `Lost` or `Unreachable` where it cannot be known whether the workload was taken."""

    async def send(self, workload: Workload, manifests: Sequence[Manifest]) -> Taken: ...


class Api:
    """One create per object, in their order; the first that is refused ends it."""

    def __init__(self, client: Client, namespace: str, patience: Patience | None = None) -> None:
        self._client, self._namespace, self._patience = client, namespace, patience

    async def send(self, workload: Workload, manifests: Sequence[Manifest]) -> Taken:  # noqa: ARG002
        since = ""
        for manifest in manifests:
            request = create(manifest.resource, manifest.body, manifest.name, self._namespace, keep=False)
            answer = await self._client.send(request, patience=self._patience)
            if not answer.ok:
                return Taken(_why(answer))
            since = _decoded(answer).metadata.creation_timestamp if answer.found else ""
        return Taken(since=since)


def _why(answer: Answer) -> str:
    said = read_status(answer.code, answer.body).message or answer.reason
    if answer.code in _NO_VERDICT:
        raise NoVerdict(
            f"the API server answers {answer.code}: {said}",
            "log in to the cluster again" if answer.code == 401 else "wait until it is well",
        )
    return said


def _decoded(answer: Answer) -> Object:
    return msgspec.json.decode(answer.body, type=Object)


class NoVerdict(SetupProblem):
    """The server does not say whether it takes workloads: nothing more can be sent now."""


class Command:
    """The user's own way (`kubectl create -f {file}`, `runai submit {name} …`), a process per workload.

    The manifests go to its standard input too. Whatever it says, an object that is there with our label was submitted.
    """

    def __init__(self, command: str, client: Client, namespace: str, values: Mapping[str, str]) -> None:
        self._words = command_words(command)
        self._client, self._namespace = client, namespace
        self._values = dict.fromkeys(PLACEHOLDERS, "") | dict(values) | {"namespace": namespace}

    async def send(self, workload: Workload, manifests: Sequence[Manifest]) -> Taken:
        items = [{**m.body, "metadata": {**m.body["metadata"], "namespace": self._namespace}} for m in manifests]
        text = encode({"apiVersion": "v1", "kind": "List", "items": items})
        with tempfile.NamedTemporaryFile(prefix="seatrial-", suffix=".json") as file:
            await asyncio.to_thread(Path(file.name).write_bytes, text)
            labels = ",".join(f"{key}={value}" for key, value in manifests[-1].body["metadata"]["labels"].items())
            values = self._values | {
                "name": workload.name, "file": file.name, "labels": labels, "pods": str(workload.pods),
                "index": str(workload.index), "type": workload.phase,
            }  # fmt: skip
            status, said = await _run([word.format_map(values) for word in self._words], Path(file.name))
        if status == 0:
            return Taken()
        since = await self._since(manifests)
        return Taken(since=since) if since else Taken(said or f"{self._words[0]} ended with status {status}")

    async def _since(self, manifests: Sequence[Manifest]) -> str:
        """When the last of them was made, if all are there and ours."""
        since = ""
        for manifest in manifests:
            answer = await self._client.send(get(manifest.resource, manifest.name, self._namespace))
            meta = _decoded(answer).metadata if answer.ok else None
            if meta is None or meta.labels.get(STUDY_LABEL) != manifest.body["metadata"]["labels"][STUDY_LABEL]:
                return ""
            since = meta.creation_timestamp
        return since


def command_words(command: str) -> list[str]:
    """The words of a command, or why it is none."""
    place = "settings: submit.command"
    try:
        words = shlex.split(command)
        for word in words:
            word.format_map(dict.fromkeys(PLACEHOLDERS, ""))
    except KeyError as error:
        known = " ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise UsageProblem(f"{place}: there is no placeholder {{{error.args[0]}}}", f"there are {known}") from None
    except (ValueError, IndexError, AttributeError) as error:
        raise UsageProblem(f"{place}: {error}", "close quotes and braces; write {{ for a brace") from None
    if not words or not shutil.which(words[0]):
        name = words[0] if words else ""
        raise SetupProblem(
            f"{place}: there is no program '{name}'", "install it, give its full path, or leave the setting out"
        )
    return words


async def _run(words: Sequence[str], given: Path) -> tuple[int, str]:
    with given.open("rb") as stdin:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=stdin, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
    try:
        async with asyncio.timeout(COMMAND_S):
            _, said = await process.communicate()
    except TimeoutError:
        return -1, f"{words[0]} took longer than {COMMAND_S:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, said.decode(errors="replace").strip()[-1000:]


def values_of(kubeconfig: str, context: str, project: str = "") -> dict[str, str]:
    """What a command may need to know of the cluster."""
    file = kubeconfig or os.environ.get("KUBECONFIG", "") or str(Path.home() / ".kube" / "config")
    return {"kubeconfig": file, "context": context, "project": project}


@dataclass(slots=True)
class Limit:
    """A client that sends no faster than its rate, whichever phase an item belongs to.

    An item takes its slot when it is due, never before: a slot reserved for later would hold back the items of every other
    phase until then.
    """

    interval: int
    free: int = 0

    @classmethod
    def of(cls, rate: float | None) -> Limit:
        return cls(int(SECOND / rate) if rate else 0)

    async def turn(self, due: int = 0) -> None:
        """Returns when the item is due and the rate allows it. A phase asks for one item at a time, so that phases take turns."""
        await _until(due)
        if self.interval:
            at = max(clock(), self.free)
            self.free = at + self.interval
            await _until(at)


async def _until(when: int) -> None:
    wait = when - clock()
    if wait > 0:
        await asyncio.sleep(wait / SECOND)


async def in_rounds(
    indices: Sequence[int], pace: Pace, limit: Limit, send: Callable[[int], Coroutine[Any, Any, None]]
) -> None:
    """`pace.size` together, the next round `pace.every` after the start of the last, but not before all were answered."""
    asks = asyncio.Lock()

    async def in_turn(index: int) -> None:
        async with asks:
            await limit.turn()
        await send(index)

    for first in range(0, len(indices), pace.size):
        began = clock()
        await _together([in_turn(index) for index in indices[first : first + pace.size]])
        if first + pace.size < len(indices):
            await _until(began + pace.every)


async def _together(jobs: Sequence[Coroutine[Any, Any, None]]) -> None:
    """The first failure ends all. Interrupted, what is under way gets a moment: its answer is worth knowing."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    except asyncio.CancelledError:
        await asyncio.wait(tasks, timeout=ANSWER_S)
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled():
            task.result()
