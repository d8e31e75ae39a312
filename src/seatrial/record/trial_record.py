"""A trial's directory and its trial.json: how it ended, whether its figures can be trusted, and which files it has lost since."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec
import polars as pl

from seatrial import __version__
from seatrial.model.doubts import KINDS, RATES, TIMES, Doubt, touched
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.fleet import Fleet
from seatrial.model.lifecycle import PODS_CREATED, Stage
from seatrial.record.inventory import damage
from seatrial.record.layout import FORMAT, TRIAL

RUNNING, CUT_OFF = "running", "interrupted"  # a trial that says it runs when we read it was killed, or still runs
DAMAGED = "damaged"  # the outcome of a trial that has lost files since it ended
REAL, VERIFIED, UNVERIFIED = "real", "verified model", "unverified model"
GIVE_OUT = "Give the directory that `seatrial run -o OUT` wrote, not one inside it."
_DAMAGED = "It was damaged after the run; restore it from a backup, or run again."

CACHED_BYTES = 100 << 20
CUT_SHORT = Doubt("it was cut off before its validity was checked")


class TableCache:
    """Keeps tables that were read while there is room: several parts of a report ask for the requests of each trial."""

    def __init__(self, room: int = CACHED_BYTES) -> None:
        self._room = room
        self._tables: dict[tuple[Path, str], pl.DataFrame] = {}

    def read(self, directory: Path, read: Callable[[Path], pl.DataFrame]) -> pl.DataFrame:
        """What `read` gives for the directory, read once if there is room for it."""
        key = (directory, read.__name__)
        table = self._tables.get(key)
        if table is None:
            table = read(directory)
            size = int(table.estimated_size())
            if size <= self._room:
                self._room -= size
                self._tables[key] = table
        return table


@dataclass(frozen=True)
class TrialRecord:
    """One trial's directory and its trial.json."""

    directory: Path
    document: Mapping[str, Any]
    tables: TableCache = field(default_factory=lambda: TableCache(0), repr=False, compare=False)

    @classmethod
    def open(cls, directory: Path, tables: TableCache | None = None) -> Self:
        """Reads trial.json; raises where there is none, or one we cannot read. `tables`: shared by the trials of a study."""
        if not (directory / TRIAL).is_file():
            raise UsageProblem(f"{directory} is no trial: it has no {TRIAL}", "Give a directory under OUT/trials.")
        return cls(directory, read_document(directory / TRIAL), tables or TableCache(0))

    @property
    def name(self) -> str:
        """The name of the trial: `001-kwok-r1`."""
        return str(self.document.get("trial", self.directory.name))

    @property
    def setup(self) -> str:
        """The name of its set-up."""
        return str(self.document.get("setup", ""))

    @property
    def stack(self) -> str:
        """The stack of the set-up."""
        return str(self.document.get("stack", ""))

    @property
    def evidence(self) -> str:
        """The source of its figures: real components, a checked model, or an unchecked one."""
        if self.document.get("on") != "sim":
            return REAL
        return VERIFIED if (self.document.get("model") or {}).get("verified") is True else UNVERIFIED

    @property
    def cut_off(self) -> bool:
        """Whether the trial never ended: its process was killed."""
        return bool(self.document.get("outcome", RUNNING) == RUNNING)

    @cached_property
    def damage(self) -> tuple[str, ...]:
        """A sentence per file that is missing or truncated since the trial ended."""
        return () if self.cut_off else tuple(damage(self.directory, self.document))

    @property
    def outcome(self) -> str:
        """The outcome as trial.json has it, or that the trial was cut off or damaged."""
        return CUT_OFF if self.cut_off else DAMAGED if self.damage else str(self.document["outcome"])

    @property
    def valid(self) -> bool:
        """Whether the trial judged itself valid, was not interrupted and has lost no files."""
        judged = bool((self.document.get("validity") or {}).get("valid", False))
        return judged and self.outcome not in (CUT_OFF, DAMAGED)

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """Reasons against the figures, and the affected kinds."""
        if self.valid:
            return ()
        validity = self.document.get("validity") or {}
        whole = (TIMES, RATES) if validity.get("counted") else KINDS  # of a study before reasons said what they touch
        lost = tuple(Doubt(what) for what in self.damage)
        doubts = lost + tuple(_doubt(one, whole) for one in validity.get("reasons") or ())
        return doubts or (CUT_SHORT if self.cut_off else Doubt("its validity was not checked"),)

    @property
    def reasons(self) -> list[str]:
        """The doubts in words."""
        return [str(doubt) for doubt in self.doubts]

    def vouches_for(self, kinds: Iterable[str]) -> bool:
        """Whether figures of these kinds (`model.doubts`) can be trusted."""
        return self.valid or not (self.cut_off or touched(self.doubts, kinds))

    @property
    def cell(self) -> tuple[str, ...]:
        """Set-up and params, which repeats share."""
        return (self.setup, *(f"{name}={value}" for name, value in sorted(self.params.items())))

    @property
    def params(self) -> dict[str, Any]:
        """The params of the trial."""
        return dict(self.document.get("params") or {})

    @property
    def phases(self) -> dict[str, dict[str, Any]]:
        """What its submit phases submitted, by name."""
        return dict(self.document.get("phases") or {})

    @cached_property
    def shapes(self) -> dict[str, dict[str, Any]]:
        """The shapes of pods by name: a phase stands for its only one; a trace has several, called PHASE#0 and so on."""
        found: dict[str, dict[str, Any]] = {}
        for name, phase in self.phases.items():
            own = phase.get("shapes") or {name: {}}
            found.update({key: {**phase, **shape} for key, shape in own.items()})
        return found

    @property
    def unaudited(self) -> bool:
        """No audit was made: the trial was cut off, or sampled without knowledge of the nodes."""
        return self.outcome == CUT_OFF or self.document.get("audits") is None

    @property
    def audits(self) -> dict[str, int]:
        """Audit → how much it found."""
        return {str(a.get("audit")): int(a.get("count") or 0) for a in self.document.get("audits") or ()}

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The lifecycle of the trial's stack."""
        return tuple(
            Stage(
                str(s["name"]),
                str(s["of"]),
                str(s.get("about", "")),
                bool(s.get("general", False)),
                str(s.get("spent_on", "")),
            )
            for s in self.document.get("stages") or ()
        )

    @cached_property
    def fleet(self) -> Fleet:
        """Queues, cohorts and rules of preemption of its set-up; without queues where the scenario has none."""
        return msgspec.convert(self.document.get("fleet") or {}, Fleet)

    @property
    def quota_from(self) -> str:
        """The stage from which a pod counts against its queue, where no queue admits workloads."""
        return str(self.document.get("quota_from") or PODS_CREATED.name)

    @property
    def resolution_ns(self) -> int:
        """The resolution that times are rounded down to: setting `measure.resolution`."""
        measure = (self.document.get("settings") or {}).get("measure") or {}
        return max(1, int(measure.get("resolution") or 0))

    @cached_property
    def errors_ns(self) -> list[int]:
        """The error bound of each source, by its number."""
        return [int(source.get("error_ns", 0)) for source in self.document.get("sources") or ()]


def _doubt(said: Any, whole: tuple[str, ...]) -> Doubt:
    if not isinstance(said, Mapping):
        return Doubt(str(said), whole)
    by = said.get("by_s")
    known = tuple(kind for kind in KINDS if kind in (said.get("touches") or KINDS))
    return Doubt(str(said.get("reason")), known, float(by) if isinstance(by, int | float) else None)


def read_document(path: Path) -> dict[str, Any]:
    """study.json or trial.json, of a format that this version reads."""
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise SetupProblem(f"{path} is not JSON: {error}", _DAMAGED) from error
    if not isinstance(document, dict):
        raise SetupProblem(f"{path} does not hold an object", _DAMAGED)
    found = document.get("format")
    if not isinstance(found, int):
        raise UsageProblem(f"{path} does not say its format", GIVE_OUT)
    if found > FORMAT:
        by = document.get("seatrial")
        written = f", written by seatrial {by}" if by else ""
        raise UsageProblem(
            f"{path} has format {found}{written}; seatrial {__version__} reads up to format {FORMAT}",
            "Upgrade seatrial, or report with the version that wrote it.",
        )
    return document
