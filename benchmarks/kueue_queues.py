"""What a fleet of a thousand ClusterQueues costs on the simulator, and how the cost grows with the number of workloads.

    python benchmarks/kueue_queues.py             1,000 queues in cohorts of five; 12,500, 25,000 and 50,000 workloads
    python benchmarks/kueue_queues.py 5000 500    so many workloads, cohorts of so many queues

Each size runs in a process of its own: processor time, and memory at its peak. The last line has the growth: 1.0 is linear.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
QUEUES, SIZES, PER_COHORT = 1000, (12_500, 25_000, 50_000), 5


def measure(workloads: int, per_cohort: int) -> dict[str, float]:
    """One trial: half of the workloads small, half large and of a higher priority, so that queues borrow, reclaim and preempt."""
    from seatrial.model.fleet import ANY, LOWER, Fleet, Preemption
    from seatrial.model.plan import NodeGroup, Pace, PodShape, Span, Toleration
    from seatrial.model.units import HOUR, SECOND
    from seatrial.scenario.actions.submit_workloads import Submit
    from seatrial.scenario.actions.wait import Wait
    from tests.sim.fleets import queue
    from tests.sim.making import GI, run, trial

    queues = tuple(queue(f"q{number}", 8, f"c{number // per_cohort}") for number in range(QUEUES))
    fleet = Fleet(queues, preemption=Preemption(LOWER, ANY))
    nodes = NodeGroup("fake", 100, {"cpu": 80_000, "memory": 256 * GI, "pods": 1000}, start=Span(SECOND))
    each = workloads // 2 // QUEUES
    phases = tuple(
        Submit(name, each * QUEUES, (1,), False, PodShape({"cpu": cpu * 1000}, tolerations=(Toleration(),), priority=priority),
               seconds * SECOND, pace=Pace("rate", per_s=each / 1000), queues=tuple(one.name for one in queues))
        for name, cpu, priority, seconds in (("small", 1, 0, 60), ("large", 4, 10, 120))
    )  # fmt: skip
    made = trial(phases, (Wait("done", "released", timeout=1000 * HOUR),), nodes=[nodes], stack="kueue", fleet=fleet)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        ran = run(made, Path(folder))
    return {
        "workloads": ran.count("released"),
        "seconds": time.process_time() - began,
        "virtual": ran.end_s,
        "evictions": ran.cluster.ledger.evictions,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    """Measures in other processes: the peak of memory is that of a whole process."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]), int(sys.argv[3]))))
        return
    sizes = (int(sys.argv[1]),) if len(sys.argv) > 1 else SIZES
    per_cohort = sys.argv[2] if len(sys.argv) > 2 else str(PER_COHORT)
    rows = []
    for size in sizes:
        command = [sys.executable, __file__, "--one", str(size), per_cohort]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print("kueue_queues: {workloads:.0f} workloads in 1000 queues, {evictions:.0f} evictions: {seconds:.0f} s of processor "
              "time, {megabytes:.0f} MB, {virtual:.0f} s of virtual time".format(**rows[-1]), flush=True)  # fmt: skip
    if len(rows) > 1:
        first, last = rows[0], rows[-1]
        growth = math.log(last["seconds"] / first["seconds"]) / math.log(last["workloads"] / first["workloads"])
        print(f"kueue_queues: processor time grows with workloads to the power of {growth:.2f}")


if __name__ == "__main__":
    main()
