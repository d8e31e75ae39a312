"""Clusters that stay until they are taken down: starting, finding, restaging and stopping them by name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import seatrial
from seatrial.clusters.local.components import STAGES, USER, Wish
from seatrial.clusters.local.order import Order, groups_from
from seatrial.clusters.local.places import Layout, check_name, clusters_root, write_private
from seatrial.clusters.local.state import State, clear, is_run, layouts, read_state, reap
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import NodeGroup

STOP_S = 40.0


@dataclass(frozen=True, slots=True)
class Kept:
    """A cluster that is there, as its state file has it."""

    layout: Layout
    state: State
    running: bool  # somebody looks after it

    @property
    def name(self) -> str:
        return self.layout.name

    @property
    def url(self) -> str:
        return self.state.url

    @property
    def ca(self) -> Path:
        return self.layout.ca

    @property
    def audit_log(self) -> Path | None:
        return self.layout.audit_log if self.layout.audit_log.exists() else None

    @property
    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self.state.processes.items() if process.alive}

    @property
    def nodes(self) -> tuple[NodeGroup, ...]:
        """Fake ones of its own (`--nodes`)."""
        return groups_from(self.state.nodes)

    def kubeconfig(self, identity: str = USER.name) -> Path:
        return self.layout.kubeconfig(identity)


def all_clusters() -> list[Kept]:
    """Those of trials that run right now too."""
    found: list[Kept] = []
    for layout in layouts():
        state = read_state(layout)
        if state:
            found.append(Kept(layout, state, is_run(layout)))
    return found


def find(name: str, running: bool = True) -> Kept:
    """The cluster of this name; `SetupProblem` if there is none, or none that runs where that is asked for."""
    layout = Layout(clusters_root() / check_name(name))
    state = read_state(layout)
    if state is None:
        others = ", ".join(kept.name for kept in all_clusters())
        raise SetupProblem(
            f"there is no cluster '{name}'",
            f"There {'are ' + others if others else 'is none'}; make one with `seatrial cluster up {name}`.",
        )
    kept = Kept(layout, state, is_run(layout))
    if running and not (kept.running and state.up):
        what = "is not up yet" if kept.running else "does not run any more"
        raise SetupProblem(
            f"the cluster '{name}' {what}",
            f"Take it down with `seatrial cluster down {name}` and up again.",
        )
    return kept


def refuse_if_up(name: str) -> None:
    """Before minutes go into building programs for a cluster that cannot be made."""
    if is_run(Layout(clusters_root() / check_name(name))):
        raise SetupProblem(
            f"the cluster '{name}' is already up",
            f"Use it, take it down with `seatrial cluster down {name}`, or choose another name.",
        )


def up(
    name: str,
    wish: Wish,
    binaries: dict[str, Path],
    *,
    stack: str = "default",
    nodes: tuple[NodeGroup, ...] = (),
    keeper: str = "seatrial.clusters.local.keeper",
) -> Kept:
    """Starts the keeper of a new cluster and waits until it is ready. On any problem nothing is left. `keeper` is the module
    that is run: only one that knows stacks can bring one. The nodes are only noted: whoever asks for them makes them."""
    reap()
    refuse_if_up(name)
    package = str(Path(seatrial.__file__).parent.parent)
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        [sys.executable, "-m", keeper],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, env=surroundings, cwd="/", text=True,
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout and process.stderr
        try:
            process.stdin.write(Order(name, wish, binaries, stack, nodes).to_json() + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BaseException:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S)
            raise
        answer = json.loads(line) if line else {"error": f"the keeper of the cluster ended\n{process.stderr.read()}"}
        if "error" in answer:
            process.stdin.close()
            process.wait(STOP_S)
            clear(name)
            raise SetupProblem(answer["error"], answer.get("remedy") or "Try again; if it stays, this is a defect.")
        _leave(process)
    return find(name)


def _leave(process: subprocess.Popen[str]) -> None:
    """The keeper is not ours to wait for: it lives on after this process."""
    process.returncode = 0


def down(name: str) -> None:
    """Stops and removes it, whatever state it is in."""
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
    before = find(name).state.processes.get("kwok")
    if before is None:
        raise SetupProblem(f"the cluster '{name}' has no KWOK", "Make one with stages.")
    kept = find(name)
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
