"""The few requests that bringing a control plane up takes: is it ready, and create these objects.

Deliberately small: the load and the watches have a client of their own (`seatrial.kube`), which is not needed to start
processes and is too fast to be simple.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from seatrial.clusters.local.places import Layout


class Api:
    """One identity's view of one API server; every call is a connection of its own."""

    def __init__(self, layout: Layout, url: str, identity: str) -> None:
        self._address = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=str(layout.ca))
        self._tls.load_cert_chain(layout.certificate(identity), layout.key(identity))

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout: float = 10
    ) -> tuple[int, Any]:
        """Status and answer, decoded if it is JSON. `OSError` if nobody answers."""
        host, port = self._address.hostname or "", self._address.port
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        try:
            text = None if body is None else json.dumps(body)
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            connection.request(method, path, text, {"Content-Type": kind, "Accept": "application/json, */*"})
            answer = connection.getresponse()
            content = answer.read()
            is_json = answer.getheader("Content-Type", "").startswith("application/json")
            return answer.status, json.loads(content) if is_json and content else content.decode(errors="replace")
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()


def probe_http(port: int, path: str, tls: ssl.SSLContext | None, timeout: float = 5) -> str:
    """Empty if 127.0.0.1:PORT answers 200, else what it says."""
    connection: http.client.HTTPConnection
    if tls:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout, context=tls)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        failed = [line for line in text.splitlines() if line.startswith("[-]")]
        return "" if answer.status == 200 else f"{path} says {answer.status}: {' '.join(failed) or text[:200]}"
    except (OSError, http.client.HTTPException) as error:
        return f"{path}: {error or type(error).__name__}"
    finally:
        connection.close()


def probe_socket(path: Path) -> str:
    """Empty if somebody listens on the Unix socket, else what is wrong.

    Through a descriptor of its directory: a socket's path may have 107 bytes only, and state directories are longer.
    """
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        return f"{path.parent}: {error.strerror}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect(f"/proc/self/fd/{directory}/{path.name}")
    except OSError as error:
        return f"{path.name}: {error.strerror or error}"
    finally:
        os.close(directory)
    return ""
