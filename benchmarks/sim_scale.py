"""How the simulator scales: many one-pod Jobs, default stack, no QPS limits, the whole study directory written.

    python benchmarks/sim_scale.py                     10,000 and 100,000 Jobs on 1,000 nodes
    python benchmarks/sim_scale.py 1000000 10000       so many Jobs on so many nodes

Each size runs in a process of its own on one core; one line of figures. The target for 100,000 is 15 s and 1.5 GiB, and at most
twelve times the time of 10,000; for a million on 10,000 nodes 60 s of processor time and 2 GiB.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCENARIO = """
name: sim-scale
params: {jobs: 1000, nodes: 10}
nodes:
  - {name: fake, count: "${nodes}", capacity: {cpu: 32, memory: 256Gi, pods: 110}, pods: {create: 1s, start: 10s}}
stacks: [default]
settings: {qps: unlimited}
steps:
  - submit: {name: short, count: "${jobs}", duration: 10s, requests: {cpu: 5m, memory: 50M}}
  - wait: {for: completed, timeout: 24h}
expect: ["completed == submitted"]
"""


def measure(jobs: int, nodes: int) -> dict[str, float]:
    """One run through the command line, pinned to one core."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "scale.yaml"
        scenario.write_text(SCENARIO)
        out = Path(folder) / "out"
        command = [sys.executable, "-m", "seatrial", "run", str(scenario), "-o", str(out), "--jobs", "1",
                   "--set", f"jobs={jobs}", "--set", f"nodes={nodes}"]  # fmt: skip
        core = min(os.sched_getaffinity(0))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        before = used.ru_utime + used.ru_stime
        began = time.monotonic()
        done = subprocess.run(
            command, capture_output=True, check=False, preexec_fn=lambda: os.sched_setaffinity(0, {core})
        )
        took = time.monotonic() - began
        if done.returncode:
            sys.exit(f"sim_scale: the run failed:\n{done.stderr.decode()}")
        trial = json.loads(next((out / "trials").glob("*/trial.json")).read_text())
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = used.ru_maxrss * 1024
    return {
        "seconds": took,
        "processor": used.ru_utime + used.ru_stime - before,
        "simulated": trial["run"]["wall_s"],
        "GiB": peak / 2**30,
        "study_MB": size / 1e6,
    }


def main() -> None:
    asked = [int(argument) for argument in sys.argv[1:]]
    sizes = [(asked[0], asked[1] if len(asked) > 1 else 1000)] if asked else [(10_000, 1000), (100_000, 1000)]
    results = [measure(jobs, nodes) for jobs, nodes in sizes]
    parts = [
        f"{jobs:,} jobs on {nodes:,} nodes: {r['seconds']:.1f} s ({r['simulated']:.1f} s simulating, "
        f"{r['processor']:.1f} s of processor), "
        f"{r['GiB']:.2f} GiB, study {r['study_MB']:.0f} MB"
        for (jobs, nodes), r in zip(sizes, results, strict=True)
    ]
    if len(results) == 2:
        parts.append(f"ratio {results[1]['seconds'] / results[0]['seconds']:.1f}")
    print("sim_scale: " + "; ".join(parts))


if __name__ == "__main__":
    main()
