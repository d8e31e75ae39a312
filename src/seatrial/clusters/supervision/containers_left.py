"""Removes what real containers of a cluster leave: processes, cgroups, mounts, network namespaces, sockets.

One way for every end: a trial that is over, Ctrl-C, and the next command after `kill -9`. Nothing is asked of containerd, which may
be dead; everything of a cluster is found by its directory, and by a name made from that: its cgroup, the directory of its sockets
(a socket's path may have 107 bytes only, so it cannot be in the cluster's own).
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seatrial.clusters.supervision.procfs import ProcessId, identify

CONFIG = "containerd.toml"  # in the directory of a cluster with real containers
_RUN = Path("/run")
_PROGRAMS = {"containerd", "containerd-shim-runc-v2", "runc", "ctr"}
_CNI_RESULTS = Path("/var/lib/cni/results")  # libcni keeps them there, and only there
_GONE_S = 20.0
_MNT_DETACH = 2


@dataclass(frozen=True, slots=True)
class ContainersPlace:
    """The places of a cluster's containers."""

    directory: Path

    @property
    def name(self) -> str:
        """The name of its cgroup and of the directory of its sockets."""
        return "seatrial-" + hashlib.sha256(str(self.directory).encode()).hexdigest()[:12]

    @property
    def sockets(self) -> Path:
        """The directory of its sockets."""
        return _RUN / self.name

    @property
    def socket(self) -> Path:
        """The socket of containerd."""
        return self.sockets / "containerd.sock"

    @property
    def state(self) -> Path:
        """containerd's own directory of what runs."""
        return self.directory / "containerd-state"

    @property
    def bundles(self) -> Path:
        """A directory per sandbox and container that there is, named after it."""
        return self.state / "io.containerd.runtime.v2.task" / "k8s.io"


def remove_containers(directory: Path) -> None:
    """Returns when nothing is left, or after a while: what the kernel does not give up stays, and can be tried again."""
    place = ContainersPlace(directory)
    if not (directory / CONFIG).exists() and not place.sockets.exists():  # one alone: somebody removed the directory
        return
    until = time.monotonic() + _GONE_S
    while _kill(place) and time.monotonic() < until:
        time.sleep(0.02)
    while not _remove_cgroups(place) and time.monotonic() < until:
        time.sleep(0.02)
    _remove_sockets_of_shims(place)
    _unmount(place)
    shutil.rmtree(place.sockets, ignore_errors=True)


def is_left(directory: Path) -> list[str]:
    """Everything that there still is, for tests and errors: processes, cgroups, mounts."""
    place = ContainersPlace(directory)
    processes = [f"process {one.pid}" for one in _processes(place)]
    return processes + [f"cgroup {one}" for one in _cgroups(place)] + [f"mount {one}" for one in _mounts(place)]


def _kill(place: ContainersPlace) -> int:
    """Kills all processes; how many there were. Those of containers die first, so that their shim can reap them."""
    found = list(_processes(place))
    for one in found:
        one.send(signal.SIGKILL)
    return len(found)


def _processes(place: ContainersPlace) -> Iterator[ProcessId]:
    for cgroup in _cgroups(place):
        with contextlib.suppress(OSError):
            for pid in (cgroup / "cgroup.procs").read_text().split():
                if (one := identify(int(pid))) and one.alive:
                    yield one
    ours = (str(place.directory) + "/", str(place.sockets) + "/")
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            program, *args = entry.read_bytes().decode(errors="replace").split("\0")
            named = Path(program).name in _PROGRAMS and any(arg.startswith(ours) for arg in args)
            if (named or program.startswith(ours)) and (one := identify(int(entry.parent.name))) and one.alive:
                yield one


def _mount_table() -> Iterator[tuple[Path, str]]:
    """Mount point and type, in the order in which they were mounted."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        yield Path(before.split()[4].encode().decode("unicode_escape")), after.split()[0]


def _cgroups(place: ContainersPlace) -> list[Path]:
    """Its cgroups in every hierarchy, children before parents."""
    roots = [point / place.name for point, kind in _mount_table() if kind in ("cgroup", "cgroup2")]
    return [Path(found) for root in dict.fromkeys(roots) for found, _, _ in os.walk(root, topdown=False)]


def _remove_cgroups(place: ContainersPlace) -> bool:
    """False while one is still busy: a process that was killed leaves its cgroup a moment later."""
    for cgroup in _cgroups(place):
        with contextlib.suppress(OSError):
            cgroup.rmdir()
    return not _cgroups(place)


def _mounts(place: ContainersPlace) -> list[Path]:
    found = [
        point
        for point, _ in _mount_table()
        if point.is_relative_to(place.directory) or point.is_relative_to(place.sockets)
    ]
    return found[::-1]


def _unmount(place: ContainersPlace) -> None:
    """Root file systems, /dev/shm and network namespaces. What is still in use goes when it no longer is."""
    libc = ctypes.CDLL(None, use_errno=True)
    for point in _mounts(place):
        libc.umount2(os.fsencode(point), _MNT_DETACH)


def _remove_sockets_of_shims(place: ContainersPlace) -> None:
    """A shim that was killed leaves its socket below /run/containerd, and libcni its result."""
    for bundle in place.bundles.glob("*"):
        with contextlib.suppress(OSError):
            Path((bundle / "address").read_text().removeprefix("unix://")).unlink()
        for result in _CNI_RESULTS.glob(f"*{bundle.name}*"):
            result.unlink(missing_ok=True)
