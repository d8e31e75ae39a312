"""How long the simulator takes with gangs: 10,000 gangs of 4 pods on 1,000 nodes, for each stack that it can simulate.

    python benchmarks/sim_stacks.py                    all stacks, one line each
    python benchmarks/sim_stacks.py gang fluence       only these
    python benchmarks/sim_stacks.py --tight gang       nodes for a tenth of the gangs at a time, so that the others wait

Everything runs through the command line, each stack in a process of its own on one core, without QPS limits, and the whole
study directory is written. Ends with status 1 if a stack takes more than 30 s or does not complete all gangs. There is room
for all pods at once, so that stacks without gangs cannot clog; with --tight those would.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seatrial import stacks

MOST_S = 30.0
ROOMY, TIGHT = 32, 2  # cores of a node; a pod takes half of one

SCENARIO = """
name: sim-stacks
params: {gangs: 100, nodes: 10, cores: 32}
nodes:
  - {name: fake, count: "${nodes}", capacity: {cpu: "${cores}", memory: 256Gi, pods: 110}, pods: {create: 1s, start: 10s}}
stacks: [default]
settings: {qps: unlimited}
steps:
  - submit: {name: gang, count: "${gangs}", pods: 4, gang: true, duration: 10s, requests: {cpu: 500m, memory: 50M}}
  - wait: {for: completed, timeout: 200h}
expect: ["completed == submitted"]
"""


def measure(stack: str, gangs: int, nodes: int, cores: int) -> tuple[bool, str]:
    """Whether it was good enough, and a line of figures."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "stacks.yaml"
        scenario.write_text(SCENARIO)
        out = Path(folder) / "out"
        command = [sys.executable, "-m", "seatrial", "run", str(scenario), "-o", str(out), "--jobs", "1", "--stack", stack,
                   "--set", f"gangs={gangs}", "--set", f"nodes={nodes}", "--set", f"cores={cores}"]  # fmt: skip
        core = min(os.sched_getaffinity(0))
        began, cpu = time.monotonic(), _cpu()
        done = subprocess.run(
            command, capture_output=True, check=False, preexec_fn=lambda: os.sched_setaffinity(0, {core})
        )
        took, cpu = time.monotonic() - began, _cpu() - cpu
        found = list((out / "trials").glob("*/trial.json"))
        if not found:
            return False, f"sim_stacks {stack}: the run failed: {done.stderr.decode().strip()[-400:]}"
        trial = json.loads(found[0].read_text())
    ran = trial["run"]["wall_s"]
    line = (
        f"sim_stacks {stack}: {gangs:,} gangs of 4 on {nodes:,} nodes with {cores} cores: {took:.1f} s "
        f"({ran:.1f} s simulating, {cpu:.1f} s of processor), {trial['end_ns'] / 1e9:.0f} s of virtual time, "
        f"{trial['outcome']}"
    )
    return done.returncode == 0 and took <= MOST_S, line


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("stacks", nargs="*")
    parser.add_argument("--gangs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--tight", action="store_true")
    options = parser.parse_args()
    wanted = options.stacks or [name for name in stacks.names() if "sim" in stacks.find(name).runs_on]
    good = True
    for name in wanted:
        fine, line = measure(name, options.gangs, options.nodes, TIGHT if options.tight else ROOMY)
        print(line, flush=True)
        good = good and fine
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
