"""Four shipped scenarios with every stack, on `local` and on `sim`: the tables of README and docs/stacks, with their commands.

    python benchmarks/stacks_table.py                                    everything: about an hour on two cores
    python benchmarks/stacks_table.py --on sim                           under a minute
    python benchmarks/stacks_table.py --only volcano,gang-ensemble       one stack in one scenario

One study per scenario, stack and cluster; a trial is ended after three minutes. It can be cut off at any time: what was measured is
kept, the same command goes on from there, and `tables.md` in the folder of `--keep` has what is there so far.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.study_cells import Case, Cell, chosen, options, run_all  # noqa: E402

CASES = {
    "many-small-jobs": Case("many-small-jobs", ("--set", "jobs=20")),
    "gang-ensemble": Case("gang-ensemble", ("--set", "iters=2", "--set", "duration=5s")),
    "gpu-requests": Case("gpu-requests", ("--set", "patience=20s")),
    "two-teams": Case("two-teams", ("--set", "minute=3")),
}
COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "set-up": lambda row: row["setup"] if row["setup"] == row["stack"] else f"{row['stack']} ({row['setup']})",
    "ended": lambda row: f"{row['outcome']}: {row['clog']}" if row["clog"] else row["outcome"],
    "completed": lambda row: f"{row['completed']} of {row['submitted']}",
    "total": lambda row: _seconds(row["total_s"]),
    "mean turnaround": lambda row: _seconds(row["mean_s"]),
    "bound per second": lambda row: _number(row["bound_per_s"]),
    "time to bind, p99": lambda row: _seconds(row["schedule_p99_s"], 2),
    "nodes held idle": lambda row: f"{_number(row['held_idle_s'])} core-s",
    "valid": lambda row: "yes" if row["valid"] else "no",
}


def _number(value: Any) -> str:
    return "" if value is None else f"{float(value):,.1f}"


def _seconds(value: Any, places: int = 1) -> str:
    return "" if value is None else f"{float(value):,.{places}f} s"


def rows(cells: Sequence[Cell]) -> Iterator[str]:
    """A line per set-up; what could not be run says why."""
    for cell in cells:
        summary = cell.table()
        if summary is not None and summary.height:
            for row in summary.iter_rows(named=True):
                yield f"| {' | '.join(shown(row) for shown in COLUMNS.values())} |"
        elif said := cell.problem():
            yield f"| {cell.stack} | {said} {'| ' * (len(COLUMNS) - 2)}|"


def tables(cells: Sequence[Cell]) -> str:
    """All that is there so far, a table per scenario and cluster, each with the command that makes it."""
    text = []
    for on, name in dict.fromkeys((cell.on, cell.name) for cell in cells):
        of_table = [cell for cell in cells if (cell.on, cell.name) == (on, name)]
        lines = list(rows(of_table))
        if not lines:
            continue
        stacks, case = ",".join(cell.stack for cell in of_table), CASES[name]
        command = ["seatrial", "run", name, "--on", on, "--stack", stacks, *case.arguments, "--limit", case.limit]
        loads = [float(note["load"]) for cell in of_table if (note := cell.note())]  # type: ignore[arg-type]
        text += [f"## {name} on {on}", "", "```", shlex.join(command), "```", ""]
        text += [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}", *lines, ""]
        if loads and on != "sim":
            text += [f"Load average of the machine: {min(loads):.1f} to {max(loads):.1f}.", ""]
    return "\n".join(text)


def main() -> None:
    parser = options(__doc__ or "", "out/stacks")
    parser.add_argument("--on", default="sim,local", help="these clusters, separated by commas")
    asked = parser.parse_args()
    scenarios, stacks = chosen(asked.only, list(CASES))
    cells = [
        Cell(name, CASES[name], stack, on, 1, asked.keep)
        for on in asked.on.split(",")
        for name in scenarios
        for stack in stacks
    ]
    try:
        for _ in run_all(cells):
            (asked.keep / "tables.md").write_text(tables(cells))
    except KeyboardInterrupt:
        print("cut off; the same command goes on from here", file=sys.stderr)
    print(tables(cells))


if __name__ == "__main__":
    main()
