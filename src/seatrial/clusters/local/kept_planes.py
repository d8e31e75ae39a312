"""Local clusters that stay until they are taken down: started, given other stages and stopped by name."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

import seatrial
from seatrial.clusters.access.kept_clusters import KeptCluster, find
from seatrial.clusters.kwok.kwok_process import STAGES
from seatrial.clusters.local.components import PlaneOptions
from seatrial.clusters.supervision.cluster_state import clear, is_run, reap, refuse_if_up
from seatrial.clusters.supervision.directories import Layout, write_private
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import NodeGroup

STOP_S = 40.0


@dataclasses.dataclass(frozen=True, slots=True)
class KeeperOrder:
    """A keeper's task: the line of JSON that it reads."""

    name: str
    options: PlaneOptions
    binaries: dict[str, Path]
    stack: str = "default"
    nodes: tuple[NodeGroup, ...] = ()  # recorded, not made

    def encode(self) -> bytes:
        """The order as one line."""
        return msgspec.json.encode(self, enc_hook=str) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> KeeperOrder:
        """Reads the output of `encode`."""
        return msgspec.json.decode(line, type=cls, dec_hook=lambda kind, value: kind(value))


def up(
    name: str,
    options: PlaneOptions,
    binaries: dict[str, Path],
    *,
    stack: str = "default",
    nodes: tuple[NodeGroup, ...] = (),
    keeper: str = "seatrial.clusters.local.keeper",
) -> KeptCluster:
    """Starts the keeper of a new cluster and waits until it is ready. On any problem nothing is left.

    `keeper` is the module that runs: only one that knows stacks can add one. The nodes are recorded; the caller makes them.
    """
    reap()
    refuse_if_up(name)
    package = str(Path(seatrial.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        [sys.executable, "-m", keeper],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, env=environment, cwd="/",
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout and process.stderr
        try:
            process.stdin.write(KeeperOrder(name, options, binaries, stack, nodes).encode())
            process.stdin.flush()
            line = process.stdout.readline()
        except BaseException:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S)
            raise
        answer = (
            json.loads(line)
            if line
            else {"error": f"the keeper of the cluster ended\n{process.stderr.read().decode()}"}
        )
        if "error" in answer:
            process.stdin.close()
            process.wait(STOP_S)
            clear(name)
            raise SetupProblem(
                answer["error"], answer.get("remedy") or "Try again; if it fails again, this is a defect of seatrial."
            )
        _leave(process)
    return find(name)


def _leave(process: subprocess.Popen[bytes]) -> None:
    """Starts the keeper, which outlives this process."""
    process.returncode = 0


def down(name: str) -> None:
    """Stops and removes the cluster, whatever state it is in."""
    kept = find(name, running=False)
    if kept.running:
        kept.state.owner.send(signal.SIGTERM)
        if not _wait_until_gone(kept.layout, STOP_S):
            kept.state.owner.send(signal.SIGKILL)  # its components die with it
            _wait_until_gone(kept.layout, 10)
    clear(name)


def _wait_until_gone(layout: Layout, patience: float) -> bool:
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if not is_run(layout):
            return True
        time.sleep(0.02)
    return False


def restage(name: str, stages: str, patience: float = 30.0) -> None:
    """Gives the cluster's KWOK other stages, and waits until it plays them."""
    kept = find(name)
    before = kept.state.processes.get("kwok")
    if before is None:
        raise SetupProblem(f"the cluster '{name}' has no KWOK", "Make a cluster with stages.")
    write_private(kept.layout.directory / STAGES, stages.encode())
    kept.state.owner.send(signal.SIGHUP)
    until = time.monotonic() + patience
    while time.monotonic() < until:
        state = find(name).state
        if state.processes.get("kwok", before) != before and "kwok" in state.ports:
            return
        time.sleep(0.05)
    log = kept.layout.log("kwok")
    raise SetupProblem(
        f"KWOK did not come back with the new stages within {patience:.0f} s", f"Look into its log, {log}."
    )
