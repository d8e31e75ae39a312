"""The study directory: made once, never over someone else's files, marked from the first moment."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seatrial import __version__
from seatrial.model.errors import SetupProblem, UsageProblem, cut
from seatrial.model.plan import Trial, to_json
from seatrial.record.layout import OURS, STUDY
from seatrial.record.locks import Locked, hold, is_locked

FORMAT = 1
_PART = f"{STUDY}.part"


def refuse_occupied(out: Path, force: bool) -> None:
    """Refuses a place where no study can be made. A first file that was never finished is nothing."""
    _refuse_impossible(out)
    if out.is_dir() and any(path.name != _PART for path in out.iterdir()):
        if not (out / STUDY).exists():
            raise UsageProblem(f"{out} is not empty and holds no study", "give -o another directory")
        if not force:
            raise UsageProblem(f"{out} holds a study already", "give -o another directory, or --force to replace it")


def _refuse_impossible(out: Path) -> None:
    """A file or a link to nothing on the way, or a name that no file can have."""
    for one in (out, *out.parents):
        try:
            mode = one.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            if one.is_symlink():
                raise UsageProblem(f"{one} is a link to nothing", "give -o another directory") from None
            continue
        except OSError as error:
            raise UsageProblem(f"-o {cut(str(out))}: {error.strerror}", "give -o another directory") from None
        if not stat.S_ISDIR(mode):
            raise UsageProblem(f"{one} is a file", "give -o a directory that does not exist yet")
        return


def make(out: Path, force: bool) -> None:
    """An empty directory for a new study, or a clear refusal."""
    refuse_occupied(out, force)
    out.mkdir(parents=True, exist_ok=True)
    _refuse_if_sampled(out)
    for name in OURS:
        path = out / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


@contextmanager
def made(out: Path, force: bool) -> Iterator[None]:
    """The same, and nobody else writes to it until the end."""
    refuse_occupied(out, force)
    out.mkdir(parents=True, exist_ok=True)
    with alone(out):
        make(out, force)  # checks once more: another process may have been quicker
        yield


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """No other process writes this study meanwhile. Readers need no lock: they meet whole files."""
    with ExitStack() as held:
        try:
            held.enter_context(hold(out))
        except Locked as locked:
            who = f"process {locked.pid}" if locked.pid else "another process"
            end = f"end it (kill {locked.pid})" if locked.pid else "end it"
            raise SetupProblem(
                f"{who} is writing the study in {out}", f"wait for it, {end}, or give -o another directory"
            ) from None
        yield


def _refuse_if_sampled(out: Path) -> None:
    for segment in out.glob("trials/*/observed-*.seg"):
        if is_locked(segment):
            raise SetupProblem(
                f"`seatrial sample` is writing to {segment.parent}", "end it, or give -o another directory"
            )


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
        "setups": {trial.setup.name: trial.setup.stack for trial in trials},
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
    part.replace(out / STUDY)


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
        problem = _problem_of(error, out)
        if problem is None:
            raise
        raise problem from error


def _problem_of(error: OSError, out: Path) -> SetupProblem | None:
    number = error.errno or _number_in(str(error))
    why = error.strerror or (os.strerror(number) if number else "")
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return SetupProblem(
            f"no space left for the study in {out} ({why}); what was observed until then is kept there",
            "free some space, or give -o a directory on another disk",
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SetupProblem(f"{error.filename or out} cannot be written ({why})", "give -o another directory")
    if number in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY):
        return SetupProblem(f"{error.filename2 or error.filename or out} is in the way ({why})", "move it elsewhere")
    if number == errno.ENOENT and error.filename:
        return SetupProblem(f"{error.filename} is gone: the study was moved or removed meanwhile", "run it again")
    return None


def _number_in(text: str) -> int:
    """Errors of polars have their number in the text only."""
    found = re.search(r"\(os error (\d+)\)", text)
    return int(found[1]) if found else 0
