"""A container that does nothing, to learn whether runc can make one here: too many rights and settings decide to look at each."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_SHOWN = ("bin", "lib", "lib64", "usr")  # of this machine, read-only, so that there is a program to run
_PROGRAM = "/bin/true"
_ANSWER_S = 30.0


@functools.cache
def why_no_container(runc: str) -> str:
    """Runc's error message; empty if the container ran. It takes 0.1 s, in a directory and a cgroup that are gone afterwards."""
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
