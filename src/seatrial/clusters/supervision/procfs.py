"""Processes as /proc shows them, so that we never signal or trust a process that is not ours.

Pids are reused, and a process that should be dead may still answer on the port of its successor (an API server whose etcd is gone
ignores SIGTERM for minutes). A pid together with its start time identifies one process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

LISTEN = "0A"  # the state in /proc/net/tcp


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process: its pid and when it started, in clock ticks since boot."""

    pid: int
    start: int

    @property
    def alive(self) -> bool:
        """A zombie counts as dead: it holds no port and no lock."""
        found = _stat(self.pid)
        return found is not None and found == (self.start, False)

    def send(self, sig: signal.Signals) -> bool:
        """Sends the signal if this very process still runs, and never to another one that has its pid now."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            # The handle pins the process before its start time is compared: its pid cannot be reused in between.
            if not self.alive:
                return False
            signal.pidfd_send_signal(handle, sig)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now."""
    found = _stat(pid)
    return ProcessId(pid, found[0]) if found else None


def _stat(pid: int) -> tuple[int, bool] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the command's name may hold spaces and brackets
    return int(fields[19]), fields[0] in "ZX"


def end(process: ProcessId, grace_s: float) -> bool:
    """SIGTERM, then SIGKILL after `grace_s`, for a process that is not our child. True if it still ran."""
    if not process.send(signal.SIGTERM):
        return False
    for sig, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        if sig is signal.SIGKILL:
            process.send(sig)
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if not process.alive:
                return True
            time.sleep(0.02)
    return True


def listens_on(pid: int) -> set[int]:
    """The TCP ports this very process listens on."""
    inodes = _socket_inodes(pid)
    ports: set[int] = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN and fields[9] in inodes:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def _socket_inodes(pid: int) -> set[str]:
    inodes: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = str(Path(entry.path).readlink())
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
    return inodes
