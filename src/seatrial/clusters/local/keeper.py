"""The process that owns a cluster after `seatrial cluster up` has ended.

It runs the same supervisor as trials, detached: components that die are restarted, and if the keeper is killed they die with it.

It reads its order as one line of JSON and answers with one line. If the command that ordered it dies before the answer, the keeper
takes down what it has begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seatrial.clusters.kwok.kwok_process import STAGES
from seatrial.clusters.local.kept_planes import KeeperOrder
from seatrial.clusters.local.plane import Amend, LocalControlPlane
from seatrial.clusters.supervision.supervisor import Death
from seatrial.model.errors import SeatrialError


async def keep(order: KeeperOrder, amend: Amend | None = None) -> int:
    """Runs the cluster until it is told to stop; the exit status."""
    loop = asyncio.get_running_loop()
    note = {"stack": order.stack, "settings": order.options.settings or {}, "nodes": order.nodes}
    plane = LocalControlPlane(
        order.name, order.options, amend=amend, binaries=order.binaries, kept=True, note=note, died=_log_death
    )
    stop = asyncio.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sig, stop.set)
    loop.add_reader(sys.stdin.fileno(), stop.set)  # readable: the other end is gone, for nothing more is sent
    starting = asyncio.ensure_future(plane.up())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    loop.remove_reader(sys.stdin.fileno())
    if stop.is_set():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError, SeatrialError):
            await starting
        await plane.down()
        return 1
    try:
        starting.result()
    except SeatrialError as problem:
        _answer({"error": problem.message, "remedy": problem.remedy, "status": problem.exit_status})
        return problem.exit_status
    loop.add_signal_handler(signal.SIGHUP, lambda: _restage(plane))
    _answer({"url": plane.url})
    _detach(plane.layout.log("keeper"))
    _log(f"up after {plane.took_s:.2f} s: {plane.pids}")
    playing = asyncio.create_task(_play(plane))
    await stop.wait()
    playing.cancel()
    await asyncio.gather(playing, return_exceptions=True)
    await plane.down()
    return 0


async def _play(plane: LocalControlPlane) -> None:
    """Imports late: until the cluster is up, a command waits."""
    from seatrial.clusters.live.playing import play
    from seatrial.kube import Client, access_from

    try:
        async with Client(access_from(plane.kubeconfig())) as client:
            await play(client, _log)
    except Exception:
        _log(f"applications are no longer played\n{traceback.format_exc()}")
        raise


_tasks: set[asyncio.Task[None]] = set()


def _restage(plane: LocalControlPlane) -> None:
    """Handles SIGHUP: the file with the stages has changed."""
    stages = (plane.layout.directory / STAGES).read_text()
    task = asyncio.get_running_loop().create_task(plane.restage(stages))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _answer(message: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(message), flush=True)


def _detach(log: Path) -> None:
    """Detaches: output goes to a log, since the user may close the terminal."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    os.close(nothing)


def _log_death(death: Death) -> None:
    _log(f"{death}\n{death.log_tail}")


def _log(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {text}", file=sys.stderr, flush=True)


def main(amend_of: Callable[[KeeperOrder], Amend] | None = None) -> None:
    """`amend_of` says what the order's stack changes; without it the cluster has no stack."""
    order = KeeperOrder.decode(sys.stdin.buffer.readline())
    try:
        status = asyncio.run(keep(order, amend_of(order) if amend_of else None))
    except Exception:
        _answer({"error": f"the keeper of the cluster failed\n{traceback.format_exc()}", "remedy": "", "status": 3})
        raise
    sys.exit(status)


if __name__ == "__main__":
    main()
