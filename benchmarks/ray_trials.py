"""Whether a Ray of three nodes gives the bytes of one process while workers and a machine are killed, and what Ray costs per trial.

    python benchmarks/ray_trials.py [--trials 200] [--long 1000] [--second 1.0]

The nodes are real raylets on this machine: a head without cores, and three nodes that share its cores. First `--trials` simulated
trials: in the middle a worker and then a raylet get `kill -9`. Then `--long` trials, of as many jobs as one process runs in
`--second` of processor time on this machine now. Three shares of these trials are printed:

- of processor time: what the trials would have cost in one process, of all that raylets, workers and the caller used meanwhile.
  It says the same on a busy machine.
- of elapsed time: how much of the nodes' cores' time was between beginning and end of a trial. What is missing, cores waited.
- of the cores: trials per second against what this machine's cores would do in single processes, if nothing else ran.

Exit status 1 if a byte differs, or if one of the first two is below 85 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from seatrial import stacks  # noqa: E402
from seatrial.scenario.document import read  # noqa: E402
from seatrial.scenario.expansion import expand  # noqa: E402
from seatrial.study.packed_trials import pack  # noqa: E402
from seatrial.study.trials import run_trial  # noqa: E402
from tests.ray_nodes import RayNodes, kill, ray_of  # noqa: E402
from tests.study_contents import contents  # noqa: E402
from tests.waiting import eventually  # noqa: E402

COMMAND = [sys.executable, "-m", "seatrial", "run"]
LEAST = 0.85
TRIED = 20_000  # jobs, to see how many are a second
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


def cost(file: Path, times: int = 3) -> float:
    """Processor time of a trial in one process, the least of a few."""
    spent = []
    for _ in range(times):
        [trial] = expand(read(str(file)), on="sim", stacks=stacks.settings())
        with tempfile.TemporaryDirectory() as out:
            begun = time.process_time()
            run_trial(trial, Path(out) / trial.name, lambda *_: None)
            spent.append(time.process_time() - begun)
    return min(spent)


def processor() -> float:
    """Processor time of everything that this process has started, also of what has ended."""
    children: dict[int, list[tuple[int, float]]] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            used = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
            children.setdefault(int(fields[1]), []).append((int(entry.name), used))
    found, left = 0.0, [os.getpid()]
    while left:
        for pid, used in children.get(left.pop(), ()):
            left.append(pid)
            found += used
    return found


def overhead(folder: Path, trials: int, nodes: RayNodes, cores: int) -> tuple[float, str]:
    """The smaller of the first two shares, and a line."""
    before, began = cost(folder / "long.yaml"), time.monotonic()
    process = start(folder, "long.yaml", "--repeat", str(trials), "--ray", nodes.address, "-o", "long")
    assert eventually(lambda: arrived(folder / "long") >= cores, 600)
    had, used = arrived(folder / "long"), processor()
    while arrived(folder / "long") < trials and process.poll() is None:
        time.sleep(0.5)
    used = processor() - used
    finish(folder, process)
    whole, each = time.monotonic() - began, mean((before, cost(folder / "long.yaml")))
    runs = [json.loads(path.read_text())["run"] for path in (folder / "long").glob("trials/*/trial.json")]
    starts = [datetime.fromisoformat(run["started"]).timestamp() for run in runs]
    took = [float(run["wall_s"]) for run in runs]
    span = max(at + lasted for at, lasted in zip(starts, took, strict=True)) - min(starts)
    of_processor, of_time, of_cores = (
        (trials - had) * each / used,
        sum(took) / (cores * span),
        trials * each / (cores * span),
    )
    size = mean(len(pack(path)) for path in sorted((folder / "long" / "trials").iterdir())[:10])
    return min(of_processor, of_time), (
        f"{len(runs):,} trials that cost {each:.2f} s of processor time in one process: {of_processor:.0%} of the processor time, "
        f"{of_time:.0%} of the elapsed time of {cores} cores in trials, {of_cores:.0%} of what the cores could do "
        f"({len(runs) / span:.2f} per second for {span:.0f} s; {whole:.0f} s with connection, tables and page), "
        f"{size / 1000:.0f} kB each to carry"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--long", type=int, default=1000)
    parser.add_argument("--second", type=float, default=1.0, help="of processor time, that a long trial costs")
    options = parser.parse_args()
    cores, lines, good = len(os.sched_getaffinity(0)), [], True
    with tempfile.TemporaryDirectory(prefix="seatrial-ray-trials-") as name:
        folder = Path(name)
        (folder / "small.yaml").write_text(SCENARIO.replace("JOBS", "400"))
        (folder / "long.yaml").write_text(SCENARIO.replace("JOBS", str(TRIED)))
        jobs = round(TRIED * options.second / cost(folder / "long.yaml"))
        (folder / "long.yaml").write_text(SCENARIO.replace("JOBS", str(jobs)))
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
