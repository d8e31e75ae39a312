"""The study directory: made once, never over someone else's files, marked from the first moment."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seatrial import __version__
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.plan import Trial, to_json

FORMAT = 1
_PART = "study.json.part"
# Everything a study directory holds at its top: what `--force` may remove.
OURS = (
    "study.json", "trials", "times.csv", "pods.csv", "summary.csv", "sizes.csv", "errors.csv", "report.html",
    *(f"{picture}.{kind}" for picture in ("general", "detailed", "totals", "sizes") for kind in ("png", "svg", "pdf")),
)  # fmt: skip


def make(out: Path, force: bool) -> None:
    """An empty directory for a new study, or a clear refusal. A first file that was never finished is nothing."""
    if out.exists() and not out.is_dir():
        raise UsageProblem(f"{out} is a file", "give -o a directory that does not exist yet")
    if out.is_dir() and any(path.name != _PART for path in out.iterdir()):
        if not (out / "study.json").exists():
            raise UsageProblem(f"{out} is not empty and holds no study", "give -o another directory")
        if not force:
            raise UsageProblem(f"{out} holds a study already", "give -o another directory, or --force to replace it")
        for name in OURS:
            path = out / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)


def describe(
    scenario_name: str, document: dict[str, Any], trials: Sequence[Trial], asked: dict[str, Any]
) -> dict[str, Any]:
    """What study.json holds. Only `run` differs between two runs of the same thing."""
    return {
        "format": FORMAT,
        "seatrial": __version__,
        "name": scenario_name,
        "on": trials[0].on,
        "seed": trials[0].seed,
        "scenario": document,
        "asked": asked,
        "answer": list(dict.fromkeys(figure for trial in trials for figure in trial.answer)),
        "expect": to_json(tuple(dict.fromkeys(expectation for trial in trials for expectation in trial.expect))),
        "target": {key: value for key, value in to_json(trials[0].target).items() if value},
        "trials": [trial.name for trial in trials],
    }


def surroundings() -> dict[str, Any]:
    """Where it ran: belongs to `run`."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "versions": {name: version(name) for name in ("numpy", "polars", "matplotlib", "pydantic")},
        "command": ["seatrial", *sys.argv[1:]],
    }


def write(out: Path, document: dict[str, Any]) -> None:
    part = out / _PART
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(out / "study.json")


def left_behind(out: Path) -> list[str]:
    """A line per trial whose things in a cluster that stays were not all removed, however it ended."""
    lines = []
    for file in sorted(out.glob("trials/*/trial.json")):
        try:
            target = json.loads(file.read_text()).get("target") or {}
        except (OSError, ValueError):
            continue
        if target.get("study") and not target.get("removed"):
            where = target.get("context") or target.get("cluster")
            lines.append(f"{file.parent.name} left something in {where}; remove it with: seatrial clean -o {out}")
    return lines


@contextmanager
def disk_problems(out: Path) -> Iterator[None]:
    """A full disk or a directory one may not write is the surroundings' fault, and said so."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise SetupProblem(
                f"no space left for the study in {out} ({error.strerror}); what was observed until then is kept there",
                "free some space, or give -o a directory on another disk",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise SetupProblem(
                f"{error.filename or out} cannot be written ({error.strerror})", "give -o another directory"
            ) from error
        raise
