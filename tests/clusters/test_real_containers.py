"""Real containers: what this machine must have, the image, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.clusters import machine_checks
from seatrial.clusters.containers import requirements
from seatrial.clusters.containers.pod_image import IMAGE, write_archive
from seatrial.clusters.containers.requirements import Lack, cgroup_version, lacks, version, why_no_container
from seatrial.clusters.supervision.cluster_state import reap
from seatrial.clusters.supervision.containers_left import ContainersPlace, is_left, remove_containers
from seatrial.clusters.supervision.directories import clusters_root
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import NodeGroup
from seatrial.study.eligibility import check
from tests.clusters.containers_cluster import begin
from tests.sim.making import submit, to_the_end, trial

WITH_CONTAINERS = dataclasses.replace(
    trial(*to_the_end(submit(1)), nodes=[NodeGroup("w", 1, {"cpu": 1000, "memory": 1}, kubelet=True, containers=True)]),
    on="local",
)


def _mounted(*mounts: str) -> str:
    """A mountinfo with these cgroups: `v2`, or the name of a v1 controller."""
    lines = []
    for name in mounts:
        kind, options = ("cgroup2", "rw,nsdelegate") if name == "v2" else ("cgroup", f"rw,{name}")
        lines.append(f"30 24 0:26 / /sys/fs/cgroup/{name} rw,relatime - {kind} cgroup {options}")
    return "\n".join([*lines, "24 1 8:1 / / rw - ext4 /dev/root rw"])


def _program(folder: Path, name: str, says: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def equipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has everything, whatever this one has; its programs are in the folder."""
    _program(tmp_path, "containerd", "containerd github.com/containerd/containerd v1.7.2 abc")
    _program(tmp_path, "runc", "runc version 1.1.5+ds1")
    for name in ("ctr", "containerd-shim-runc-v2"):
        _program(tmp_path, name, "")
    monkeypatch.setattr(requirements, "SEARCHED", str(tmp_path))
    monkeypatch.setattr(requirements, "_rights", lambda: iter(()))
    monkeypatch.setattr(requirements, "_cgroups", lambda _: iter(()))
    monkeypatch.setattr(requirements, "why_no_container", lambda _: "")
    return tmp_path


def _refused() -> str:
    with pytest.raises(SetupProblem) as raised:
        check([WITH_CONTAINERS])
    return raised.value.message


def test_a_machine_that_has_everything_may_run_them(equipped: Path) -> None:
    assert lacks() == []
    assert check([WITH_CONTAINERS]).trials == [WITH_CONTAINERS]
    assert version("containerd") == (1, 7), equipped


def test_missing_programs_are_refused_with_the_package_to_install(equipped: Path) -> None:
    (equipped / "runc").unlink()
    (equipped / "containerd").unlink()
    said = _refused()
    assert "there is no containerd and no runc" in said
    assert "apt-get install containerd runc" in said


@pytest.mark.parametrize(
    ("name", "says", "found"), [("containerd", "containerd x 1.5.18", "1.5"), ("runc", "runc version 0.9.1", "0.9")]
)
def test_a_runtime_that_is_too_old_is_refused(equipped: Path, name: str, says: str, found: str) -> None:
    _program(equipped, name, says)
    assert f"{name} {found} is too old" in _refused()


def test_a_runtime_without_a_version_is_refused(equipped: Path) -> None:
    _program(equipped, "runc", "no such thing")
    assert "runc does not say its version" in _refused()


