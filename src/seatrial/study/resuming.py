"""`seatrial run --resume OUT`: trials that ended stay, the others run, and the study gets the bytes of one that was never stopped.

That holds only if scenario, options and program are those of the beginning, so everything that differs is named and refused.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from seatrial.model.errors import SeatrialError, SetupProblem, UsageProblem, cut
from seatrial.model.plan import Trial
from seatrial.record.layout import REMOVABLE, STUDY, TRIALS
from seatrial.record.trial_record import CUT_OFF, DAMAGED, TrialRecord, read_document
from seatrial.study.program_identity import identity

SHOWN = 6  # differences in one message
_OPTIONS = {"on": "--on", "seed": "--seed"}
_VALUES = {"set": "--set", "vary": "--vary", "limit": "--limit"}
_CHOICES = {"setup": "--setup", "stack": "--stack", "repeat": "--repeat"}  # only the trials that they make matter
ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Resumed:
    """A study that goes on: its study.json but for `run`, its `run`, and the trials that are still to be run."""

    document: dict[str, Any]
    run: dict[str, Any]
    left: list[Trial]


def begun_study(out: Path) -> dict[str, Any]:
    """The study.json of a study that `seatrial run` began; raises if there is none."""
    if not (out / STUDY).is_file():
        what = "holds no study" if out.is_dir() else "is no directory"
        raise UsageProblem(f"--resume {cut(str(out))}: it {what}", "begin it: seatrial run SCENARIO -o OUT")
    document = read_document(out / STUDY)
    if not (document.get("scenario") or {}).get("steps"):
        raise UsageProblem(
            f"--resume {out}: the study was not written by `seatrial run`",
            "a study of `seatrial submit` continues with: seatrial submit -o OUT --resume",
        )
    return document


def resumed(out: Path, study: Mapping[str, Any], trials: Sequence[Trial]) -> Resumed:
    """The rest of the study in `out`. `study`: the study.json that the same command would write now."""
    earlier = begun_study(out)
    if earlier.get("find"):
        raise UsageProblem(f"--resume {out}: the study is a search", f"seatrial find --resume {out}")
    refuse_differences(out, earlier, study, trials)
    left = left_to_run(out, trials)
    document = {key: value for key, value in earlier.items() if key != "run"}
    return Resumed(document, dict(earlier.get("run") or {}), _placed(left, earlier))


def refuse_differences(
    out: Path, earlier: Mapping[str, Any], study: Mapping[str, Any], trials: Sequence[Trial]
) -> None:
    """Raises if anything differs that matters for the trials."""
    found = differences(earlier, study, trials)
    if found:
        more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        raise UsageProblem(
            f"--resume {out}: not the same study: {'; '.join(found[:SHOWN] + more)}",
            "restore what changed, or run a new study with -o another directory",
        )


def differences(earlier: Mapping[str, Any], study: Mapping[str, Any], trials: Sequence[Trial]) -> list[str]:
    """Differences, in words, that would make the rest of a study another study than its beginning."""
    now = json.loads(msgspec.json.encode(study))
    leaves = list(_leaves(earlier.get("scenario"), now["scenario"]))
    found = [
        _changed(words, earlier.get(key), now.get(key))
        for key, words in _OPTIONS.items()
        if earlier.get(key) != now.get(key) and key not in [path for path, *_ in leaves]
    ]
    if earlier.get("name") != now["name"]:
        return [_changed("the scenario", earlier.get("name"), now["name"])]
    found += [_changed(path, *both) for path, *both in leaves]
    found += [_changed(f"the cluster's {path}", *both) for path, *both in _leaves(earlier.get("target"), now["target"])]
    before, asked = earlier.get("asked") or {}, now["asked"]
    found += [
        _changed(option, before.get(key) or None, asked.get(key) or None)
        for key, option in _VALUES.items()
        if (before.get(key) or None) != (asked.get(key) or None)
    ]
    if earlier.get("trials") != now["trials"] and not found:
        found += _of_trials(earlier, now)
    run = earlier.get("run") or {}
    return found + _of_program(run, trials) + _of_machine(run, trials)


def left_to_run(out: Path, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that have not ended, have lost files, or could not be set up."""
    return [trial for trial in trials if not _has_ended(out / TRIALS / trial.name)]


