"""An administrator's view of a cluster in plain calls, for tests that are no coroutines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.kube import Client, Request, access_from
from seatrial.kube.resources import NEVER, encode


class Api:
    """One identity at one API server, or at a component of it that listens on `port`."""

    def __init__(self, kubeconfig: Path, port: int = 0) -> None:
        access = access_from(kubeconfig)
        self._access = replace(access, port=port or access.port)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        """Code and answer, decoded if it is JSON."""
        return asyncio.run(self.acall(method, path, body))

    async def acall(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        """The same inside an event loop."""
        data = b"" if body is None else encode(body)
        async with Client(self._access, connections=1) as client:
            answer = await client.send(Request("", "", method, path, data, "application/json", if_lost=NEVER))
        text = answer.body.decode(errors="replace")
        return answer.code, json.loads(text) if text.startswith("{") else text
