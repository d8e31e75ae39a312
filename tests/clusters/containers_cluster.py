"""A cluster of containerd alone with three containers, without a control plane; as a program it runs until it is killed."""

from __future__ import annotations

import asyncio
import json
import subprocess

from seatrial.clusters.containers import containerd
from seatrial.clusters.containers.pod_image import IMAGE
from seatrial.clusters.containers.requirements import CONTAINERD, program
from seatrial.clusters.supervision.cluster_state import DirectoryClaim, claim
from seatrial.clusters.supervision.containers_left import ContainersPlace
from seatrial.clusters.supervision.spawning import tied_command
from seatrial.clusters.supervision.supervisor import Supervisor


async def begin(name: str) -> tuple[DirectoryClaim, Supervisor]:
    """Its claim and its processes."""
    held = claim(name, kept=False)
    directory = held.layout.directory
    place = ContainersPlace(directory)
    for file, content in containerd.files(place).items():
        (directory / file).parent.mkdir(exist_ok=True)
        (directory / file).write_text(content if isinstance(content, str) else json.dumps(content))

    def record() -> None:
        held.state.processes = supervisor.processes
        held.save()

    supervisor = Supervisor(directory, held.layout.log, on_change=record)
    component = containerd.component(place)
    found = program(CONTAINERD)
    assert found is not None
    await supervisor.start([component], {component.name: found})
    await containerd.prepare(directory, None)
    for container in ("a", "b", "c"):
        own = ["--runc-root", str(place.state / "runc"), "--fifo-dir", str(directory / "fifo")]
        asked = ["run", "--detach", *own, "--cgroup", f"/{place.name}/node/{container}", IMAGE, container]
        made = subprocess.run(
            tied_command(str(program("ctr")), "--address", str(place.socket), "--namespace", "k8s.io", *asked),
            check=False, timeout=60, capture_output=True, text=True,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
    return held, supervisor


async def _until_killed() -> None:
    await begin("killed")
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_until_killed())
