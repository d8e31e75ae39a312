"""Whether the simulator's rules of quota, flavors, preemption and fair sharing decide as Kueue itself does.

    python benchmarks/kueue_decisions.py                        20,000 random cases; needs Go, builds for minutes the first time
    python benchmarks/kueue_decisions.py --cases 2000 --seed 7
    python benchmarks/kueue_decisions.py --sample tests/sim/kueue-go.json      cases and Kueue's answers, for tests without Go

Each case has cohorts, ClusterQueues, admitted workloads, and a pending workload in most queues. The Go program in
benchmarks/go/kueue-decisions decides it with Kueue's own packages (the version of our stack): for every pending workload its
flavors, mode and victims, and for one cycle of the scheduler who is admitted, who is evicted for whom and why, and who waits
where. Cases in which Kueue panics are left out: v0.16.1 does where fair sharing finds too few victims in a queue without a
cohort.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.sim.quota_cases import Case, differences, make_case  # noqa: E402

SAMPLED = 60  # half of them with evictions, half without


def built(folder: Path) -> Path:
    """The Go program."""
    source = shutil.copytree(HERE / "go" / "kueue-decisions", folder / "source")
    program = folder / "kueue-decisions"
    subprocess.run(["go", "build", "-o", program, "."], cwd=source, check=True)
    return program


def decided(program: Path, cases: list[Case]) -> list[dict[str, Any]]:
    """Kueue's answers."""
    lines = "\n".join(json.dumps(case) for case in cases)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def sample(cases: list[Case], answers: list[dict[str, Any]], file: Path) -> None:
    """Writes cases with their answers, one per line."""
    chosen: dict[bool, list[str]] = {True: [], False: []}
    for case, answer in zip(cases, answers, strict=True):
        if not answer.get("panic"):
            evicts = any(cycle["evicted"] for cycle in answer["cycles"])
            if len(chosen[evicts]) < SAMPLED // 2:
                chosen[evicts].append(json.dumps({"case": case, "answer": answer}, separators=(",", ":")))
    file.write_text("[\n" + ",\n".join([*chosen[True], *chosen[False]]) + "\n]\n")


def main() -> int:
    """Compares random cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", type=Path, help="the Go program, built before")
    parser.add_argument("--sample", type=Path, help="write a sample of cases and answers here")
    options = parser.parse_args()
    random = Random(options.seed)
    cases = [make_case(random) for _ in range(options.cases)]
    if not options.program and not shutil.which("go"):
        print("kueue_decisions: skipped, there is no Go")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        program = options.program.resolve() if options.program else built(Path(folder))
        began = time.perf_counter()
        answers = decided(program, cases)
        took = time.perf_counter() - began
    if options.sample:
        sample(cases, answers, options.sample)
    began, panics, several, evictions, different = time.perf_counter(), 0, 0, 0, 0
    for number, (case, answer) in enumerate(zip(cases, answers, strict=True)):
        if answer.get("panic"):
            panics += 1
            continue
        several += len(answer["cycles"]) > 1 or any(len(each) > 1 for each in answer["nominations"].values())
        evictions += len(answer["cycles"][0]["evicted"])
        found = differences(case, answer)
        different += bool(found)
        for line in found:
            print(f"case {number}: {line}")
    ours = time.perf_counter() - began
    print(
        f"kueue_decisions: {different} of {len(cases) - panics} cases differ; {evictions} evictions; {several} cases with several "
        f"answers; {panics} left out in which Kueue panics; Kueue {took:.0f} s, ours {ours:.0f} s"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
