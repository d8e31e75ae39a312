"""One component description becomes one process: its surroundings, its log, its lock, and its tie to our life."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from seatrial.clusters.local.processes import ProcessId, identify
from seatrial.model.control_plane import Component
from seatrial.model.errors import SetupProblem

_LAUNCHER = Path(__file__).with_name("launcher.py")

# Only these pass from the user's surroundings: ETCD_NAME or KWOK_CONFIG in a shell would silently change a trial.
_KEPT = ("PATH", "TMPDIR", "TZ", "LANG", "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG")


@dataclass(frozen=True, slots=True)
class Spawned:
    id: ProcessId
    handle: int  # a pidfd: readable once the process ended
    popen: subprocess.Popen[bytes]


def tied_command(binary: Path | str, *args: str) -> list[str]:
    """The command line that runs `binary` and ends it when this process ends.

    Strictly, when the *thread* ends that starts it: start it from a thread that lives as long as the process.
    """
    return [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(binary), *args]


def spawn(component: Component, binary: Path, directory: Path, log: Path) -> Spawned:
    """Starts it in a session of its own (Ctrl-C is for us to handle), with its log appended to."""
    surroundings = {key: os.environ[key] for key in _KEPT if key in os.environ}
    surroundings |= {"HOME": str(directory), **component.env}
    inherited = [take_lock(directory / component.lock, component.name)] if component.lock else []
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("ab") as output:
            popen = subprocess.Popen(
                tied_command(binary, *component.args),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=directory,
                env=surroundings, start_new_session=True, pass_fds=inherited,
            )  # fmt: skip
        for descriptor in inherited:
            os.pwrite(descriptor, f"{popen.pid}\n".encode(), 0)
    except OSError as error:
        remedy = "Check the disk and the limits of processes."
        raise SetupProblem(f"cannot start {component.name}: {error}", remedy) from error
    finally:
        for descriptor in inherited:
            os.close(descriptor)  # the process has its own copy and holds the lock exactly as long as it lives
    found = identify(popen.pid)
    assert found is not None  # our child: at worst a zombie until we wait for it
    return Spawned(found, os.pidfd_open(popen.pid), popen)


def take_lock(path: Path, who: str) -> int:
    """A descriptor that holds the lock. A process that inherits it holds it until it ends, whatever becomes of us."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode().strip()
        os.close(descriptor)
        raise SetupProblem(
            f"another {who} already works on this cluster (pid {holder or 'unknown'} has {path} locked)",
            "Two of them would silently fight over the same objects; stop that one first.",
        ) from None
    return descriptor
