"""`seatrial plot`: tables and one picture of a study, finished or not.

Workloads with impossible times are listed with the reason and left out of the picture by default; the tables have all workloads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from seatrial.analysis.impossible_times import impossible
from seatrial.analysis.stage_times import Lifecycle
from seatrial.analysis.studies import Study
from seatrial.analysis.tables import whole_file, write_tables
from seatrial.record.layout import ERRORS
from seatrial.record.trial_record import TrialRecord
from seatrial.report.step_pictures import write_step_pictures


@dataclass(frozen=True)
class Choice:
    """The workloads in a picture: the first `head` and the last `tail` of each trial (0: all)."""

    head: int = 0
    tail: int = 0
    skip_errors: bool = True

    def of(self, workloads: pl.DataFrame) -> pl.DataFrame:
        """The workloads chosen from these."""
        if not self.head and not self.tail:
            return workloads
        if self.head + self.tail >= workloads.height:
            return workloads
        return pl.concat([workloads.head(self.head), workloads.tail(self.tail)])

    def __str__(self) -> str:
        parts = [f"the first {self.head:,}"] if self.head else []
        parts += [f"the last {self.tail:,}"] if self.tail else []
        return " and ".join(parts)


@dataclass
class Plotted:
    """The files of `seatrial plot`, and its messages."""

    files: list[Path]
    errors: pl.DataFrame  # trial, workload, reason
    notes: list[str] = field(default_factory=list)


def plot(out: Path, which: str, kind: str, choice: Choice) -> Plotted:
    """Writes the tables, errors.csv and the picture, and says what was left out."""
    study = Study.open(out)
    errors, notes = errors_of(study, choice)
    files = write_tables(study)
    with whole_file(out / ERRORS) as file:
        errors.write_csv(file)
    picked = with_workloads(study, choice, errors)
    drawn = write_step_pictures(picked, kind, [which], _said(study, choice, errors.height))
    if not drawn:
        notes.append("nothing is drawn: no workload has reached a stage yet")
    return Plotted([*files, out / ERRORS, *drawn], errors, [*notes, *study.notes])


def errors_of(study: Study, choice: Choice) -> tuple[pl.DataFrame, list[str]]:
    """The chosen workloads with impossible times, and messages about the choice."""
    tables = [pl.DataFrame(schema=dict.fromkeys(["trial", "workload", "reason"], pl.String))]
    notes: list[str] = []
    for trial in study.trials:
        seen = study.lifecycle(trial)
        notes += _beyond(choice, seen)
        chosen = pl.col("workload").is_in(choice.of(seen.workloads)["workload"].implode())
        tables.append(impossible(seen).filter(chosen).select(pl.lit(trial.name).alias("trial"), "workload", "reason"))
    return pl.concat(tables), notes


def with_workloads(study: Study, choice: Choice, errors: pl.DataFrame) -> Study:
    """The study with only the chosen workloads."""
    wrong = dict(errors.group_by("trial").agg("workload").iter_rows()) if choice.skip_errors else {}

    def read(trial: TrialRecord) -> Lifecycle:
        seen = study.lifecycle(trial)
        right = ~pl.col("workload").is_in(wrong.get(trial.name, []))
        return dataclasses.replace(seen, workloads=choice.of(seen.workloads).filter(right))

    return dataclasses.replace(study, lifecycle=read)


def by_reason(errors: pl.DataFrame) -> Sequence[tuple[str, int, str]]:
    """Reasons without their figures, each with the number of workloads and an example."""
    bare = pl.col("reason").str.replace_all(r"[\d.]+ s ", "").alias("kind")
    counts = errors.group_by(bare, maintain_order=True).agg(pl.len().alias("count"), pl.col("workload").first())
    return list(counts.sort("count", descending=True, maintain_order=True).iter_rows())


def _said(study: Study, choice: Choice, errors: int) -> list[str]:
    """Lines in the picture: the chosen workloads, and the precision of their times."""
    largest = max((int(trial.document.get("submitted") or 0) for trial in study.trials), default=0)
    cut = (choice.head or choice.tail) and (not largest or choice.head + choice.tail < largest)
    phases = dict.fromkeys(name for trial in study.trials for name in trial.phases)
    said = [f"submitted: {', '.join(phases)}"] if study.name == "submit" else []
    said += [f"only {choice} of each trial"] if cut else []
    if errors:
        said.append(f"{errors:,} with impossible times {'left out' if choice.skip_errors else 'among them'}")
    known = [(trial.document.get("validity") or {}).get("known") or {} for trial in study.trials]
    coarse = sum(one.get("to_a_second", 0) + one.get("worse", 0) for one in known)
    if coarse:
        share = 100 * coarse / sum(sum(one.values()) for one in known)
        said.append(f"{share:.0f} % of the times are known to half a second at best")
    return said


def _beyond(choice: Choice, seen: Lifecycle) -> list[str]:
    there = seen.workloads.height
    asked = {"--head": choice.head, "--tail": choice.tail}
    return [
        f"{seen.trial.name}: {option} {count} is more than the {there} workloads of the trial: all are drawn"
        for option, count in asked.items()
        if count > there
    ]
