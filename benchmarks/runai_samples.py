"""The two sample commands of Run:ai's scale test, with our names and shortened delays, on 1,000 fake nodes of a real control plane.

    python benchmarks/runai_samples.py [--only training|distributed] [--keep DIR]

2,000 training jobs, 5 in parallel, general plot; 1,000 distributed jobs with 7 workers and a claim each, detailed plot. Each is
sampled and plotted three times while it is submitted, then followed to its end. A line for every look, with how long it took.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = [sys.executable, "-m", "seatrial"]
NODES = "- {name: fake, count: 1000, capacity: {cpu: 64, memory: 512Gi, pods: 110, nvidia.com/gpu: 8}}\n"
RUNS = {  # submit's arguments, plot's, how many
    "training": (["-t", "training", "-n", "2000", "-p", "5", "--delay", "0.1", "-g", "1"], "general", 2000),
    "distributed": (
        ["-t", "distributed", "-n", "1000", "--num-workers", "7", "--pvc", "-p", "1", "--delay", "0.05", "-g", "1"],
        "detailed",
        1000,
    ),
}


def call(*arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"seatrial {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def lines_of(out: Path) -> int:
    found = list(out.glob("trials/*/submitted.jsonl"))
    return found[0].read_bytes().count(b"\n") if found else 0


def look(out: Path, plot: str, began: float) -> None:
    """One sample and one plot, as one does every few minutes."""
    at = time.monotonic()
    said = call("sample", "-o", str(out)).splitlines()[0]
    sampled = time.monotonic() - at
    call("plot", "-o", str(out), "--plot", plot)
    drawn = time.monotonic() - at - sampled
    print(f"  {at - began:5.0f} s: {said} (sample {sampled:.1f} s, plot {drawn:.1f} s)", flush=True)


def run(kind: str, folder: Path, cluster: str) -> None:
    arguments, plot, count = RUNS[kind]
    out = folder / kind
    began = time.monotonic()
    print(f"{kind}: seatrial submit {' '.join(arguments)}, --plot {plot}", flush=True)
    submit = subprocess.Popen(
        [*COMMAND, "submit", "-o", str(out), "--cluster", cluster, *arguments], stdout=subprocess.DEVNULL
    )
    for part in (1, 2, 3):
        while lines_of(out) < count * part // 4:
            if submit.poll() is not None:
                sys.exit(f"the submission ended early, with {submit.returncode}")
            time.sleep(0.2)
        look(out, plot, began)
    if submit.wait():
        sys.exit(f"the submission ended with {submit.returncode}")
    print(f"  {time.monotonic() - began:5.0f} s: all submitted", flush=True)
    print("  " + "\n  ".join(call("sample", "-o", str(out), "--follow").splitlines()), flush=True)
    look(out, plot, began)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", choices=list(RUNS))
    arguments.add_argument("--keep", type=Path, help="leave the studies here")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = given.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["XDG_STATE_HOME"] = str(Path(name) / "state")
        (Path(name) / "nodes.yaml").write_text(NODES)
        cluster = f"runai-{os.getpid()}"
        print(
            call("cluster", "up", cluster, "--nodes", str(Path(name) / "nodes.yaml"), "--qps", "1000").splitlines()[0]
        )
        try:
            for kind in [given.only] if given.only else RUNS:
                run(kind, folder, cluster)
        finally:
            call("cluster", "down", cluster)


if __name__ == "__main__":
    main()
