"""Reserves ports of 127.0.0.1, so that nobody takes them before a component listens on them.

A port is reserved by binding it with SO_REUSEPORT and never listening; Kubernetes' components bind it too when started with
`--permit-port-sharing`. The reservation lasts as long as the cluster, so a component that is restarted finds its port free.
Programs without such a flag listen on port 0, and we look up where they listen (`Ready.port` 0).
"""

from __future__ import annotations

import errno
import socket

from seatrial.model.errors import SetupProblem

HOST = "127.0.0.1"


class Ports:
    """The reservations of one cluster."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def reserve(self, port: int = 0) -> int:
        """Reserves a free port, or this one."""
        if port:
            _refuse_if_taken(port)
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            holder.bind((HOST, port))
        except OSError as error:
            holder.close()
            raise _taken(port, error) from error
        self._held.append(holder)
        return int(holder.getsockname()[1])

    def release(self) -> None:
        """Gives all of them up."""
        for holder in self._held:
            holder.close()
        self._held.clear()


def _refuse_if_taken(port: int) -> None:
    """Binds without sharing, to detect one of our programs that outlived its cluster."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT are no obstacle
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise _taken(port, error) from error


def _taken(port: int, error: OSError) -> SetupProblem:
    if error.errno == errno.EADDRINUSE:
        return SetupProblem(f"port {port} of {HOST} is taken", "Omit --port to get a free one.")
    if error.errno == errno.EACCES:
        return SetupProblem(f"port {port} is reserved for the administrator", "Take one above 1023.")
    return SetupProblem(f"no port of {HOST} is available: {error.strerror}", "Check the machine's network settings.")
