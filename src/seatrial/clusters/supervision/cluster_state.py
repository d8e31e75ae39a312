"""The state of local clusters on disk: the next command finds a cluster there, or clears away what is left of it.

The process that runs a cluster holds a lock in its directory. If the lock is free, nobody runs the cluster: processes that are
left are ended (pid and start time must match), and a throw-away cluster is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from seatrial.clusters.supervision.containers_left import remove_containers
from seatrial.clusters.supervision.directories import (
    Layout,
    cannot_write,
    check_name,
    clusters_root,
    make_directory,
    write_private,
)
from seatrial.clusters.supervision.procfs import ProcessId, end, identify
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import NodeGroup, Scalar
from seatrial.record.locks import is_locked


@dataclass(slots=True)
class ClusterState:
    """`kept` clusters stay until the user takes them down; the others belong to a trial and end with it."""

    kept: bool
    owner: ProcessId
    url: str = ""
    up: bool = False
    since: float = field(default_factory=time.time)
    processes: dict[str, ProcessId] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    stack: str = "default"  # trials on this cluster cannot have another, nor other settings
    settings: dict[str, dict[str, Scalar]] = field(default_factory=dict)
    nodes: tuple[NodeGroup, ...] = ()  # fake nodes of its own

    def save(self, layout: Layout) -> None:
        """Readers see the old state or the new one."""
        temporary = layout.directory / ".state.json"
        write_private(temporary, msgspec.json.format(msgspec.json.encode(self), indent=1))
        temporary.replace(layout.state)


def read_state(layout: Layout) -> ClusterState | None:
    """The state; None if the directory has no readable one."""
    try:
        return msgspec.json.decode(layout.state.read_bytes(), type=ClusterState)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


class DirectoryClaim:
    """The right to run a cluster in this directory: a lock, which ends with the process, however that ends."""

    def __init__(self, layout: Layout, descriptor: int, state: ClusterState) -> None:
        self.layout, self.state = layout, state
        self._descriptor = descriptor

    def save(self) -> None:
        """Writes the state."""
        self.state.save(self.layout)

    def remove(self) -> None:
        """Removes the whole directory, then gives up the claim."""
        with _registry():
            remove_containers(self.layout.directory)
            shutil.rmtree(self.layout.directory, ignore_errors=True)
            os.close(self._descriptor)


def claim(name: str, kept: bool, **known: Any) -> DirectoryClaim:
    """A fresh directory for a cluster of this name. Refused while such a cluster runs; a dead one is cleared away. `known`: fields
    of its state."""
    layout = Layout(clusters_root() / name)
    with _registry():
        if layout.directory.exists():
            refuse_if_up(name)
            _clear(layout)
        make_directory(layout.directory, "the state of the cluster")
        descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        owner = identify(os.getpid())
        assert owner is not None
        held = DirectoryClaim(layout, descriptor, ClusterState(kept, owner, **known))
        held.save()
    return held


def refuse_if_up(name: str) -> None:
    """Called early as well, before programs are built, which takes minutes, for a cluster that cannot be made."""
    if is_run(Layout(clusters_root() / check_name(name))):
        raise SetupProblem(
            f"the cluster '{name}' is already up",
            f"Use it, take it down with `seatrial cluster down {name}`, or choose another name.",
        )


def is_run(layout: Layout) -> bool:
    """Whether a living process holds the claim."""
    try:
        return is_locked(layout.lock, os.O_RDWR)
    except OSError:
        return False


def reap() -> list[str]:
    """Clears away what killed commands left; every command that uses local clusters calls it first.

    Throw-away clusters are removed. Of a kept cluster whose keeper died only the processes are ended; `status` shows it.
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
    """Removes a cluster without a running owner."""
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


def end_processes(state: ClusterState) -> None:
    """Ends processes in reverse order of their start, with a short grace period: their owner is dead."""
    for process in reversed(list(state.processes.values())):
        end(process, grace_s=2.0)


def _clear(layout: Layout) -> None:
    state = read_state(layout)
    if state:
        end_processes(state)
    remove_containers(layout.directory)
    shutil.rmtree(layout.directory, ignore_errors=True)


@contextlib.contextmanager
def _registry() -> Iterator[None]:
    """One process at a time makes and removes clusters: a directory just made must not look like one left behind."""
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
