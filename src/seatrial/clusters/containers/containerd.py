"""containerd of the machine as a component of one cluster: own directories, own socket, our image, and no network for pods.

All nodes of the cluster share it; each kubelet sees only its own containers (`programs/go/kubelets/containerd.go`). What it
leaves is removed by `supervision.containers_left`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.clusters import programs
from seatrial.clusters.containers.pod_image import IMAGE, write_archive
from seatrial.clusters.containers.requirements import CONTAINERD, CTR, SEARCHED, program, snapshotter
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.clusters.supervision.containers_left import CONFIG, ContainersPlace
from seatrial.clusters.supervision.spawning import tied_command
from seatrial.model.control_plane import Component, ControlPlane, Ready
from seatrial.model.errors import SetupProblem

IMPORT_S = 120.0
_PLUGINS, _NETWORK = "cni-bin", "cni"  # in the cluster's directory


def with_containerd(plane: ControlPlane, directory: Path) -> ControlPlane:
    """The plane with containerd, which its kubelets need."""
    place = ContainersPlace(directory)
    kubelets = plane.component("kubelets")
    made = plane.with_component(replace(kubelets, needs=(*kubelets.needs, CONTAINERD)))
    made = replace(made, components=(component(place), *made.components))
    return replace(made, files={**made.files, **files(place)})


def files(place: ContainersPlace) -> dict[str, str | Mapping[str, Any]]:
    """Its settings, in the cluster's directory."""
    network = {"cniVersion": "0.3.1", "name": "seatrial", "plugins": [{"type": "seatrial"}]}
    return {CONFIG: _config(place), f"{_NETWORK}/seatrial.conflist": network}


def location(directory: Path) -> dict[str, str]:
    """The location, for the file of the kubelets."""
    place = ContainersPlace(directory)
    return {"socket": str(place.socket), "cgroup": f"/{place.name}", "image": IMAGE}


async def prepare(directory: Path, binaries: Path | None) -> None:
    """The image and the network plugin, once containerd runs and before the first kubelet."""
    place = ContainersPlace(directory)
    built = await asyncio.to_thread(ensure_binaries, [programs.POD], binaries)
    plugins = directory / _PLUGINS
    plugins.mkdir(mode=0o700, exist_ok=True)
    for name in ("loopback", "seatrial"):  # containerd asks for the first by itself
        shutil.copy(built[programs.POD.name], plugins / name)
    archive = directory / "pod.tar"
    write_archive(built[programs.POD.name], archive)
    command = ["--address", str(place.socket), "--namespace", "k8s.io", "images", "import"]
    importing = await asyncio.create_subprocess_exec(
        *tied_command(str(program(CTR)), *command, "--snapshotter", snapshotter(directory), str(archive)),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(IMPORT_S):
            said, _ = await importing.communicate()
    except TimeoutError:
        importing.kill()
        said = f"no answer within {IMPORT_S:.0f} s".encode()
    if importing.returncode:
        raise SetupProblem(
            f"containerd does not take our image: {said.decode(errors='replace').strip()}",
            f"look into its log, {directory / 'logs' / 'containerd.log'}",
        )


def component(place: ContainersPlace) -> Component:
    """The process."""
    found = program(CONTAINERD)
    if found is None:
        raise SetupProblem("there is no containerd", "`seatrial doctor --on local` says what real containers need.")
    return Component(
        CONTAINERD,
        found,
        ("--config", str(place.directory / CONFIG)),
        ready=Ready(socket=str(place.socket)),  # joined to the cluster's directory, an absolute path stays as it is
        env={"PATH": SEARCHED},
    )


def _config(place: ContainersPlace) -> str:
    """Version 2, which containerd 1.6 and 2 both read. Its own directories elsewhere on the machine are moved here too."""
    at = place.directory
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    tables: dict[str, dict[str, Any]] = {
        "grpc": {"address": str(place.socket)},
        cri: {
            "sandbox_image": IMAGE,
            "restrict_oom_score_adj": not _may_lower_oom_score(),
            "netns_mounts_under_state_dir": True,
        },
        f"{cri}.cni": {"bin_dir": str(at / _PLUGINS), "conf_dir": str(at / _NETWORK)},
        f"{cri}.containerd": {"snapshotter": snapshotter(at)},
        f"{cri}.containerd.runtimes.runc": {"runtime_type": "io.containerd.runc.v2"},
        f"{cri}.containerd.runtimes.runc.options": {"Root": str(place.state / "runc"), "SystemdCgroup": False},
        'plugins."io.containerd.internal.v1.opt"': {"path": str(at / "containerd-opt")},
    }
    top = {"version": 2, "root": str(at / "containerd"), "state": str(place.state), "disabled_plugins": _UNUSED}
    lines = [*_assignments(top)]
    for name, entries in tables.items():
        lines += [f"[{name}]", *_assignments(entries)]
    return "\n".join(lines) + "\n"


_UNUSED = [f"io.containerd.snapshotter.v1.{name}" for name in ("aufs", "btrfs", "devmapper", "zfs")]


def _assignments(entries: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(value)}" for key, value in entries.items()]


def _may_lower_oom_score() -> bool:
    """Without CAP_SYS_RESOURCE runc dies with "can't get final child's PID" when a pause container gets its score."""
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> 24 & 1) and os.geteuid() == 0