def clear(out: Path, left: Sequence[Trial]) -> None:
    """Removes what trials that did not end have left, and what is made of all trials at the end."""
    _clear(out, [out / TRIALS / trial.name for trial in left])


def keep_ended(out: Path) -> list[str]:
    """The names of trials that have ended; removes what others have left, and what is made of all trials at the end."""
    begun = sorted(path for path in (out / TRIALS).iterdir() if path.is_dir())
    ended = [path for path in begun if _has_ended(path)]
    _clear(out, [path for path in begun if path not in ended])
    return [path.name for path in ended]


def _clear(out: Path, directories: Sequence[Path]) -> None:
    for directory in directories:
        if directory.is_dir():
            _refuse_remains(out, directory)
    for directory in directories:
        if directory.is_dir():
            shutil.rmtree(directory)
    for name in REMOVABLE:
        if name not in (STUDY, TRIALS):
            (out / name).unlink(missing_ok=True)


def _refuse_remains(out: Path, directory: Path) -> None:
    """Objects that a killed trial left in a cluster are named only in its directory."""
    try:
        target = TrialRecord.open(directory).document.get("target") or {}
    except SeatrialError:
        return
    if target.get("study") and not target.get("removed"):
        where = target.get("context") or target.get("cluster")
        raise SetupProblem(f"{directory.name} left something in {where}", f"remove it first: seatrial clean -o {out}")


def _has_ended(directory: Path) -> bool:
    try:
        trial = TrialRecord.open(directory)
    except SeatrialError:
        return False
    was_set_up = (trial.document.get("run") or {}).get("set_up", True)
    return was_set_up and trial.outcome not in (CUT_OFF, DAMAGED)


def _placed(trials: Sequence[Trial], earlier: Mapping[str, Any]) -> list[Trial]:
    """Expectations with the places in the file that the study began with; it may be gone."""
    places = {str(one.get("text")): str(one.get("place")) for one in earlier.get("expect") or ()}
    return [
        replace(trial, expect=tuple(replace(one, place=places.get(one.text, one.place)) for one in trial.expect))
        for trial in trials
    ]


def _changed(what: str, before: Any, now: Any) -> str:
    return f"{what} was {_spelled(before)} and is {_spelled(now)}"


def _spelled(value: Any) -> str:
    return ABSENT if value is None else cut(value if isinstance(value, str) else json.dumps(value))


def _leaves(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Path, earlier and present value of everything in which two documents differ."""
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from _leaves(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, pair in enumerate(zip(before, now, strict=True)):
            yield from _leaves(*pair, f"{path}[{number}]")
    else:
        yield path, before, now


def _of_trials(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The options that choose the trials, if the trials differ."""
    before, asked = earlier.get("asked") or {}, now["asked"]
    found = [
        _changed(option, before.get(key) or None, asked.get(key) or None)
        for key, option in _CHOICES.items()
        if (before.get(key) or None) != (asked.get(key) or None)
    ]
    return found or [f"it has {len(earlier.get('trials') or ())} trials, not {len(now['trials'])}"]


def _of_program(run: Mapping[str, Any], trials: Sequence[Trial]) -> list[str]:
    before, now = run.get("program") or {}, identity(trials)
    return [
        "the code of seatrial is another" if name == "code" else _changed(name, before.get(name), now.get(name))
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]


def _of_machine(run: Mapping[str, Any], trials: Sequence[Trial]) -> list[str]:
    """Where processes of the control plane share the machine, its size decides over times."""
    if trials[0].on != "local":
        return []
    now = {"system": f"{platform.system()} {platform.machine()}", "cores": os.cpu_count()}
    return [
        _changed(f"the machine's {name}", run.get(name), value) for name, value in now.items() if run.get(name) != value
    ]
