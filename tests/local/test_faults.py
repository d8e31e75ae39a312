"""Deaths of every kind, on real processes: what is noticed, what is restarted, and that nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.clusters.access import kept_clusters
from seatrial.clusters.kwok.stage_objects import default_stages
from seatrial.clusters.local import kept_planes
from seatrial.clusters.local.components import PlaneOptions
from seatrial.clusters.local.plane import LocalControlPlane
from seatrial.clusters.supervision.cluster_state import layouts, reap
from seatrial.clusters.supervision.directories import clusters_root
from seatrial.clusters.supervision.procfs import identify
from seatrial.clusters.supervision.spawning import take_lock
from seatrial.kube import Lost, Unreachable
from seatrial.model.errors import SetupProblem
from seatrial.model.settings import CONTROL_PLANE, resolve
from tests.api import Api
from tests.waiting import LONGEST_S, eventually

pytestmark = [pytest.mark.local, pytest.mark.timeout(1800)]

COMPONENTS = ["kube-scheduler", "kube-controller-manager", "kwok", "kube-apiserver", "etcd"]


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def runs_a_pod(plane: LocalControlPlane, name: str) -> None:
    """A new pod passes API server, scheduler and KWOK."""
    api = Api(plane.kubeconfig("seatrial"))
    pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    async with asyncio.timeout(60):
        while True:
            try:
                status, _ = await api.acall("POST", "/api/v1/namespaces/default/pods", pod)
                if status in (201, 409):
                    break
            except (Lost, Unreachable):
                pass
            await asyncio.sleep(0.05)
        while True:
            _, found = await api.acall("GET", f"/api/v1/namespaces/default/pods/{name}")
            if found["status"]["phase"] == "Running":
                return
            await asyncio.sleep(0.05)


async def all_run(plane: LocalControlPlane) -> None:
    """Also KWOK, which is started anew by us a moment after etcd or the API server was."""
    await asyncio.sleep(1)
    async with asyncio.timeout(LONGEST_S):
        while len(plane.pids) < len(COMPONENTS):
            await asyncio.sleep(0.01)


def test_every_component_that_is_killed_is_noticed_at_once_and_restarted(binaries: dict[str, Path]) -> None:
    """On a plane without client limits, which shows that the components take `no limit` as we write it."""

    async def main() -> None:
        options = PlaneOptions(settings=resolve(CONTROL_PLANE, "unlimited", {}), stages=default_stages())
        async with LocalControlPlane(options=options, binaries=binaries) as plane:
            api = Api(plane.kubeconfig("seatrial"))
            node = {"metadata": {"name": "fake-0"}}
            assert (await api.acall("POST", "/api/v1/nodes", node))[0] == 201
            await runs_a_pod(plane, "before")
            for component in COMPONENTS:
                await all_run(plane)
                before, begun = plane.pids[component], time.monotonic()
                os.kill(before, signal.SIGKILL)
                async with asyncio.timeout(LONGEST_S):
                    while not plane.deaths or plane.deaths[-1].component != component:
                        await asyncio.sleep(0.005)
                    assert time.monotonic() - begun < 1
                    while plane.pids.get(component, before) == before:
                        await asyncio.sleep(0.01)
                await runs_a_pod(plane, f"after-{component}")
            assert [(d.component, d.status, d.restarting) for d in plane.deaths] == [
                (component, -signal.SIGKILL, True) for component in COMPONENTS
            ]
            await all_run(plane)
            for pid in list(plane.pids.values()):
                os.kill(pid, signal.SIGKILL)
            async with asyncio.timeout(60):
                while len(plane.deaths) < 2 * len(COMPONENTS) or len(plane.pids) < len(COMPONENTS):
                    await asyncio.sleep(0.01)
            await runs_a_pod(plane, "after-all")
            assert all(death.restarting for death in plane.deaths)
            pids = list(plane.pids.values())
        assert all(identify(pid) is None for pid in pids)

    asyncio.run(main())
    assert not [layout for layout in layouts() if layout.name.startswith("trial-")]


def test_a_killed_tool_leaves_nothing_after_the_next_command(
    binaries: dict[str, Path], start_python: Callable[[str], subprocess.Popen[str]]
) -> None:
    paths = {name: str(path) for name, path in binaries.items()}
    with start_python(f"""
        import asyncio, json
        from pathlib import Path
        from seatrial.clusters.local.components import PlaneOptions
        from seatrial.clusters.local.plane import LocalControlPlane
        from seatrial.clusters.kwok.stage_objects import default_stages
        async def main():
            binaries = {{name: Path(path) for name, path in {paths!r}.items()}}
            plane = LocalControlPlane(options=PlaneOptions(stages=default_stages()), binaries=binaries)
            await plane.up()
            print(json.dumps([plane.name, plane.pids]), flush=True)
            await asyncio.sleep(600)
        asyncio.run(main())
    """) as tool:
        assert tool.stdout
        name, pids = json.loads(tool.stdout.readline())
        processes = [identify(pid) for pid in pids.values()]
        assert len(processes) == 5
        tool.kill()
    assert eventually(lambda: not any(p and p.alive for p in processes), 5)
    assert name in reap()
    assert not (clusters_root() / name).exists()


def test_a_cluster_whose_keeper_is_killed_is_dead_and_can_be_made_again(binaries: dict[str, Path]) -> None:
    first = kept_planes.up("orphaned", PlaneOptions(), binaries)
    processes = list(first.state.processes.values())
    first.state.owner.send(signal.SIGKILL)
    assert eventually(lambda: not any(p.alive for p in processes), 5)
    # Its claim goes with the last of its threads, its components with the first: there are moments in between.
    assert eventually(lambda: not kept_clusters.find("orphaned", running=False).running, 5)
    second = kept_planes.up("orphaned", PlaneOptions(), binaries)
    assert second.running
    kept_planes.down("orphaned")
    assert not (clusters_root() / "orphaned").exists()


def test_a_second_kwok_over_the_same_cluster_is_refused(cluster: kept_clusters.KeptCluster) -> None:
    with pytest.raises(SetupProblem, match="another kwok already works") as caught:
        take_lock(cluster.layout.directory / "kwok.lock", "kwok")
    assert str(kept_clusters.find(cluster.name).pids["kwok"]) in caught.value.message


def test_a_start_that_fails_shows_the_components_words_and_leaves_nothing(binaries: dict[str, Path]) -> None:
    options = PlaneOptions(settings={"kube-scheduler": {"--no-such-flag": 1}}, stages=default_stages())

    async def main() -> None:
        await LocalControlPlane("doomed", options, binaries=binaries).up()

    with pytest.raises(SetupProblem, match=r"(?s)kube-scheduler ended with status 1 .*unknown flag: --no-such-flag"):
        asyncio.run(main())
    assert not (clusters_root() / "doomed").exists()


@pytest.mark.slow
def test_controllers_can_have_a_service_account_each(binaries: dict[str, Path]) -> None:
    """As kubeadm does it: several seconds slower to start, so not our default."""
    settings = {"kube-controller-manager": {"--use-service-account-credentials": True}}

    async def main() -> str:
        async with LocalControlPlane(options=PlaneOptions(settings=settings), binaries=binaries) as plane:
            assert plane.audit_log
            return plane.audit_log.read_text()

    assert "system:serviceaccount:kube-system:service-account-controller" in asyncio.run(main())


def test_an_interrupted_start_leaves_nothing(binaries: dict[str, Path]) -> None:
    seen: dict[str, int] = {}

    async def main() -> None:
        plane = LocalControlPlane("hasty", PlaneOptions(stages=default_stages()), binaries=binaries)
        starting = asyncio.ensure_future(plane.up())
        while "kube-apiserver" not in plane.pids:
            await asyncio.sleep(0.01)
        seen.update(plane.pids)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(main())
    assert seen
    assert all(identify(pid) is None for pid in seen.values())
    assert not (clusters_root() / "hasty").exists()


def test_three_times_up_and_down_leaks_no_process_port_file_or_descriptor(binaries: dict[str, Path]) -> None:
    """The benchmark `local_up` does it ten times."""

    async def once() -> int:
        async with LocalControlPlane(options=PlaneOptions(stages=default_stages()), binaries=binaries) as plane:
            return int(plane.url.rpartition(":")[2])

    asyncio.run(once())  # what the interpreter opens once and for all
    descriptors, clusters = _descriptors(), set(clusters_root().iterdir())
    ports = [asyncio.run(once()) for _ in range(3)]
    assert _descriptors() == descriptors
    assert set(clusters_root().iterdir()) == clusters
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert [c for c in children if "kube" in Path(f"/proc/{c}/cmdline").read_text()] == []
    listening = {line.split()[1].rpartition(":")[2] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
                 if line.split()[3] == "0A"}  # fmt: skip
    assert not {f"{port:04X}" for port in ports} & listening
