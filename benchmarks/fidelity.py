"""How far the simulator is from real components, and the tables of nine stacks: the same scenarios on `sim` and on `local`.

    python benchmarks/fidelity.py                                 everything, five repeats: about five hours
    python benchmarks/fidelity.py --side-by-side 4                the same in two hours, four control planes at a time
    python benchmarks/fidelity.py --only jobs,mix                 two of the scenarios
    python benchmarks/fidelity.py --only mix,mcad --repeat 1      one stack in one of them: two minutes
    python benchmarks/fidelity.py --print                         the tables of what is there

`jobs` is many-small-jobs with 20 jobs, `gangs` gang-ensemble with 3 gangs of each size that run 5 to 7 s (with 5 s for all,
milliseconds would decide whether a scheduler that looks every second comes just too early, each time), `gpus` gpu-requests, whose
last two workloads fit nowhere, `teams` two-teams with a minute of 3 s; `mix` is in no shipped scenario: GPU gangs and small single
pods that arrive at random on two kinds of nodes (benchmarks/gpu-mix-short.yaml).

Prints one row per set-up with total time and mean turnaround on both clusters, then one table per scenario with what `local`
measured and the command that makes it. A repeat has the same load on both clusters, so differences are taken repeat by repeat;
their 95 % interval is Student's, of the logarithms. The command can be interrupted: ended trials are kept, and the same command
continues. Exit status 1 if a set-up is off by more than 10 %, or ends otherwise on `sim` than on `local`.
"""

from __future__ import annotations

import math
import shlex
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import polars as pl  # noqa: E402

from benchmarks.study_cells import STACKS, Case, Cell, chosen, options, run_all  # noqa: E402

AIM, MOST = 0.04, 0.10
# Student's t, 97.5 %, by degrees of freedom
STUDENT = {
    1: 12.71,
    2: 4.30,
    3: 3.18,
    4: 2.78,
    5: 2.57,
    6: 2.45,
    7: 2.36,
    8: 2.31,
    9: 2.26,
    14: 2.14,
    19: 2.09,
    29: 2.05,
}
# Those of the longest trials first, so that none of them is left at the end.
CASES = {
    "gangs": Case("gang-ensemble", ("--set", "iters=3", "--set", "duration=5s..7s"), "4m"),
    "teams": Case("two-teams", ("--set", "minute=3"), "5m"),
    "mix": Case(str(HERE / "gpu-mix-short.yaml"), (), "5m"),
    "gpus": Case("gpu-requests", ("--set", "patience=20s"), "5m"),
    "jobs": Case("many-small-jobs", ("--set", "jobs=20"), "5m"),
}
# Set-ups that a scenario has of its own for a stack; other stacks are run as shipped.
SETUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "gangs": {
        "coscheduling": ("coscheduling-10s", "coscheduling-60s"),
        "kueue": ("kueue-quota", "kueue-ready", "kueue-tas"),
    },
    "teams": {"kueue": ("no-reclaim", "reclaim", "fair-no-reclaim", "fair")},
}
# What a table of one scenario shows of a set-up: the mean of the repeats that have the figure.
FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "total": ("total_s", lambda value: f"{value:,.1f} s"),
    "mean turnaround": ("mean_s", lambda value: f"{value:,.1f} s"),
    "bound per second": ("bound_per_s", lambda value: f"{value:,.1f}"),
    "time to bind, p99": ("schedule_p99_s", lambda value: f"{value:,.2f} s"),
    "core-s held idle": ("held_idle_s", lambda value: f"{value:,.1f}"),
}
HEAD = (
    "| scenario | set-up | sim: total, mean turnaround | local: total, mean turnaround | off by: total | turnaround | load |\n"
    "|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Off:
    """By how much sim is longer than local, and the 95 % interval; without one if there is one repeat."""

    by: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.by:+.1%}"
        return f"{self.by:+.1%} ({self.low:+.0%} to {self.high:+.0%})"


def off(pairs: Sequence[tuple[float, float]]) -> Off:
    """Of pairs (sim, local), one per repeat."""
    logarithms = [math.log(sim / local) for sim, local in pairs]
    middle = statistics.mean(logarithms)
    if len(pairs) < 2:
        return Off(math.expm1(middle))
    t = STUDENT[max(free for free in STUDENT if free <= len(pairs) - 1)]
    half = t * statistics.stdev(logarithms) / math.sqrt(len(pairs))
    return Off(math.expm1(middle), math.expm1(middle - half), math.expm1(middle + half))


def of_repeats(table: pl.DataFrame, setup: str, figure: str) -> dict[int, float]:
    """The figure by repeat, of trials that have it. The mean turnaround counts as far as all that can complete did."""
    rows = table.filter((pl.col("setup") == setup) & pl.col(figure).is_not_null())
    return {int(row["repeat"]): float(row[figure]) for row in rows.iter_rows(named=True)}


def ends(table: pl.DataFrame, setup: str) -> Counter[str]:
    rows = table.filter(pl.col("setup") == setup).iter_rows(named=True)
    return Counter(f"{row['outcome']} with {row['completed']} of {row['submitted']}" for row in rows)


@dataclass(frozen=True)
class Row:
    """A set-up in a scenario on both clusters."""

    text: str
    offs: tuple[Off, ...]
    same_end: bool


