"""The connection to a Ray: one that is there, or one that is started on this machine for as long as the command runs.

Ray itself waits for minutes for an address that does not answer and logs a page meanwhile; so the address is tried first.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.machines.code_shipping import shipped
from seatrial.model.errors import SetupProblem, UsageProblem, cut

AUTO, LOCAL, CLIENT = "auto", "local", "ray://"
ANSWER_S = 5.0  # for a machine far away to accept a connection
# How every gRPC server can be told from others: HTTP/2 begins with this preface, and a server with a frame of settings (type 4).
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
SETTINGS = 4
LONGEST_FOLDER = 25  # characters
LOOPBACK = ("127.0.0.1", "localhost")
# Ray's name for "one machine: use the loopback address only"; the default is a cluster on Linux.
LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # a Ray that we start reports nothing to anybody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else a FutureWarning about GPUs on every start
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # what workers get is said here, not by how this process was started
}


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of a Ray that is alive."""

    node: str  # Ray's id
    name: str
    address: str
    cores: float
    memory: int  # bytes that tasks may reserve

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


def machines() -> list[Machine]:
    """The machines that are alive and have a core for tasks, in the order of their addresses and ids."""
    ray = imported_ray()
    found = [
        Machine(
            str(node["NodeID"]),
            str(node["NodeManagerHostname"]),
            str(node["NodeManagerAddress"]),
            float(node["Resources"].get("CPU", 0)),
            int(node["Resources"].get("memory", 0)),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]
    return sorted((one for one in found if one.cores >= 1), key=lambda one: (one.address, one.node))


@contextmanager
def connected(address: str, stacks: Sequence[str], cores: int) -> Iterator[None]:
    """A connection to the Ray at `address`, with our code and that of these stacks on its way to the workers. `cores`: of a Ray
    that is started here."""
    options = _options(address, cores)
    with ExitStack() as left_at_end:
        folders = left_at_end.enter_context(shipped(stacks))
        if address == LOCAL:
            session = Path(tempfile.mkdtemp(prefix="sr-", dir=_short_folder()))
            left_at_end.callback(shutil.rmtree, session, ignore_errors=True)
            options |= {"_temp_dir": str(session)}
        ray = imported_ray()
        try:
            ray.init(
                runtime_env={"py_modules": folders},
                logging_level="CRITICAL",
                log_to_driver=False,
                **options,
            )
        except Exception as problem:
            with suppress(Exception):
                ray.shutdown()
            raise _refused(address, problem) from problem
        left_at_end.callback(ray.shutdown)
        yield


def _options(address: str, cores: int) -> dict[str, Any]:
    """How `ray.init` reaches the address. Raises if nothing answers there, before Ray is even imported."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if address == LOCAL:
        os.environ[LOOPBACK_ONLY] = "0"
        # Else Ray writes one into the user's home that stays there, and every `ray start` from then on asks for it.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        return {"address": LOCAL, "num_cpus": cores, "include_dashboard": False}
    where = _running_here() if address == AUTO else address
    host, port = _host_and_port(where)
    if where.startswith(CLIENT):
        _try(address, host, port)
        return {"address": where}
    if host in LOOPBACK and not _answers(_own_address(), port):
        os.environ[LOOPBACK_ONLY] = "0"
    _try(address, host, port)
    # Ray looks for a token by itself only if it finds the address by itself.
    found_by_ray = address == AUTO and not os.environ.get("RAY_ADDRESS")
    return {"address": AUTO if found_by_ray else f"{host}:{port}"}


def _short_folder() -> str:
    """For the files of a Ray: its sockets have paths of at most 107 bytes, of which Ray's own names take 80."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= LONGEST_FOLDER else "/tmp"


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or "/" in host:
        raise UsageProblem(
            f"--ray {cut(address)}: no address of a Ray",
            "write HOST:6379 on a machine of the Ray, ray://HOST:10001 from elsewhere, auto, or local",
        )
    return host.strip("[]"), int(port)


def _running_here() -> str:
    """The address of the Ray that runs on this machine, as `ray start` leaves it."""
    place = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    found = os.environ.get("RAY_ADDRESS", "")
    if not found:
        with suppress(OSError):
            found = place.read_text().strip()
    if not found:
        raise SetupProblem(
            "--ray auto: no Ray is running on this machine",
            "start one (ray start --head), give its address, or use --ray local",
        )
    return found


def _try(address: str, host: str, port: int) -> None:
    remedy = "is it up? Check with `ray status` on its head; on Kubernetes forward its port first (docs/ray.md)"
    try:
        if _speaks_http2(host, port):
            return
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise SetupProblem(f"--ray {cut(address)}: {host}:{port} does not answer: {why}", remedy) from None
    raise SetupProblem(
        f"--ray {cut(address)}: what answers at {host}:{port} is no Ray",
        "8265 is its dashboard: use HOST:6379 on a machine of the Ray, or ray://HOST:10001",
    )


def _speaks_http2(host: str, port: int) -> bool:
    with socket.create_connection((host, port), ANSWER_S) as tried:
        tried.sendall(HTTP2)
        try:
            return tried.recv(9)[3:4] == bytes([SETTINGS])
        except OSError:
            return False


def _answers(host: str, port: int) -> bool:
    with suppress(OSError):
        return _speaks_http2(host, port)
    return False


def _own_address() -> str:
    """The address by which others see this machine; nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # RFC 5737: an address for examples
        return str(probe.getsockname()[0])
    return LOOPBACK[0]


def imported_ray() -> Any:
    """The module, without its types, which are incomplete; raises if the extra is not installed."""
    try:
        import ray
    except ImportError as error:
        raise SetupProblem(
            f"--ray needs Ray, and it is not installed ({error})", "install the extra: pip install 'seatrial[ray]'"
        ) from None
    return ray


def _refused(address: str, problem: Exception) -> SetupProblem:
    text = " ".join(str(problem).split())
    if "ersion mismatch" in text:
        remedy = "use the same versions of Python and Ray on all machines (docs/ray.md)"
        return SetupProblem(f"--ray {cut(address)}: {text}", remedy)
    remedy = (
        "`ray status` on its head shows whether it is well; with HOST:PORT the command must run on one of its machines; "
        "a Ray that asks for a token needs RAY_AUTH_MODE=token and its token here (docs/ray.md)"
    )
    return SetupProblem(f"--ray {cut(address)}: {type(problem).__name__}: {text}", remedy)