def test_a_machine_on_which_runc_runs_nothing_is_refused_with_what_it_says(
    equipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (equipped / "runc").write_text(
        "#!/bin/sh\n[ $1 != --version ] || exec echo runc version 1.1.5\necho no permission >&2; exit 1\n"
    )
    monkeypatch.setattr(requirements, "why_no_container", why_no_container)
    assert "runc can run no container here: no permission" in _refused()


def test_without_root_or_the_right_to_mount_they_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "containers need root, and this is not root" in _refused()
    assert "run as root (sudo), or use `kubelet: true`" in _refused()


@pytest.mark.parametrize(
    ("mountinfo", "kind", "lack"),
    [
        (_mounted("v2"), "v2", ""),
        (_mounted("cpu,cpuacct", "cpuset", "memory", "pids", "devices", "freezer"), "v1", ""),
        (_mounted("cpu", "cpuset", "memory", "pids", "devices", "freezer", "v2"), "hybrid", ""),
        (_mounted("cpu", "cpuset", "pids", "devices", "freezer", "v2"), "hybrid", "cgroup hybrid here lacks memory"),
        (_mounted("name=systemd"), "v1", "cgroup v1 here lacks cpu, cpuset, memory, pids, devices, freezer"),
        (_mounted(), "", "no cgroups are mounted"),
    ],
)
def test_cgroups_that_runc_cannot_use_are_refused(
    mountinfo: str, kind: str, lack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: True)
    assert cgroup_version(mountinfo) == kind
    assert [one.what for one in requirements._cgroups(mountinfo)] == ([lack] if lack else [])


def test_cgroups_that_cannot_be_written_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    [lack] = requirements._cgroups(_mounted("v2"))
    assert "read-only" in lack.what and "--privileged" in lack.remedy


def test_where_overlayfs_cannot_be_used_file_systems_are_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(requirements, "_file_system", lambda _: "overlay")
    assert requirements.snapshotter(tmp_path / "not" / "there") == "native"


def test_the_doctor_says_what_real_containers_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "lacks", lambda: [Lack("there is no runc", "install it")])
    found = [one for one in machine_checks.machine("local") if "kubelet: containers" in one.what]
    assert [(one.state, one.what, one.remedy, one.needed) for one in found] == [
        ("warn", "kubelet: containers: there is no runc", "install it", False)
    ]
    assert not [one for one in machine_checks.machine("sim") if "containers" in one.what]


def test_the_image_is_one_program_and_the_same_program_gives_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "pod").write_bytes(b"a program")
    for name in ("a.tar", "b.tar"):
        write_archive(tmp_path / "pod", tmp_path / name)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    with tarfile.open(tmp_path / "a.tar") as archive:
        [manifest] = json.load(archive.extractfile("manifest.json") or io.BytesIO())
        config = json.load(archive.extractfile(manifest["Config"]) or io.BytesIO())
        layer = (archive.extractfile(manifest["Layers"][0]) or io.BytesIO()).read()
    assert manifest["RepoTags"] == [IMAGE]
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        assert [(one.name, one.mode) for one in files] == [(config["config"]["Entrypoint"][0].lstrip("/"), 0o755)]


def test_a_cluster_without_containers_has_nothing_to_remove(tmp_path: Path) -> None:
    remove_containers(tmp_path)
    assert is_left(tmp_path) == []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of clusters, on a machine that can run containers; nothing of it is left, however the test ends."""
    if found := lacks():
        pytest.skip("NO REAL CONTAINERS here: " + "; ".join(f"{one.what} ({one.remedy})" for one in found))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield clusters_root()
    reap()


def _sockets(place: ContainersPlace) -> list[Path]:
    """Of the three shims, which are outside the cluster's directory."""
    found = [Path(file.read_text().removeprefix("unix://")) for file in place.bundles.glob("*/address")]
    assert len(found) == 3 and all(one.exists() for one in found)
    return found


def _all_there(place: ContainersPlace) -> None:
    there = set(is_left(place.directory))
    for kind, least in (("process", 3 + 3 + 1), ("cgroup", 3), ("mount", 3)):  # containers, their shims and containerd
        assert len([one for one in there if one.startswith(kind)]) >= least, there


def test_a_cluster_that_ends_leaves_no_process_mount_cgroup_or_socket(machine: Path) -> None:
    async def main() -> list[Path]:
        held, supervisor = await begin("ended")
        try:
            _all_there(place)
            return _sockets(place)
        finally:
            await supervisor.stop()
            held.remove()

    place = ContainersPlace(machine / "ended")
    sockets = asyncio.run(main())
    assert is_left(place.directory) == [] and not place.directory.exists()
    assert not place.sockets.exists() and not any(one.exists() for one in sockets)


def test_after_kill_9_the_next_command_leaves_no_process_mount_cgroup_or_socket(machine: Path) -> None:
    place = ContainersPlace(machine / "killed")
    command = [sys.executable, "-m", begin.__module__]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and "ready" in process.stdout.read(6)
            _all_there(place)
            sockets = _sockets(place)
        finally:
            process.kill()
    assert [one for one in is_left(place.directory) if one.startswith("process")], "shims and containers outlive it"
    assert reap() == ["killed"]
    assert is_left(place.directory) == [] and not place.directory.exists()
    assert not place.sockets.exists() and not any(one.exists() for one in sockets)
