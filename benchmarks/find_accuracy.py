"""Whether `seatrial find` is within one node of an exhaustive sweep, in random cases, with at most 30 trials each.

    python benchmarks/find_accuracy.py [--cases 100] [--seed 1] [--jobs N]

A case is a random load (arrivals, sizes, durations), a random limit, and a range of nodes around what it may need. The sweep runs
every value of the range with the same five repeats as the search, whose mean decides. Simulated trials, so the sweep's trials are
those of the search: each is run once. Exit status 1 below 95 in 100.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from seatrial import stacks
from seatrial.analysis.repeat_judging import Row
from seatrial.analysis.search_answers import answer_of
from seatrial.analysis.search_evidence import Evidence
from seatrial.analysis.searched_studies import Question, row_of
from seatrial.analysis.searching import Search, SearchLimits, next_probes
from seatrial.model.plan import Scalar
from seatrial.record.trial_record import TrialRecord
from seatrial.scenario.document import Scenario, from_text
from seatrial.scenario.expansion import expand
from seatrial.scenario.value_ranges import parse_variation
from seatrial.study.trials import run_trial

BUDGET, REPEATS = 30, 5
WANTED = 0.95
SCENARIO = """
name: case-{number}
nodes: [{{name: gpu, count: 1, capacity: {{cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}}, pods: {{start: 2s..8s}}}}]
stacks: [{stack}]
steps:
  - submit:
      {{name: train, class: train, count: {jobs}, pods: {{choice: {{1: {single}, 2: {rest}}}}},
       duration: {{lognormal: {{median: {median}s, sigma: {sigma}}}}}, requests: {{cpu: 4, nvidia.com/gpu: {gpus}}},
       rate: {rate}/m, arrival: poisson}}
  - wait: {{for: completed, timeout: 90d}}
"""


@dataclass(frozen=True)
class RandomCase:
    """A scenario, the range of nodes, and the limit of the wait."""

    text: str
    low: int
    high: int
    limit: int

    @property
    def question(self) -> Question:
        """What `seatrial find` would be asked."""
        vary = f"nodes.gpu.count={self.low}..{self.high}"
        limits = SearchLimits(BUDGET)
        return Question((vary,), (f"wait_p95_s <= {self.limit}",), REPEATS, limits)


@dataclass(frozen=True)
class CaseResult:
    """The answers, as nodes; None where the condition holds nowhere."""

    number: int
    found: int | None
    swept: int | None
    trials: int
    values: int

    @property
    def close(self) -> bool:
        """Within one node."""
        if self.found is None or self.swept is None:
            return self.found == self.swept
        return abs(self.found - self.swept) <= 1


def random_case(number: int, seed: int) -> RandomCase:
    """A load that keeps between three and sixteen nodes busy on average, and its queue needs more."""
    draw = random.Random(f"{seed}/{number}")
    single = draw.choice([0.5, 0.8, 0.95])
    gpus, median, sigma = draw.choice([1, 2, 4, 8]), draw.choice([300, 900, 2400]), draw.choice([0.3, 0.6, 1.0])
    busy = draw.uniform(3, 16)  # nodes that the load keeps busy
    mean = median * 2.718281828 ** (sigma**2 / 2) * (2 - single)
    rate = busy * 8 / gpus / mean * 60
    text = SCENARIO.format(
        number=number, stack=draw.choice(["default", "kueue", "coscheduling"]), jobs=draw.choice([40, 80, 120]),
        single=single, rest=round(1 - single, 2), median=median, sigma=sigma, gpus=gpus, rate=f"{rate:.4g}",
    )  # fmt: skip
    return RandomCase(text, 1, draw.choice([25, 35]), draw.choice([30, 120, 600, 1800]))


class _Trials:
    """The trials of one case: each is run once."""

    def __init__(self, case: RandomCase, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.scenario: Scenario = from_text(case.text, "case.yaml")
        self.question = case.question
        self.known: dict[tuple[int, int], Row] = {}

    def row(self, place: int, repeat: int) -> Row:
        """The figures of one trial."""
        if (place, repeat) not in self.known:
            self.known[place, repeat] = self._run(self.question.value(place), repeat)
        return self.known[place, repeat]

    def _run(self, value: Scalar, repeat: int) -> Row:
        one = parse_variation(f"nodes.gpu.count={value}")
        [*_, trial] = expand(
            self.scenario, on="sim", stacks=stacks.settings(), stages=stacks.stages(), repeat=repeat, vary=[one]
        )
        directory = self.folder / f"{value}-{repeat}"
        run_trial(trial, directory, lambda *_: None, alone=False)
        found = row_of(TrialRecord.open(directory), None, self.question.condition.asked)
        shutil.rmtree(directory)
        return found


def searched(trials: _Trials) -> tuple[int | None, int]:
    """The answer of the search, and its trials."""
    question, rows = trials.question, dict[int, dict[int, Row]]()
    while True:
        search = Search(question.scale, Evidence(question.condition, REPEATS, rows), question.limits)
        probes = next_probes(search)
        if not probes:
            answer = answer_of(search)
            return (None if answer.place is None else int(question.value(answer.place))), answer.trials
        for place, repeat in probes:
            rows.setdefault(place, {})[repeat] = trials.row(place, repeat)


def swept(trials: _Trials) -> int | None:
    """The smallest value that holds, of all values."""
    condition = trials.question.condition
    rows = {
        place: {repeat: trials.row(place, repeat) for repeat in range(1, REPEATS + 1)}
        for place in range(len(trials.question.variable.grid))
    }
    evidence = Evidence(condition, REPEATS, rows)
    return next((int(trials.question.value(place)) for place in sorted(rows) if evidence.decided(place)), None)


def compare(arguments: tuple[int, int]) -> CaseResult:
    """One case."""
    number, seed = arguments
    with tempfile.TemporaryDirectory() as folder:
        trials = _Trials(random_case(number, seed), Path(folder))
        found, count = searched(trials)
        return CaseResult(number, found, swept(trials), count, len(trials.question.variable.grid))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    began = time.monotonic()
    work = [(number, options.seed) for number in range(options.cases)]
    results: list[CaseResult] = []
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for result in pool.imap_unordered(compare, work):
            results.append(result)
            if len(results) % 10 == 0:
                print(f"{len(results)} cases, {sum(r.close for r in results)} close", file=sys.stderr, flush=True)
            if not result.close:
                print(f"case {result.number}: found {result.found}, swept {result.swept}", file=sys.stderr, flush=True)
    close = sum(result.close for result in results)
    counts = [result.trials for result in results]
    print(
        f"find_accuracy: within one node of an exhaustive sweep in {close} of {len(results)} random cases, exactly the same in "
        f"{sum(result.found == result.swept for result in results)}; {statistics.fmean(counts):.0f} trials on average, "
        f"{max(counts)} at most; the sweeps had {REPEATS * statistics.fmean(r.values for r in results):.0f}; "
        f"{time.monotonic() - began:.0f} s"
    )
    sys.exit(close < WANTED * len(results))


if __name__ == "__main__":
    main()