def compared(name: str, setup: str, sim: pl.DataFrame, local: pl.DataFrame, load: object) -> Row | None:
    """None if nothing of it is there on one of them."""
    how = [ends(table, setup) for table in (sim, local)]
    if not all(how):
        return None
    completed = [
        {
            r["repeat"]
            for r in table.filter(pl.col("setup") == setup).iter_rows(named=True)
            if r["outcome"] == "completed"
        }
        for table in (sim, local)
    ]
    alike = how[0].keys() == how[1].keys() and len(how[0]) == 1
    offs, cells = [], []
    for figure in ("total_s", "mean_s"):
        both = [of_repeats(table, setup, figure) for table in (sim, local)]
        repeats = sorted(
            both[0].keys() & both[1].keys() & (completed[0] & completed[1] if not alike else both[0].keys())
        )
        cells.append([statistics.mean(one[r] for r in repeats) if repeats else None for one in both])
        offs.append(off([(both[0][r], both[1][r]) for r in repeats]) if repeats else None)
    shown = []
    for side in (0, 1):
        times = ", ".join("–" if cell[side] is None else f"{cell[side]:.1f} s" for cell in cells)
        ended = ", ".join(f"{count} {end}" for end, count in sorted(how[side].items()))
        whole = all(end.startswith("completed") for end in how[side])
        shown.append(f"{times} ({sum(how[side].values())})" if whole else f"{times}; {ended}")
    same = bool(completed[0]) == bool(completed[1])
    by = [str(one) if one else ("both did not complete" if same else "ended otherwise") for one in offs]
    text = f"| {name} | {setup} | {shown[0]} | {shown[1]} | {by[0]} | {by[1]} | {load} |"
    return Row(text, tuple(one for one in offs if one), same)


def rows(cells: Sequence[tuple[Cell, Cell]]) -> list[Row]:
    found = []
    for sim, local in cells:
        tables = [cell.table() for cell in (sim, local)]
        if tables[0] is None or tables[1] is None:
            continue
        note = local.note()
        for setup in tables[1]["setup"].unique(maintain_order=True):
            row = compared(local.name, setup, tables[0], tables[1], note["load"] if note else "cut off")
            found += [row] if row else []
    return found


def report(found: Sequence[Row]) -> bool:
    """Prints the rows and how far they are off in all; whether all is within MOST."""
    print(f"\n{HEAD}")
    for row in found:
        print(row.text)
    errors = [abs(one.by) for row in found for one in row.offs]
    if errors:
        above = sum(error > MOST for error in errors)
        print(
            f"\nMean error {statistics.mean(errors):.1%} (aim {AIM:.0%}), the largest {max(errors):.1%}; {above} above {MOST:.0%}."
        )
    return all(error <= MOST for error in errors) and all(row.same_end for row in found)


def line(setup: str, trials: pl.DataFrame) -> str:
    """A set-up's row in the table of a scenario."""

    def mean(figure: str, shown: Callable[[float], str]) -> str:
        values = [float(value) for value in trials[figure].drop_nulls()] if figure in trials.columns else []
        return shown(statistics.mean(values)) if values else ""

    stack = str(trials["stack"][0])
    clogs = Counter(
        f"{row['outcome']}{': ' + row['clog'] if row['clog'] else ''}" for row in trials.iter_rows(named=True)
    )
    ended = ", ".join(f"{count} {how}" for how, count in sorted(clogs.items()))
    done = ", ".join(str(value) for value in trials["completed"].unique().sort())
    cells = [
        setup if setup == stack else f"{stack} ({setup})",
        ended,
        f"{done} of {trials['submitted'][0]}",
        *(mean(*column) for column in FIGURES.values()),
        f"{trials['valid'].cast(pl.String).str.to_lowercase().is_in(['true', 'yes']).sum()} of {trials.height}",
    ]
    return f"| {' | '.join(cells)} |"


def tables(cells: Sequence[Cell]) -> str:
    """One table per scenario, with the command that makes it; a stack that cannot run says why in its row."""
    text: list[str] = []
    for name in dict.fromkeys(cell.name for cell in cells):
        of_table = [cell for cell in cells if cell.name == name]
        lines: list[str] = []
        for cell in of_table:
            table = cell.table()
            if table is not None and table.height:
                setups = table["setup"].unique(maintain_order=True)
                lines += [line(setup, table.filter(pl.col("setup") == setup)) for setup in setups]
            elif why := cell.problem():
                lines.append(f"| {cell.setup or cell.stack} | {why} |{' |' * (len(FIGURES) + 2)}")
        commands = []
        for setup in (False, True):
            names: list[Any] = [cell.setup or cell.stack for cell in of_table if bool(cell.setup) is setup]
            case, on, repeat = CASES[name], of_table[0].on, of_table[0].repeat
            which = ["--setup" if setup else "--stack", ",".join(names)]
            asked = ["--on", on, *which, *case.arguments, "--repeat", str(repeat), "--limit", case.limit]
            scenario = case.scenario.replace(f"{HERE.parent}/", "")
            commands += [shlex.join(["seatrial", "run", scenario, *asked])] if names else []
        head = ("set-up", "ended", "completed", *FIGURES, "valid")
        text += [f"### {Path(CASES[name].scenario).stem}", "", "```", *commands, "```", ""]
        text += [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        text += [*lines, ""]
    return "\n".join(text)


def main() -> int:
    parser = options(__doc__ or "", "out/fidelity")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--print", action="store_true", help="run nothing")
    asked = parser.parse_args()
    scenarios, stacks = chosen(asked.only, list(CASES))
    cells = []
    for name in scenarios:
        for stack in stacks or STACKS:
            for setup in SETUPS.get(name, {}).get(stack, ("",)):
                both = [Cell(name, CASES[name], stack, on, asked.repeat, asked.keep, setup) for on in ("sim", "local")]
                cells.append((both[0], both[1]))
    try:
        if not asked.print:
            for _ in run_all([cell for both in cells for cell in both], asked.side_by_side):
                pass
    except KeyboardInterrupt:
        print("cut off; the same command goes on from here", file=sys.stderr)
    fine = report(rows(cells))
    print(f"\n{tables([local for _, local in cells])}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
