"""Whether a Ray of three nodes gives the bytes of one process while workers and a machine are killed, and what Ray costs per trial.

    python benchmarks/ray_trials.py [--trials 200] [--long 1000] [--jobs 5000]

The nodes are real raylets on this machine: a head without cores, and three nodes that share its cores. First `--trials` simulated
trials: in the middle a worker and then a raylet get `kill -9`. Then `--long` trials of about a second each: how much of the time of
the nodes' cores was spent in trials, from the first one's beginning to the last one's end. A busy machine makes trials longer and
leaves that share as it is. Exit status 1 if a byte differs, or below 85 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from seatrial.study.packed_trials import pack  # noqa: E402
from tests.ray_nodes import RayNodes, kill, ray_of  # noqa: E402
from tests.study_contents import contents  # noqa: E402
from tests.waiting import eventually  # noqa: E402

COMMAND = [sys.executable, "-m", "seatrial", "run"]
LEAST = 0.85
SCENARIO = """
name: trials
params: {jobs: [JOBS]}
nodes: [{name: n, count: 100, capacity: {cpu: 32, memory: 64Gi}, pods: {start: 1s}}]
stacks: [default]
steps:
  - submit: {name: load, count: "${jobs}", rate: 200/s, arrival: poisson, duration: 1s, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 10d}
"""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A run in the background."""
    with (folder / "said").open("w") as said:
        return subprocess.Popen([*COMMAND, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=said, text=True)


def finish(folder: Path, process: subprocess.Popen[str]) -> None:
    """Waits for its end."""
    if process.wait():
        sys.exit(f"ray_trials: exit status {process.returncode}: {(folder / 'said').read_text()[-2000:]}")


def arrived(out: Path) -> int:
    """How many trials have come back."""
    return len(list(out.glob("trials/*/trial.json")))


def killed(folder: Path, trials: int, nodes: RayNodes) -> str:
    """The study with two deaths in its middle, against the one in this process."""
    process = start(folder, "small.yaml", "--repeat", str(trials), "--ray", nodes.address, "-o", "far")
    assert eventually(lambda: arrived(folder / "far") >= trials // 4, 600)
    assert eventually(lambda: bool(nodes.busy(1)))
    kill(nodes.busy(1)[0])
    assert eventually(lambda: arrived(folder / "far") >= trials // 2, 600)
    assert eventually(lambda: bool(nodes.busy(2)))
    kill(nodes.raylets[2])
    finish(folder, process)
    said = (folder / "said").read_text()
    finish(folder, start(folder, "small.yaml", "--repeat", str(trials), "-o", "near"))
    far, near = contents(folder / "far"), contents(folder / "near")
    same = "the same bytes" if far == near else "OTHER BYTES"
    again = said.count("its worker was lost")
    return (
        f"{arrived(folder / 'far')} of {trials} trials on a Ray of three nodes, {again} of them run again after "
        f"kill -9 of a worker and of a raylet: {same}"
    )


def overhead(folder: Path, trials: int, nodes: RayNodes, cores: int) -> tuple[float, str]:
    """The share of the cores' time that was spent in trials, and a line."""
    began = time.monotonic()
    finish(folder, start(folder, "long.yaml", "--repeat", str(trials), "--ray", nodes.address, "-o", "long"))
    whole = time.monotonic() - began
    runs = [json.loads(path.read_text())["run"] for path in (folder / "long").glob("trials/*/trial.json")]
    starts = [datetime.fromisoformat(run["started"]).timestamp() for run in runs]
    took = [float(run["wall_s"]) for run in runs]
    span = max(at + lasted for at, lasted in zip(starts, took, strict=True)) - min(starts)
    share = sum(took) / (cores * span)
    size = mean(len(pack(path)) for path in sorted((folder / "long" / "trials").iterdir())[:10])
    return share, (
        f"{len(runs):,} trials of {mean(took):.2f} s on {cores} cores in {span:.0f} s ({len(runs) / span:.2f} per second; "
        f"{whole:.0f} s with connection, tables and page), {share:.0%} of their time in trials, {size / 1000:.0f} kB each to carry"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--long", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=5000, help="of a trial that takes about a second")
    options = parser.parse_args()
    cores, lines, good = len(os.sched_getaffinity(0)), [], True
    with tempfile.TemporaryDirectory(prefix="seatrial-ray-trials-") as name:
        folder = Path(name)
        (folder / "small.yaml").write_text(SCENARIO.replace("JOBS", "400"))
        (folder / "long.yaml").write_text(SCENARIO.replace("JOBS", str(options.jobs)))
        if options.trials:
            with ray_of({"num_cpus": 0}, *[{"num_cpus": 1}] * 3) as nodes:
                lines.append(killed(folder, options.trials, nodes))
                good = "the same" in lines[0]
        if options.long:
            with ray_of({"num_cpus": 0}, *[{"num_cpus": 1}] * cores) as nodes:
                share, line = overhead(folder, options.long, nodes, cores)
                lines.append(line)
                good = good and share >= LEAST
    print(f"ray_trials: {'; '.join(lines)}; load average {os.getloadavg()[0]:.1f}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
