"""The study directory: created empty or refused, locked while it is written, described by study.json from the first moment."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seatrial import __version__
from seatrial.analysis.studies import Study
from seatrial.model.errors import SeatrialError, SetupProblem, UsageProblem, cut
from seatrial.model.plan import Trial, to_json
from seatrial.record.files import write_json
from seatrial.record.layout import FORMAT, PART, REMOVABLE, STUDY, TRIAL, TRIALS
from seatrial.record.locks import Locked, hold, is_locked
from seatrial.record.trial_record import TrialRecord

_PART = f"{STUDY}{PART}"
WORKERS_END_S = 30.0  # they notice within 0.1 s that their parent was killed, on a busy machine later


def refuse_occupied(out: Path, force: bool) -> None:
    """Raises if no study can be created in `out`. An unfinished study.json alone does not count."""
    _refuse_impossible(out)
    if out.is_dir() and any(path.name != _PART for path in out.iterdir()):
        if not (out / STUDY).exists():
            raise UsageProblem(f"{out} is not empty and holds no study", "give -o another directory")
        if not force:
            raise UsageProblem(f"{out} holds a study already", "give -o another directory, or --force to replace it")


def _refuse_impossible(out: Path) -> None:
    """Raises for a file or a broken link in the path, and for an impossible name."""
    for one in (out, *out.parents):
        try:
            mode = one.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            if one.is_symlink():
                raise UsageProblem(f"{one} is a broken link", "give -o another directory") from None
            continue
        except OSError as error:
            raise UsageProblem(f"-o {cut(str(out))}: {error.strerror}", "give -o another directory") from None
        if not stat.S_ISDIR(mode):
            raise UsageProblem(f"{one} is a file", "give -o a directory that does not exist yet")
        return


def make_empty(out: Path, force: bool) -> None:
    """Creates the directory of a new study; with `force` it removes the files of the study that is there."""
    refuse_occupied(out, force)
    out.mkdir(parents=True, exist_ok=True)
    _refuse_if_sampled(out)
    for name in REMOVABLE:
        path = out / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


@contextmanager
def new_study(out: Path, force: bool) -> Iterator[None]:
    """An empty directory, locked until the end."""
    refuse_occupied(out, force)
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        make_empty(out, force)  # checks again: another process may have been faster
        yield


@contextmanager
def resumed_study(out: Path) -> Iterator[None]:
    """The directory of a study that goes on, locked until the end. Workers of a killed run have ended."""
    with locked(out):
        trials = out / TRIALS
        trials.mkdir(exist_ok=True)
        try:
            with hold(trials, WORKERS_END_S):
                pass
        except Locked as locked_:
            raise SetupProblem(
                f"a worker of the earlier run (process {locked_.pid}) still writes to {trials}", "end it"
            ) from None
        _refuse_if_sampled(out)
        yield


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keeps other processes from writing the study. Readers need no lock: files are replaced whole."""
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


def study_document(
    scenario_name: str, document: Mapping[str, Any], trials: Sequence[Trial], asked: dict[str, Any]
) -> dict[str, Any]:
    """study.json but for `run`, which alone differs between two runs of the same scenario and seed."""
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
    """Machine, versions and command, for `run` of study.json."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "versions": {name: version(name) for name in ("numpy", "polars", "matplotlib", "pydantic")},
        "command": ["seatrial", *sys.argv[1:]],
    }


def write_study(out: Path, document: dict[str, Any]) -> None:
    """Writes study.json."""
    write_json(out / STUDY, document)


def left_behind(out: Path, study: Study | None = None) -> list[str]:
    """A line per trial that left objects in a cluster that stays. `study`: as it was read at the end, unless the run failed."""
    trials = _readable_trials(out) if study is None else study.trials
    return [
        f"{trial.directory.name} left something in {target.get('context') or target.get('cluster')}; "
        f"remove it with: seatrial clean -o {out}"
        for trial in trials
        if (target := trial.document.get("target") or {}).get("study") and not target.get("removed")
    ]


def _readable_trials(out: Path) -> Iterator[TrialRecord]:
    for file in sorted(out.glob(f"{TRIALS}/*/{TRIAL}")):
        with suppress(OSError, SeatrialError):
            yield TrialRecord.open(file.parent)


@contextmanager
def disk_problems(out: Path) -> Iterator[None]:
    """Turns a full disk or missing permission into a SetupProblem."""
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
            f"no space left for the study in {out} ({why}); observations until then are kept there",
            "free some space, or give -o a directory on another disk",
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SetupProblem(f"{error.filename or out} cannot be written ({why})", "give -o another directory")
    if number in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY):
        return SetupProblem(f"{error.filename2 or error.filename or out} is in the way ({why})", "move it elsewhere")
    if number == errno.ENOENT and error.filename:
        return SetupProblem(
            f"{error.filename} is missing: the study was moved or removed while it was written", "run it again"
        )
    return None


def _number_in(text: str) -> int:
    """Errors of polars have errno only in their text."""
    found = re.search(r"\(os error (\d+)\)", text)
    return int(found[1]) if found else 0
