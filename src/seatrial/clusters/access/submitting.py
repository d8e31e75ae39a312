"""Submits workloads, for `run` and `submit` alike: through the API, or by a command of the user's.

Nothing is created twice. Objects of a workload have unique names, and an object that is there already counts as created if it
carries the study's label (`kube.retrying` settles lost answers and 409s this way); without the label it is refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from seatrial.kube import Answer, Client, clock
from seatrial.kube.api_errors import read_status
from seatrial.kube.resources import create, encode, get
from seatrial.kube.shapes import Object
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import Pace, Workload
from seatrial.model.units import SECOND

_log = logging.getLogger(__name__)

ANSWER_S = 1.0  # how long requests in flight may still take when we are interrupted
COMMAND_S = 300.0  # a command that takes longer hangs
PLACEHOLDERS = ("name", "namespace", "file", "labels", "pods", "index", "type", "project", "kubeconfig", "context")
# The server, or a proxy before it, could not say yes or no: not the workload's fault.
_NO_VERDICT = (401, 429, 502, 503, 504)


NamespaceOf = Callable[[Workload], str]  # where the objects of a workload go


@dataclass(frozen=True, slots=True)
class SubmitAnswer:
    """`refused`: why the server did not take the workload. `since`: it was there already, ours, created at that (whole) second."""

    refused: str = ""
    since: str = ""


class SubmitMethod(Protocol):
    """A way to submit."""

    async def send(self, workload: Workload, manifests: Sequence[Manifest]) -> SubmitAnswer:
        """Raises `Lost` or `Unreachable` if it is unknown whether the server created the workload."""


class SubmitByApi:
    """Submits by one create per object, in order; the first refusal ends it."""

    def __init__(self, client: Client, namespace: NamespaceOf) -> None:
        self._client, self._namespace = client, namespace

    async def send(self, workload: Workload, manifests: Sequence[Manifest]) -> SubmitAnswer:
        since, namespace = "", self._namespace(workload)
        for manifest in manifests:
            request = create(manifest.resource, manifest.body, manifest.name, namespace, keep=False)
            answer = await self._client.send(request)
            if not answer.ok:
                return SubmitAnswer(_why(answer))
            since = _decoded(answer).metadata.creation_timestamp if answer.found else ""
        return SubmitAnswer(since=since)


def _why(answer: Answer) -> str:
    said = read_status(answer.code, answer.body).message or answer.reason
    if answer.code in _NO_VERDICT:
        raise NoVerdict(
            f"the API server answers {answer.code}: {said}",
            "log in to the cluster again" if answer.code == 401 else "wait until it answers again",
        )
    return said


def _decoded(answer: Answer) -> Object:
    return msgspec.json.decode(answer.body, type=Object)


class NoVerdict(SetupProblem):
    """The server cannot say whether it takes workloads: nothing more can be sent now."""


class SubmitByCommand:
    """A command of the user's (`kubectl create -f {file}`, `runai submit {name} …`), one process per workload.

    The manifests are on its standard input as well. Whatever its exit status, an object with our label counts as submitted.
    """

    def __init__(self, command: str, client: Client, namespace: NamespaceOf, values: Mapping[str, str]) -> None:
        self._words = command_words(command)
        self._client, self._namespace = client, namespace
        self._values = dict.fromkeys(PLACEHOLDERS, "") | dict(values)

    async def send(self, workload: Workload, manifests: Sequence[Manifest]) -> SubmitAnswer:
        namespace = self._namespace(workload)
        items = [{**m.body, "metadata": {**m.body["metadata"], "namespace": namespace}} for m in manifests]
        text = encode({"apiVersion": "v1", "kind": "List", "items": items})
        with tempfile.NamedTemporaryFile(prefix="seatrial-", suffix=".json") as file:
            await asyncio.to_thread(Path(file.name).write_bytes, text)
            labels = ",".join(f"{key}={value}" for key, value in manifests[-1].body["metadata"]["labels"].items())
            values = self._values | {
                "name": workload.name, "file": file.name, "labels": labels, "pods": str(workload.pods),
                "index": str(workload.index), "type": workload.phase, "namespace": namespace,
            }  # fmt: skip
            status, said = await _run([word.format_map(values) for word in self._words], Path(file.name))
        if status == 0:
            return SubmitAnswer()
        since = await self._since(manifests, namespace)
        return (
            SubmitAnswer(since=since) if since else SubmitAnswer(said or f"{self._words[0]} ended with status {status}")
        )

    async def _since(self, manifests: Sequence[Manifest], namespace: str) -> str:
        """When the last of them was created, if all are there and ours."""
        since = ""
        for manifest in manifests:
            answer = await self._client.send(get(manifest.resource, manifest.name, namespace))
            meta = _decoded(answer).metadata if answer.ok else None
            if meta is None or meta.labels.get(STUDY_LABEL) != manifest.body["metadata"]["labels"][STUDY_LABEL]:
                return ""
            since = meta.creation_timestamp
        return since


def command_words(command: str) -> list[str]:
    """Splits the command; raises if it is not one."""
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
            f"{place}: there is no program '{name}'", "install it, give its full path, or omit the setting"
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
    _log.debug("%s, pid %d, ended with status %d", words[0], process.pid, process.returncode or 0)
    return process.returncode or 0, said.decode(errors="replace").strip()[-1000:]


def command_values(kubeconfig: str, context: str, project: str = "") -> dict[str, str]:
    """Placeholders that describe the cluster."""
    file = kubeconfig or os.environ.get("KUBECONFIG", "") or str(Path.home() / ".kube" / "config")
    return {"kubeconfig": file, "context": context, "project": project}


@dataclass(slots=True)
class RateLimit:
    """Limits the client's rate over all phases.

    An item takes its slot when it is due, never before: a slot reserved for later would hold back the items of every other phase.
    """

    interval: int
    free: int = 0

    @classmethod
    def of(cls, rate: float | None) -> RateLimit:
        """Items per second; None: no limit."""
        return cls(int(SECOND / rate) if rate else 0)

    async def turn(self, due: int = 0) -> None:
        """Returns when the item is due and the rate allows it. A phase asks for one item at a time: phases take turns."""
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
    indices: Sequence[int], pace: Pace, limit: RateLimit, send: Callable[[int], Coroutine[Any, Any, None]]
) -> None:
    """`pace.size` items at once; the next round starts `pace.every` after the last one did, and after all its answers."""
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
    """The first failure ends all. When interrupted, requests in flight get a moment to be answered."""
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
