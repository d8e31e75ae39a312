"""How far the simulator is from real components: the same scenarios on `sim` and on `local`, stack by stack.

    python benchmarks/fidelity.py                            everything: about 40 minutes
    python benchmarks/fidelity.py --scenario jobs            many-small-jobs with 20 jobs only
    python benchmarks/fidelity.py --scenario gangs --setup gang --repeat 1
    python benchmarks/fidelity.py --scenario gangs --stack yunikorn,kai

`jobs` is many-small-jobs with 20 jobs, one set-up per stack; `gangs` is gang-ensemble with 3 gangs of each size that run 5 s;
`gpus` is gpu-requests, whose last two workloads fit nowhere; `teams` is two-teams with a minute of 3 s. `--stack` takes other
stacks than those that a scenario has. All compare the mean turnaround and the total time, the mean over the repeats. A line per
set-up, as Markdown; the figures of the day stand in docs/fidelity.md. Ends with status 1 if a set-up that completes on both is
off by more than 20 %, or ends otherwise there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

MOST = 0.20
STACKS = ("default", "coscheduling", "kueue", "mcad", "gang")
SCENARIOS = {
    "jobs": ("many-small-jobs", ("--stack", ",".join(STACKS)), ("--set", "jobs=20")),
    "gangs": ("gang-ensemble", (), ("--set", "iters=3", "--set", "duration=5s")),
    "gpus": ("gpu-requests", (), ("--set", "patience=30s")),
    "teams": ("two-teams", (), ("--set", "minute=3")),
}
HEAD = "| scenario | set-up | sim: total, mean turnaround | local: total, mean turnaround | off by |\n|---|---|---|---|---|"


def figures(scenario: str, which: tuple[str, ...], more: tuple[str, ...], on: str, repeat: int) -> pl.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = [
            sys.executable,
            "-m",
            "seatrial",
            "run",
            scenario,
            "--on",
            on,
            *which,
            *more,
            "--repeat",
            str(repeat),
        ]
        subprocess.run([*command, "-o", str(out)], stdout=subprocess.DEVNULL, check=False)
        return pl.read_csv(out / "summary.csv")


def of_setup(table: pl.DataFrame, setup: str) -> tuple[float | None, float | None, str]:
    """Total and mean turnaround, means over the repeats that completed; and how the repeats ended."""
    rows = table.filter(pl.col("setup") == setup)
    ended = ", ".join(
        f"{count} {outcome}" for outcome, count in rows["outcome"].value_counts().sort("outcome").iter_rows()
    )
    whole = rows.filter(pl.col("outcome") == "completed")
    if not whole.height:
        return None, None, f"{ended} with {', '.join(map(str, rows['completed']))} of {rows['submitted'][0]}"
    return whole["total_s"].cast(pl.Float64).mean(), whole["mean_s"].cast(pl.Float64).mean(), ended  # type: ignore[return-value]


def compare(name: str, setup: str, sim: pl.DataFrame, local: pl.DataFrame) -> tuple[bool, str]:
    (sim_total, sim_mean, sim_ended), (total, mean, ended) = of_setup(sim, setup), of_setup(local, setup)
    shown = [
        f"{a:.1f} s, {b:.1f} s" if a and b else how
        for a, b, how in ((sim_total, sim_mean, sim_ended), (total, mean, ended))
    ]
    if not (sim_total and sim_mean and total and mean):
        same = bool(sim_total) == bool(total)
        return (
            same,
            f"| {name} | {setup} | {shown[0]} | {shown[1]} | {'both did not complete' if same else 'ended differently'} |",
        )
    off_total, off_mean = sim_total / total - 1, sim_mean / mean - 1
    good = abs(off_total) <= MOST and abs(off_mean) <= MOST
    return good, f"| {name} | {setup} | {shown[0]} | {shown[1]} | {off_total:+.0%}, {off_mean:+.0%} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--scenario", choices=SCENARIOS, action="append")
    parser.add_argument("--setup", help="only these set-ups of the scenario, separated by commas")
    parser.add_argument("--stack", help="these stacks instead of the scenario's set-ups, separated by commas")
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    good = True
    print(HEAD, flush=True)
    for name in asked.scenario or SCENARIOS:
        scenario, which, more = SCENARIOS[name]
        if asked.setup:
            which = ("--stack" if name == "jobs" else "--setup", asked.setup)
        if asked.stack:
            which = ("--stack", asked.stack)
        local = figures(scenario, which, more, "local", asked.repeat)
        sim = figures(scenario, which, more, "sim", asked.repeat)
        for setup in local["setup"].unique(maintain_order=True):
            fine, line = compare(name, setup, sim, local)
            good &= fine
            print(line, flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
