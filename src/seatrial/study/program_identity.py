"""The identity of the program that decides over the bytes of a trial: our code, numeric libraries, files of the user.

`study.json` keeps it under `run`, so that `--resume` and readers can tell whether two trials come from the same program.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from seatrial import __version__
from seatrial.model.distributions import Empirical
from seatrial.model.plan import Trial
from seatrial.model.source_code import code
from seatrial.scenario.actions.submit_workloads import Submit

LIBRARIES = ("numpy", "polars")


def identity(trials: Sequence[Trial]) -> dict[str, Any]:
    """Name of a part → what identifies it."""
    python = ".".join(platform.python_version_tuple()[:2])
    libraries = {name: version(name) for name in LIBRARIES}
    return {
        "seatrial": __version__,
        "code": code(),
        "python": python,
        **libraries,
        **_foreign(trials),
        **_files(trials),
    }


def _foreign(trials: Sequence[Trial]) -> dict[str, str]:
    """The packages that stacks of others come from, with their versions."""
    used = {trial.setup.stack for trial in trials}
    found = {point.name: point.dist for point in entry_points(group="seatrial.stacks") if point.name in used}
    return {
        f"stack {name}": f"{dist.name} {dist.version}"
        for name, dist in sorted(found.items())
        if dist is not None and dist.name != "seatrial"
    }


def _files(trials: Sequence[Trial]) -> dict[str, str]:
    """Digests of the user's programs, configurations and data."""
    found: dict[str, str] = {}
    for setup in {trial.setup.name: trial.setup for trial in trials}.values():
        for override in setup.components.values():
            for file in filter(None, (override.binary, override.config)):
                found[file] = _digest(Path(file).read_bytes()) if Path(file).is_file() else ""
    for trial in trials:
        for submit in trial.phases(Submit):
            for drawn in (submit.sizes, submit.duration):
                if isinstance(drawn, Empirical) and drawn.file not in found:
                    found[drawn.file] = _digest(drawn.data)
    return found


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
