"""How often `seatrial compare` is right: studies that differ in nothing but their seed, and a scheduler that is 20 % slower.

    .venv/bin/python benchmarks/compare_power.py [--pairs 100] [--slower 20]

Each pair is two studies of five repeats on the simulator, compared as `seatrial compare` does. A pair counts as different if any
tested figure is, after Holm's correction.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from seatrial import stacks
from seatrial.analysis.comparing import SideComparison, compare_sides
from seatrial.analysis.sides import sides_of
from seatrial.analysis.studies import Study
from seatrial.scenario.document import from_document
from seatrial.scenario.expansion import expand
from seatrial.study import study_directory
from seatrial.study.executors import run_all

REPEATS = 5
# Some of everything that varies from run to run: arrivals, sizes' order, start times, requests, and a queue that forms.
ALIKE: dict[str, object] = {
    "name": "alike",
    "nodes": [{"name": "node", "count": 8, "capacity": {"cpu": 4, "memory": "16Gi"}, "pods": {"start": "500ms..1500ms"}}],
    "stacks": ["default"],
    "steps": [
        {"submit": {"name": "work", "sizes": [1, 2, 3], "each": 20, "order": "shuffled", "rate": "4/s", "arrival": "poisson",
                    "duration": "3s", "requests": {"cpu": 1}}},
        {"wait": {"for": "completed", "timeout": "1h"}},
    ],
}  # fmt: skip
CYCLE_US = 2000  # as with some 800 nodes looked at; at 450 the Job controller is as slow as the scheduler


def bound_by_the_scheduler(cycle_us: int, pods: int) -> dict[str, object]:
    """No client is limited, and all pods are there at once: nothing but the scheduler's cycle is left to wait for."""
    return {
        "name": "bound",
        "nodes": [{"name": "node", "count": 100, "capacity": {"cpu": 200, "memory": "1Ti", "pods": 200}}],
        "stacks": ["default"],
        "settings": {"qps": "unlimited", "kube-scheduler": {"cycle": f"{cycle_us}us"}},
        "steps": [
            {"submit": {"name": "work", "count": pods // 1000, "pods": 1000, "duration": "1s", "requests": {"cpu": 1}}},
            {"wait": {"for": "completed", "timeout": "1h"}},
        ],
    }


class Silent:
    def started(self, trial: str) -> None: ...
    def update(self, trial: str, submitted: int, completed: int, of: int, virtual_s: float, requests: int) -> None: ...
    def ended(self, trial: str, outcome: str, figures: dict[str, object]) -> None: ...


def study(out: Path, document: dict[str, object], seed: int, repeats: int = REPEATS) -> Path:
    """A study as `seatrial run` leaves it, without tables and pictures."""
    scenario = from_document(document, str(document["name"]))
    trials = expand(scenario, on="sim", stacks=stacks.settings(), repeat=repeats, seed=seed)
    study_directory.make_empty(out, force=False)
    study_directory.write_study(
        out, {**study_directory.study_document(scenario.name, scenario.document, trials, {}), "run": {}}
    )
    for outcome in run_all(trials, out, Silent(), jobs=1):
        assert outcome.outcome == "completed", outcome
    return out


def compared(first: dict[str, object], second: dict[str, object], seed: int) -> SideComparison:
    """The second scenario's study against the first's; other seeds, so nothing but the scenarios can make them alike."""
    folder = Path(tempfile.mkdtemp(prefix="seatrial-power-"))
    try:
        a, b = study(folder / "a", first, 2 * seed), study(folder / "b", second, 2 * seed + 1)
        return compare_sides(
            sides_of(Study.open(a), "a")["default"], sides_of(Study.open(b), "b")["default"], anyway=True
        )
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)


def differs(seed: int) -> bool:
    """Whether two studies of the same are said to differ."""
    return compared(ALIKE, ALIKE, seed).different


def slower(seed: int, pods: int = 10_000) -> bool:
    """Whether a cycle that is 20 % longer is said to be slower in total time."""
    slow = bound_by_the_scheduler(CYCLE_US * 12 // 10, pods)
    found = compared(bound_by_the_scheduler(CYCLE_US, pods), slow, seed).tested
    return any(one.verdict == "slower" for one in found if one.name == "total_s")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=100, help="pairs of studies that are alike")
    options.add_argument("--slower", type=int, default=20, help="pairs of which one scheduler is 20 %% slower")
    given = options.parse_args()
    began = time.monotonic()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        wrong = sum(pool.map(differs, range(1, given.pairs + 1)))
        right = sum(pool.map(slower, range(1, given.slower + 1)))
    took = time.monotonic() - began
    print(
        f"compare_power: {wrong} of {given.pairs} pairs alike called different, {right} of {given.slower} slower ones called "
        f"slower, {took:.0f} s"
    )


if __name__ == "__main__":
    main()
