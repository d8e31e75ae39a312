"""What is known of a cluster while it runs, on disk, so that the next command can find it, or clear away what is left
of it.

Whoever runs a cluster holds a lock in its directory for as long as it lives. A lock that can be had is a cluster that
nobody runs: its processes, if any are left, are ended (pid and start time must match) and a throw-away one is
removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seatrial.clusters.local.places import Layout, cannot_write, clusters_root, make_directory, write_private
from seatrial.clusters.local.processes import ProcessId, end, identify
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Scalar
from seatrial.record.locks import is_locked


@dataclass(slots=True)
class State:
    """`kept` clusters are the user's until taken down; the others belong to a trial and die with it."""

    kept: bool
    owner: ProcessId
    url: str = ""
    up: bool = False
    since: float = field(default_factory=time.time)
    processes: dict[str, ProcessId] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    stack: str = "default"  # what runs in it, with these settings: trials on it cannot have others
    settings: dict[str, dict[str, Scalar]] = field(default_factory=dict)
    nodes: list[dict[str, Any]] = field(default_factory=list)  # fake ones of its own, as groups

    def save(self, layout: Layout) -> None:
        temporary = layout.directory / ".state.json"
        write_private(temporary, json.dumps(asdict(self), indent=1).encode())
        temporary.replace(layout.state)


def read_state(layout: Layout) -> State | None:
    try:
        data = json.loads(layout.state.read_text())
        data["owner"] = ProcessId(**data["owner"])
        data["processes"] = {name: ProcessId(**found) for name, found in data["processes"].items()}
        return State(**data)
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Claim:
    """The right to run a cluster in this directory. A lock, so it ends with the process, however that ends."""

    def __init__(self, layout: Layout, descriptor: int) -> None:
        self.layout = layout
        self._descriptor = descriptor

    def remove(self) -> None:
        """The whole directory, then the claim."""
        with _registry():
            shutil.rmtree(self.layout.directory, ignore_errors=True)
            os.close(self._descriptor)


def claim(name: str, kept: bool) -> Claim:
    """A fresh directory for a cluster of this name. Refused while one runs; a dead one is cleared away."""
    layout = Layout(clusters_root() / name)
    with _registry():
        if layout.directory.exists():
            if is_run(layout):
                raise SetupProblem(
                    f"the cluster '{name}' is already up",
                    f"Use it, take it down with `seatrial cluster down {name}`, or choose another name.",
                )
            _clear(layout)
        make_directory(layout.directory, "the state of the cluster")
        descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        owner = identify(os.getpid())
        assert owner is not None
        State(kept, owner).save(layout)
    return Claim(layout, descriptor)


def is_run(layout: Layout) -> bool:
    """Whether a living process holds the claim."""
    try:
        return is_locked(layout.lock, os.O_RDWR)
    except OSError:
        return False


def reap() -> list[str]:
    """Clears away what killed commands left: called first by every command that uses local clusters.

    Throw-away clusters vanish. Of a kept one whose keeper died only processes are ended; the user sees it in `status`.
    """
    cleared: list[str] = []
    if not clusters_root().is_dir():
        return cleared
    with _registry():
        for layout in layouts():
            if is_run(layout):
                continue
            state = read_state(layout)
            if state and state.kept:
                end_processes(state)
            else:
                _clear(layout)
                cleared.append(layout.name)
    return cleared


def clear(name: str) -> None:
    """Removes a cluster that nobody runs any more."""
    with _registry():
        layout = Layout(clusters_root() / name)
        if not is_run(layout):
            _clear(layout)


def layouts() -> list[Layout]:
    """All clusters there are, running or not."""
    root = clusters_root()
    if not root.is_dir():
        return []
    return [Layout(entry) for entry in sorted(root.iterdir()) if entry.is_dir()]


def end_processes(state: State) -> None:
    """In reverse order of their start, with little patience: whoever would have cared for them is dead."""
    for process in reversed(list(state.processes.values())):
        end(process, grace_s=2.0)


def _clear(layout: Layout) -> None:
    state = read_state(layout)
    if state:
        end_processes(state)
    shutil.rmtree(layout.directory, ignore_errors=True)


@contextlib.contextmanager
def _registry() -> Iterator[None]:
    """One at a time makes, clears and removes clusters: a directory just made must not look like one left behind."""
    root = make_directory(clusters_root(), "the state of clusters")
    path: Path = root / ".lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_write(path, "the lock of the clusters", error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
