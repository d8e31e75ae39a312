"""Queues and classes of every set-up as lines: means over its repeats, for the terminal and the page.

Trials that are not to be trusted are left out if a set-up has others, as in the summary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from seatrial.analysis.cells import labels
from seatrial.analysis.studies import Study
from seatrial.analysis.team_tables import figures_by, team_rows
from seatrial.model.figures import CLASS, COUNT, FIGURES, GROUPS, QUEUE, RATIO, TIME
from seatrial.report.durations import clock
from seatrial.report.grouping import spread
from seatrial.report.text_tables import Column, decimals_for, print_columns, print_line, three_digits, width

SHOWN = 12  # members of a set-up on a terminal; the tables have all
# Figures of a line: those of queues that classes lack are left out for classes, and so is what nobody has.
ON_TERMINAL = (
    "wait_p50_s", "wait_p99_s", "wait_max_s", "p50_s", "evicted", "work_lost_s", "work_lost_gpu_s", "used_s", "used_gpu_s",
    "borrowed_s", "lent_s", "borrowed_gpu_s", "lent_gpu_s", "share", "fair_share", "share_error",
)  # fmt: skip
_HEADINGS = {
    "wait_p50_s": "wait\np50", "wait_p99_s": "wait\np99", "wait_max_s": "wait\nmax", "p50_s": "turnaround\np50",
    "used_s": "used\ncore-s", "used_gpu_s": "used\nGPU-s", "borrowed_s": "borrowed\ncore-s", "lent_s": "lent\ncore-s",
    "borrowed_gpu_s": "borrowed\nGPU-s", "lent_gpu_s": "lent\nGPU-s", "share": "\nshare", "fair_share": "fair\nshare",
    "share_error": "share\nerror", "evicted": "\nevicted", "work_lost_s": "work lost\ncore-s",
    "work_lost_gpu_s": "work lost\nGPU-s",
}  # fmt: skip
# What a narrow terminal leaves out, the first one first.
_LEFT_OUT = ("fair_share", "p50_s", "wait_max_s", "used_s", "used_gpu_s", "share", "lent_s", "lent_gpu_s", "wait_p50_s")


@dataclass(frozen=True)
class TeamLine:
    """A queue or a class of one set-up with one set of params."""

    setup: str
    params: str  # those that vary, in words
    member: str
    means: Mapping[str, float | None]  # figure → mean over repeats; None if no repeat has it

    @property
    def done(self) -> bool:
        """Everything that was submitted completed."""
        return self.means["completed"] == self.means["submitted"]


def team_lines(study: Study, group: str) -> list[TeamLine]:
    """In the order of the table; empty if the study has no queues, or no classes to tell apart."""
    trusted = {trial.name for trial in study.trusted}
    params = labels(study.trials)
    found: dict[tuple[str, str, str], list[Mapping[str, object]]] = {}
    for row in team_rows(study, group):
        if row["trial"] in trusted:
            found.setdefault((row["setup"], params[row["trial"]], row[group]), []).append(row)
    lines = []
    for (setup, cell, member), rows in found.items():
        means: dict[str, float | None] = {}
        for name in figures_by(group):
            mean = spread([float(value) for row in rows if isinstance(value := row.get(name), int | float)])
            means[name] = None if mean is None else mean.mean
        lines.append(TeamLine(setup, cell, member, means))
    setups = list(dict.fromkeys(trial.setup for trial in study.trials))
    cells = list(dict.fromkeys(line.params for line in lines))
    return sorted(lines, key=lambda line: (cells.index(line.params), setups.index(line.setup)))


def shown_lines(lines: Sequence[TeamLine], most: int = SHOWN) -> tuple[list[TeamLine], int]:
    """Of each set-up at most so many, those with the longest waits, in their order; and how many are left out."""
    groups: dict[tuple[str, str], list[TeamLine]] = {}
    for line in lines:
        groups.setdefault((line.setup, line.params), []).append(line)
    kept: list[TeamLine] = []
    for mine in groups.values():
        worst = sorted(mine, key=lambda line: -(line.means["wait_p99_s"] or 0.0))[:most]
        kept += [line for line in mine if line in worst] if len(mine) > most else mine
    return kept, len(lines) - len(kept)


def shown_figures(lines: Sequence[TeamLine]) -> list[str]:
    """The figures that some line has, other than 0; waits always."""
    return [name for name in ON_TERMINAL if any(line.means.get(name) for line in lines) or name.startswith("wait")]


def heading(name: str) -> str:
    """The heading of a figure in the tables of teams, on two lines."""
    return _HEADINGS[name]


def cells_of(name: str, values: Sequence[float | None], empty: str = "-") -> list[str]:
    """A figure as people read it."""
    figure = FIGURES[name]
    decimals = decimals_for([value for value in values if value])
    found = []
    for value in values:
        if value is None:
            found.append(empty)
        elif figure.kind == RATIO:
            found.append(f"{value:.0%}" if name != "share_error" else f"{value:.3f}")
        elif figure.kind == TIME and figure.unit == "s":
            found.append(clock(value, decimals))
        else:
            whole = figure.kind == COUNT and value == int(value)
            found.append(f"{value:,.0f}" if whole else three_digits(value))
    return found


def print_teams(console: Console, study: Study) -> None:
    """A table per queue and one per class, where the study has them. A wait p99 or max over repeats is a mean of theirs."""
    over = ", means over repeats" if len(study.trusted) > len({trial.cell for trial in study.trusted}) else ""
    for group in (QUEUE, CLASS):
        lines, left_out = shown_lines(team_lines(study, group))
        if not lines:
            continue
        print_line(console, "")
        print_line(
            console, f"by {group}{over}: a wait ends when the workload first has its place; times in seconds", "bold"
        )
        columns = _fitting(console, _columns(lines, group))
        print_columns(console, columns, [line.done for line in lines])
        if left_out:
            print_line(
                console, f"and {left_out} more {GROUPS[group]}, with shorter waits: see {GROUPS[group]}.csv", "dim"
            )


def _columns(lines: Sequence[TeamLine], group: str) -> list[Column]:
    columns = (
        [Column("\nset-up", [line.setup for line in lines], left=True)]
        if len({line.setup for line in lines}) > 1
        else []
    )
    if any(line.params for line in lines):
        columns.append(Column("\nwith", [line.params for line in lines], left=True))
    columns.append(Column(f"\n{group}", [line.member for line in lines], left=True))
    done = [f"{line.means['completed'] or 0:,.0f} of {line.means['submitted'] or 0:,.0f}" for line in lines]
    columns.append(Column("\ndone", done))
    return columns + [
        Column(heading(name), cells_of(name, [line.means.get(name) for line in lines])) for name in shown_figures(lines)
    ]


def _fitting(console: Console, columns: list[Column]) -> list[Column]:
    for name in _LEFT_OUT:
        if not console.is_terminal or width(console, columns, 1) <= console.width:
            break
        columns = [column for column in columns if column.heading != heading(name)]
    return columns
