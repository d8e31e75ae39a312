"""How long the simulator takes with gangs: 10,000 gangs of 4 pods on 1,000 nodes, for each stack that it can simulate.

    python benchmarks/sim_stacks.py                    all stacks, one line each, and how they grow
    python benchmarks/sim_stacks.py gang fluence       only these
    python benchmarks/sim_stacks.py --tight gang       nodes for a tenth of the gangs at a time, so that the others wait
    python benchmarks/sim_stacks.py --growth           only how they grow
    python benchmarks/sim_stacks.py --fleet            1,500 gangs of 1 to 16 pods on 200 nodes of 8 GPUs, limits as shipped
    python benchmarks/sim_stacks.py --contention       100, 200 and 400 gangs of 8 on 20 nodes

Everything runs through the command line, each stack in a process of its own on one core, without QPS limits, and the whole
study directory is written. Ends with status 1 if a stack takes more than 30 s or does not complete all gangs. There is room
for all pods at once, so that stacks without gangs cannot clog; with --tight those would.

How they grow: the same scenario with 16 times as much work, most of which waits, once with Jobs of one pod and once with gangs
that contend. What is compared is processor time of the simulation per event. An event is whatever happens at a moment of virtual
time: an answer of the server, a delay that is over, a cycle of the scheduler. There are more of them per Job where more Jobs wait,
because a real scheduler tries them again too; each must cost the same. The target is a ratio of 1.3 at most.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from seatrial import stacks
from seatrial.clusters.sim_cluster import SimCluster
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.record.submissions import Submissions
from seatrial.scenario.document import read
from seatrial.scenario.expansion import expand
from seatrial.steps.choreography import run_steps

MOST_S, MOST_GROWTH = 30.0, 1.3
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


GROWING = """
name: growing
params: {{jobs: 10}}
nodes: [{{name: n, count: {nodes}, capacity: {{cpu: 8, memory: 64Gi}}, pods: {{start: 1s}}}}]
stacks: [default]
settings: {{qps: unlimited}}
steps:
  - submit: {{name: g, count: "${{jobs}}", {load}}}
  - wait: {{for: completed, timeout: 500h}}
"""
LOADS = {  # name → scenario, how many to begin with
    "one-pod Jobs on 80 cores": (GROWING.format(nodes=10, load="duration: 10s, requests: {cpu: 1}"), 1000),
    "gangs of 8 on 20 nodes": (
        GROWING.format(nodes=20, load="pods: 8, duration: 60s, requests: {cpu: 4}, gang: true"),
        25,
    ),
}
FLEET = """
name: fleet
params: {jobs: 1500}
nodes: [{name: gpu, count: 200, capacity: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}, pods: {start: 1s}}]
stacks: [default]
steps:
  - submit: {name: g, sizes: [1, 2, 4, 8, 16], each: "${jobs / 5}", order: shuffled, duration: 10m, gang: true,
             requests: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 4}}
  - wait: {for: completed, timeout: 500h}
"""
TIMES, ROUNDS = 16, 5


def growth(stack: str, load: str) -> tuple[bool, str]:
    """Whether an event costs about the same with 16 times as much, and a line of figures."""
    scenario, few = LOADS[load]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as apart:
        small = min(apart.starmap(simulate, [(stack, scenario, few)] * ROUNDS), key=_per_event)
        large = apart.apply(simulate, (stack, scenario, few * TIMES))
    if "clogged" in (small[2], large[2]):
        return True, f"sim_stacks {stack}: {load}: clogs, as it must without gangs"
    ratio = _per_event(large) / _per_event(small)
    parts = [
        f"{count:,}: {seconds:.2f} s, {events:,} events, {seconds / events * 1e6:.1f} µs each"
        for count, (seconds, events, _) in ((few, small), (few * TIMES, large))
    ]
    return ratio <= MOST_GROWTH, f"sim_stacks {stack}: {load}: {'; '.join(parts)}; per event {ratio:.2f} times"


def single(stack: str, what: str, scenario: str, jobs: int) -> tuple[bool, str]:
    """Whether a load completed, and a line of figures."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as apart:
        seconds, events, outcome = apart.apply(simulate, (stack, scenario, jobs))
    each = f"{events:,} events, {seconds / events * 1e6:.1f} µs each"
    return outcome == "completed", f"sim_stacks {stack}: {jobs:,} {what}: {seconds:.1f} s, {each}, {outcome}"


def _per_event(ran: tuple[float, int, str]) -> float:
    return ran[0] / ran[1]


def simulate(name: str, scenario: str, jobs: int) -> tuple[float, int, str]:
    """Processor time and events of the simulation alone, and how it ended."""
    stack = stacks.find(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "growing.yaml"
        path.write_text(scenario)
        known = {other: stacks.find(other).settings for other in stacks.names()}
        [trial] = expand(read(str(path)), on="sim", stacks=known, pick_setups=None, pick_stacks=[name],
                         sets={"jobs": [jobs]}, repeat=1, seed=None)  # fmt: skip
        ledger, submissions = Ledger(stack.stages, Segment(Path(folder))), Submissions(Path(folder))
        cluster = SimCluster(trial, stack, ledger, submissions)
        steps = run_steps(cluster, trial, lambda _expectation, _figures: None, stack.releases(trial.setup.settings))
        begun = time.process_time()
        ending = cluster.run(steps)
        took = time.process_time() - begun
        submissions.close()
        ledger.close()
    return took, cluster.events, ending.outcome


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


def _report(results: Iterable[tuple[bool, str]]) -> int:
    good = True
    for fine, line in results:
        print(line, flush=True)
        good = good and fine
    return 0 if good else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("stacks", nargs="*")
    parser.add_argument("--gangs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--tight", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--fleet", action="store_true")
    parser.add_argument("--contention", action="store_true")
    options = parser.parse_args()
    wanted = options.stacks or [name for name in stacks.names() if "sim" in stacks.find(name).runs_on]
    if options.fleet:
        return _report(single(name, "gangs on 200 nodes of 8 GPUs", FLEET, 1500) for name in wanted)
    if options.contention:
        load = "gangs of 8 on 20 nodes"
        return _report(single(name, load, LOADS[load][0], gangs) for name in wanted for gangs in (100, 200, 400))
    good = True
    for name in wanted if not options.growth else []:
        fine, line = measure(name, options.gangs, options.nodes, TIGHT if options.tight else ROOMY)
        print(line, flush=True)
        good = good and fine
    for name in wanted if not options.tight else []:
        for load in LOADS:
            fine, line = growth(name, load)
            print(line, flush=True)
            good = good and fine
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
