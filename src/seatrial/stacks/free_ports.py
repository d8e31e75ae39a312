"""Ports for programs that can neither take over a port that we hold nor report one that they chose."""

from __future__ import annotations

import socket
from random import SystemRandom

HOST = "127.0.0.1"
# Above the ephemeral ports (net.ipv4.ip_local_port_range): a connection cannot take the port while the program restarts.
PORTS = range(61000, 65500)


def free_port() -> int:
    """A port that nobody listens on."""
    while True:
        port = SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)):
                return port
