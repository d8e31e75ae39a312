"""Whether the simulator puts set-ups in the same order as a real control plane: rejected requests, and the heartbeats.

    python benchmarks/fairness_order.py                                     priority-and-fairness-starved, one repeat of each
    python benchmarks/fairness_order.py priority-and-fairness-tuned 3       another scenario, so many repeats

Runs the scenario on `sim` and on `local`; a line for every figure with the means of its set-ups on both, and whether their order is
the same. Set-ups within a tenth of each other are level; level on one and not on the other is not the same order.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from statistics import fmean

from seatrial.analysis.trial_figures import asked_of, figures
from seatrial.record.trial_record import TrialRecord

WANTED = ("rejected", "rejected(nodes)", "heartbeat_gap_s")
LEVEL = 0.1


def measured(scenario: str, repeats: int, on: str) -> dict[str, dict[str, float]]:
    """Figure → set-up → mean over the repeats."""
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
            "--repeat",
            str(repeats),
            "-o",
            str(out),
        ]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        found: dict[str, dict[str, list[float]]] = {figure: {} for figure in WANTED}
        for trial in sorted((out / "trials").iterdir()):
            setup = json.loads((trial / "trial.json").read_text())["setup"]
            values = {**figures(trial), **asked_of(TrialRecord.open(trial), [name for name in WANTED if "(" in name])}
            for figure in WANTED:
                found[figure].setdefault(setup, []).append(float(values.get(figure) or 0.0))
    return {figure: {setup: fmean(each) for setup, each in setups.items()} for figure, setups in found.items()}


def order(first: float, second: float) -> int:
    """−1, 0 or 1; 0 if they are level."""
    if abs(first - second) <= LEVEL * max(first, second):
        return 0
    return 1 if first > second else -1


def main() -> None:
    scenario = sys.argv[1] if len(sys.argv) > 1 else "priority-and-fairness-starved"
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    sim, local = (measured(scenario, repeats, on) for on in ("sim", "local"))
    wrong = 0
    for figure in WANTED:
        parts = [f"{setup} {sim[figure][setup]:.5g} / {local[figure][setup]:.5g}" for setup in sim[figure]]
        opposed = [
            f"{one} and {two}"
            for one, two in combinations(sim[figure], 2)
            if order(sim[figure][one], sim[figure][two]) != order(local[figure][one], local[figure][two])
        ]
        wrong += len(opposed)
        verdict = f"NOT the same order for {', '.join(opposed)}" if opposed else "same order"
        print(f"fairness_order: {scenario}: {figure}, sim / local: {'; '.join(parts)}: {verdict}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
