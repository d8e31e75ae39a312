"""What real containers need of this machine, each with its remedy. `seatrial doctor` says the same as a run that is refused."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONTAINERD, SHIM, CTR, RUNC = "containerd", "containerd-shim-runc-v2", "ctr", "runc"
# CRI v1, which kubelets of 1.26 and later want, came with containerd 1.6; cgroup v2 with runc 1.0.
OLDEST = {CONTAINERD: (1, 6), RUNC: (1, 0)}
CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "devices", "freezer")  # that runc uses, with cgroup v1
SEARCHED = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/usr/local/sbin"
_CAP_SYS_ADMIN = 21
_SHOWN = ("bin", "lib", "lib64", "usr")  # of this machine, read-only, so that there is a program to run
_PROGRAM = "/bin/true"
_ANSWER_S = 30.0
_INSTALL = "install containerd and runc (Debian, Ubuntu: `apt-get install containerd runc`)"


@dataclass(frozen=True, slots=True)
class Lack:
    """A missing requirement and its remedy."""

    what: str
    remedy: str


def program(name: str) -> Path | None:
    """Path of the program, also outside the PATH of a user, where Debian has runc."""
    found = shutil.which(name, path=SEARCHED)
    return Path(found) if found else None


def lacks() -> list[Lack]:
    """Everything that this machine lacks. If nothing seems to, a container that does nothing is tried."""
    if sys.platform != "linux":
        return [Lack(f"containers need Linux, and this is {sys.platform}", "use a Linux machine, or `kubelet: true`")]
    found = [*_rights(), *_programs(), *_cgroups(Path("/proc/self/mountinfo").read_text())]
    return found or list(_runs_none())


def _runs_none() -> Iterator[Lack]:
    """Problems that only a test container shows."""
    why = why_no_container(str(program(RUNC)))
    if why:
        yield Lack(f"runc can run no container here: {why}", "fix that, or use `kubelet: true`")


@functools.cache
def why_no_container(runc: str) -> str:
    """What runc says of a container that does nothing, or nothing if it ran: too many rights and settings decide to look at each.

    It takes 0.1 s, in a directory and a cgroup that are gone afterwards.
    """
    name = f"seatrial-canary-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="seatrial-canary-") as folder:
        try:
            if why := _run([runc, "spec"], folder):
                return why
            _amend(Path(folder), name)
            return _run([runc, "--root", f"{folder}/state", "run", name], folder)
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            return str(error)


def _run(command: list[str], folder: str) -> str:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ANSWER_S, check=False
    )
    return (done.stderr.strip() or f"status {done.returncode}") if done.returncode else ""


def _amend(folder: Path, cgroup: str) -> None:
    """The container that `runc spec` describes, with this machine's programs."""
    (folder / "rootfs").mkdir()
    spec: dict[str, Any] = json.loads((folder / "config.json").read_text())
    spec["process"] |= {"args": [_PROGRAM], "terminal": False}
    spec["linux"]["cgroupsPath"] = f"/{cgroup}"
    shown = [one for one in _SHOWN if Path("/", one).is_dir()]
    spec["mounts"] += [
        {"destination": f"/{one}", "type": "bind", "source": f"/{one}", "options": ["rbind", "ro"]} for one in shown
    ]
    (folder / "config.json").write_text(json.dumps(spec))


def snapshotter(state: Path) -> str:
    """How containerd keeps file systems: `overlayfs`, or `native` (copies) where the kernel or the disk below cannot."""
    known = "overlay" in Path("/proc/filesystems").read_text().split()
    while not state.exists():
        state = state.parent
    return "overlayfs" if known and _file_system(state) != "overlay" else "native"


def cgroup_version(mountinfo: str) -> str:
    """`v2`, `v1`, `hybrid` (v1 with an empty v2 beside it) or empty."""
    kinds = {kind for _, kind, _ in _mounts(mountinfo) if kind.startswith("cgroup")}
    if kinds == {"cgroup2"}:
        return "v2"
    return {True: "hybrid", False: "v1"}["cgroup2" in kinds] if kinds else ""


def version(name: str) -> tuple[int, int] | None:
    """The version that containerd or runc reports."""
    found = program(name)
    try:
        said = subprocess.run([str(found), "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    numbers = re.search(r"\bv?(\d+)\.(\d+)", said)
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def _rights() -> Iterator[Lack]:
    capabilities = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    may_mount = capabilities is not None and int(capabilities[1], 16) >> _CAP_SYS_ADMIN & 1
    if os.geteuid() != 0 or not may_mount:
        who = "root without the right to mount" if os.geteuid() == 0 else "not root"
        yield Lack(f"containers need root, and this is {who}", "run as root (sudo), or use `kubelet: true`")


def _programs() -> Iterator[Lack]:
    missing = [name for name in (CONTAINERD, SHIM, CTR, RUNC) if program(name) is None]
    if missing:
        yield Lack(f"there is no {' and no '.join(missing)}", _INSTALL)
    for name, oldest in OLDEST.items():
        if name in missing:
            continue
        found, least = version(name), ".".join(map(str, oldest))
        if found is None:
            yield Lack(f"{name} does not say its version", f"{_INSTALL}, {least} or later")
        elif found < oldest:
            yield Lack(f"{name} {'.'.join(map(str, found))} is too old", f"{_INSTALL}, {least} or later")


def _cgroups(mountinfo: str) -> Iterator[Lack]:
    """v2 alone, or v1 with all controllers that runc uses; a hybrid is v1 if they are there."""
    kind = cgroup_version(mountinfo)
    mounted = [mount for mount in _mounts(mountinfo) if mount[1].startswith("cgroup")]
    if not kind:
        yield Lack("no cgroups are mounted", "mount cgroup v2 at /sys/fs/cgroup, or use `kubelet: true`")
        return
    if kind != "v2":
        there = {name for _, found, options in mounted if found == "cgroup" for name in options.split(",")}
        missing = [name for name in CONTROLLERS if name not in there]
        if missing:
            what = f"cgroup {kind} here lacks {', '.join(missing)}"
            yield Lack(
                what, "boot with systemd.unified_cgroup_hierarchy=1 (cgroup v2), or mount these controllers as v1"
            )
    shut = [point for point, _, _ in mounted if not os.access(point, os.W_OK)]
    if shut:
        what = f"cgroups are read-only ({shut[0]})"
        yield Lack(what, "remount them for writing; in a container of your own, run it with --privileged")


def _mounts(mountinfo: str) -> Iterator[tuple[str, str, str]]:
    """Mount point, type and options of the file system."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        yield before.split()[4], kind, options


def _file_system(path: Path) -> str:
    """The type of the file system that has this path."""
    real = str(path.resolve()) + "/"
    points = [(point, kind) for point, kind, _ in _mounts(Path("/proc/self/mountinfo").read_text())]
    holding = [(point, kind) for point, kind in points if real.startswith(point.rstrip("/") + "/")]
    return max(holding, key=lambda found: len(found[0]), default=("/", ""))[1]
