"""The file that says what kubelets there are, and what is told to the process that reads it."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from seatrial import stacks
from seatrial.clusters.containers import containerd
from seatrial.clusters.containers.pod_image import IMAGE
from seatrial.clusters.live.session import Session
from seatrial.clusters.local.components import KUBELETS_FILE, KUBELETS_SOCKET, PlaneOptions, describe
from seatrial.clusters.local.kubelet_nodes import KubeletNodes
from seatrial.clusters.local.plane import LocalControlPlane
from seatrial.clusters.supervision.containers_left import ContainersPlace
from seatrial.clusters.supervision.directories import Layout
from seatrial.clusters.supervision.ports import Ports
from seatrial.model.errors import SetupProblem
from seatrial.model.lifecycle import PLAIN
from seatrial.model.plan import NodeGroup, PlayedRuntime, Span
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.record.submissions import Submissions
from seatrial.scenario.actions.change_nodes import NodeChange, RuntimeTrouble
from tests.sim.making import submit, to_the_end, trial

AS_SET = NodeGroup("w", 2, {"cpu": 4000, "memory": 1, "nvidia.com/gpu": 2}, kubelet=True)
OWN = NodeGroup("own", 1, {"cpu": 1000, "memory": 1}, kubelet=True, runtime=PlayedRuntime(Span(5, 9), at_once=3))
REAL = NodeGroup("r", 1, {"cpu": 1000, "memory": 1}, kubelet=True, containers=True)
Act = Callable[[KubeletNodes, Session], Awaitable[None]]


class _Plane:
    programs_given = None

    def __init__(self, directory: Path) -> None:
        self.layout = Layout(directory)


def _written(directory: Path) -> dict[str, dict[str, Any]]:
    document = json.loads((directory / KUBELETS_FILE).read_text())
    return {node["name"]: node for node in document["nodes"]}


def _with_kubelets(directory: Path, act: Act, answer: str = "ok") -> int:
    """Runs `act` beside something that answers as the process does; how often it was asked."""
    settings = {"kubelet": {"start-latency": SECOND, "start-work": 500 * MILLISECOND}}
    asked = trial(*to_the_end(submit(1)), nodes=[AS_SET, OWN], settings=settings)
    ledger = Ledger(PLAIN, Segment(directory))
    session = Session(asked, stacks.find("default"), ledger, Submissions(directory), directory, "trial")
    session.spawn = lambda main: main.close()  # type: ignore[method-assign]
    times = 0

    async def process(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal times
        await reader.readline()
        times += 1
        writer.write(f"{answer}\n".encode())
        writer.close()

    async def main() -> None:
        async with await asyncio.start_unix_server(process, directory / KUBELETS_SOCKET):
            await act(KubeletNodes(session, cast(LocalControlPlane, _Plane(directory))), session)

    asyncio.run(main())
    return times


def test_a_node_has_the_runtime_of_its_group_or_the_times_of_the_settings(tmp_path: Path) -> None:
    async def act(nodes: KubeletNodes, _: Session) -> None:
        assert await nodes.make(AS_SET, 0, 0) == ["w-0", "w-1"]
        assert await nodes.make(OWN, 0, 2) == ["own-0"]

    assert _with_kubelets(tmp_path, act) == 2
    written = _written(tmp_path)
    assert written.keys() == {"w-0", "w-1", "own-0"}
    assert written["w-1"]["capacity"]["nvidia.com/gpu"] == "2"
    assert written["w-1"]["runtime"]["sandbox"] == [SECOND, SECOND]
    assert written["w-1"]["runtime"]["work"] == 500 * MILLISECOND
    assert (written["own-0"]["runtime"]["sandbox"], written["own-0"]["runtime"]["work"]) == ([5, 9], 0)
    assert written["own-0"]["runtime"]["atOnce"] == 3


def test_real_containers_are_prepared_once_and_the_process_is_told_where_containerd_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Path] = []

    async def prepare(directory: Path, _: Path | None) -> None:
        prepared.append(directory)

    monkeypatch.setattr(containerd, "prepare", prepare)

    async def act(nodes: KubeletNodes, _: Session) -> None:
        await nodes.make(AS_SET, 0, 0)
        assert prepared == [] and "containerd" not in json.loads((tmp_path / KUBELETS_FILE).read_text())
        await nodes.make(REAL, 0, 2)
        await nodes.make(REAL, 1, 3)

    _with_kubelets(tmp_path, act)
    assert prepared == [tmp_path]
    place = ContainersPlace(tmp_path)
    said = json.loads((tmp_path / KUBELETS_FILE).read_text())
    assert said["containerd"] == {"socket": str(place.socket), "cgroup": f"/{place.name}", "image": IMAGE}
    assert {name: node["real"] for name, node in _written(tmp_path).items()} == {
        "w-0": False, "w-1": False, "r-0": True, "r-1": True
    }  # fmt: skip


def test_the_kubelets_of_a_plane_with_containerd_start_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containerd, "program", lambda name: Path("/usr/bin") / name)
    ports = Ports()
    plane = describe(PlaneOptions(kubelets={"nodes": []}), ports)
    ports.release()
    amended = containerd.with_containerd(plane, tmp_path)
    assert "containerd" in amended.component("kubelets").needs
    config = tomllib.loads(str(amended.files["containerd.toml"]))
    assert all(Path(config[key]).is_relative_to(tmp_path) for key in ("root", "state"))
    assert len(str(ContainersPlace(tmp_path / ("long" * 40)).socket)) < 107, (
        "the kernel takes no longer path of a socket"
    )


def test_a_step_changes_the_nodes_it_names_and_the_diagnosis_knows_why(tmp_path: Path) -> None:
    said: list[list[str]] = []

    async def act(nodes: KubeletNodes, session: Session) -> None:
        await nodes.make(AS_SET, 0, 0)
        for change in (
            NodeChange("break", "trouble", "w", 1, trouble=RuntimeTrouble(2 * SECOND, 10, 7, disk_full=True)),
            NodeChange("halt", "stop", "w", 1),
            NodeChange("mend", "heal", "w", 1),
            NodeChange("go", "start", "w", 1),
            NodeChange("gone", "remove", "w", 1),
        ):
            await nodes.affect(change, ["w-0"])
            said.append(list(session.observer.troubles))
            if change.name == "halt":
                written = _written(tmp_path)
                assert written["w-0"]["stopped"] and not written["w-1"]["stopped"]
                assert written["w-0"]["runtime"]["crashEvery"] == 7
                assert written["w-0"]["runtime"]["failEvery"] == 10 and not written["w-1"]["runtime"]["diskFull"]

    _with_kubelets(tmp_path, act)
    broken, halted, mended, going, _ = said
    assert broken == [
        "the container runtimes of 'w' (1 node): every answer takes 2s longer, every start number 10 fails, "
        "every container number 7 ends with status 1, the disk is full, as the step 'break' says"
    ]
    assert len(halted) == 2 and len(mended) == 1 and going == []
    assert _written(tmp_path).keys() == {"w-1"}


def test_what_the_process_complains_of_is_said_with_its_log(tmp_path: Path) -> None:
    async def act(nodes: KubeletNodes, _: Session) -> None:
        with pytest.raises(SetupProblem, match="could not be changed: node w-0: no room") as raised:
            await nodes.make(AS_SET, 0, 0)
        assert "kubelets.log" in raised.value.remedy

    _with_kubelets(tmp_path, act, answer="node w-0: no room")
