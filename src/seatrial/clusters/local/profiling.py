"""CPU profiles of a component while a trial runs (`--profile`), one file per stretch, for `go tool pprof`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from seatrial.clusters.local.plane import LocalControlPlane
from seatrial.kube import NO_RETRY, Lost, Request, Unreachable

PROFILE_S = 2  # a stretch that is cut off by the end of the trial is lost


async def profile(plane: LocalControlPlane, component: str, folder: Path) -> None:
    """Writes `COMPONENT-N.pprof` until cancelled."""
    folder.mkdir(exist_ok=True)
    number = 0
    while True:
        port = plane.port(component)  # none while the component is being restarted
        profiled = await _profiled(plane, port) if port else b""
        if profiled:
            (folder / f"{component}-{number:04d}.pprof").write_bytes(profiled)
            number += 1
        else:
            await asyncio.sleep(1)


async def _profiled(plane: LocalControlPlane, port: int) -> bytes:
    """A profile, or nothing if the component does not answer."""
    path = f"/debug/pprof/profile?seconds={PROFILE_S}"
    try:
        async with plane.client(port=port) as client:
            answer = await client.send(Request("get", "", "GET", path, timeout=PROFILE_S + 10), retry=NO_RETRY)
    except (Lost, Unreachable):
        return b""
    return bytes(answer.body) if answer.ok else b""
