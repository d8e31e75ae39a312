"""Starts a component as a process: with its environment, log and lock, and killed when this process dies."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from seatrial.clusters.supervision.procfs import ProcessId, identify
from seatrial.model.control_plane import Component
from seatrial.model.diagnostics import command_line
from seatrial.model.errors import SetupProblem

_log = logging.getLogger(__name__)
_LAUNCHER = Path(__file__).with_name("launcher.py")

# All that is taken from the user's environment: ETCD_NAME or KWOK_CONFIG in a shell would silently change a trial.
_KEPT = ("PATH", "TMPDIR", "TZ", "LANG", "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG")


@dataclass(frozen=True, slots=True)
class Spawned:
    """A process that was started."""

    id: ProcessId
    handle: int  # a pidfd: readable once the process ended
    popen: subprocess.Popen[bytes]


def tied_command(binary: Path | str, *args: str) -> list[str]:
    """The command line that runs `binary` and kills it when this process ends.

    Strictly, when the *thread* that starts it ends: start it from a thread that lives as long as the process.
    """
    return [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(binary), *args]


def spawn(component: Component, binary: Path, directory: Path, log: Path) -> Spawned:
    """Starts the component in a session of its own, because Ctrl-C is ours to handle; its log is appended to."""
    environment = {key: os.environ[key] for key in _KEPT if key in os.environ}
    environment |= {"HOME": str(directory), **component.env}
    inherited = [take_lock(directory / component.lock, component.name)] if component.lock else []
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("ab") as output:
            popen = subprocess.Popen(
                tied_command(binary, *component.args),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=directory,
                env=environment, start_new_session=True, pass_fds=inherited,
            )  # fmt: skip
        for descriptor in inherited:
            os.pwrite(descriptor, f"{popen.pid}\n".encode(), 0)
    except OSError as error:
        remedy = "Check the disk and the limits of processes."
        raise SetupProblem(f"cannot start {component.name}: {error}", remedy) from error
    finally:
        for descriptor in inherited:
            os.close(descriptor)  # the process has its own copy and holds the lock exactly as long as it lives
    _log.info("started %s, pid %d: %s", component.name, popen.pid, command_line([str(binary), *component.args]))
    found = identify(popen.pid)
    assert found is not None  # our child: at worst a zombie until we wait for it
    return Spawned(found, os.pidfd_open(popen.pid), popen)


def take_lock(path: Path, who: str) -> int:
    """A descriptor that holds the lock; a process that inherits it holds the lock until it ends."""
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


def roomy(share: float) -> dict[str, str]:
    """Go collects garbage a quarter as often, up to a share of the machine's memory. On two cores collecting took a quarter of all
    processor time: 5,000 pods ran after 31 s instead of 40 s."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"GOGC": "400", "GOMEMLIMIT": f"{int(memory * share) >> 20}MiB"}
