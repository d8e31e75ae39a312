"""A recorder that may only list and watch pods and Jobs, killed with `kill -9` at random moments while a run on `local` goes.

    python benchmarks/recorder_kills.py [--jobs 200] [--kills 10] [--seed 1]

Target: nothing lost, nothing twice. Half a second to two seconds after each kill the same command continues. The run says what
there was: every Job must be in the trace once, as completed, with its pods and their requests. Before that the recorder's user, who
has no role yet, is refused with the role that it needs; that role is then given to it, and nothing else. One line; status 1 if the
target is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from seatrial.clusters.access import kept_clusters  # noqa: E402
from seatrial.clusters.local.certificates import Authority, write_kubeconfig  # noqa: E402
from seatrial.model.control_plane import Identity  # noqa: E402
from tests.api import Api  # noqa: E402

COMMAND = [sys.executable, "-m", "seatrial"]
CLUSTER = "recorder-kills"
QPS = "500"
BEFORE_S, BETWEEN_S, AWAY_S = 2.0, (1.0, 4.0), (0.5, 2.0)  # the first kill, the next ones, until it is started again
SCENARIO = """name: origin
nodes: [{name: fake, count: 4, capacity: {cpu: 8, memory: 64Gi, pods: 110}}]
stacks: [default]
settings: {qps: {equal: %s}}
steps:
  - submit: {name: jobs, count: %d, pods: 1..3, rate: 4/s, arrival: poisson, duration: 1s..3s, requests: {cpu: 1, memory: 1Gi}}
  - wait: {for: completed, timeout: 10m}
  - pause: 5s
"""


def reader(folder: Path, out: Path) -> Path:
    """The kubeconfig of a user with the role that the refusal of `record` names, and no other."""
    cluster = kept_clusters.find(CLUSTER)
    Authority.load(cluster.layout).issue_client(cluster.layout, identity := Identity("reader", "reader", (), ""))
    write_kubeconfig(cluster.layout, cluster.url, identity)
    kubeconfig = cluster.kubeconfig("reader")
    refused = subprocess.run(record(kubeconfig, out), cwd=folder, capture_output=True, text=True, check=False)
    role = refused.stderr[refused.stderr.index("apiVersion:") :]
    api = Api(cluster.kubeconfig("admin"))
    for document in yaml.safe_load_all(role):
        path = f"/apis/{document['apiVersion']}/{document['kind'].lower()}s"
        if (code := api.call("POST", path, document)[0]) != 201:
            sys.exit(f"recorder_kills: {path}: {code}")
    theirs = Api(kubeconfig)
    for path in ("/api/v1/secrets", "/api/v1/nodes", "/api/v1/namespaces"):
        if (code := theirs.call("GET", path)[0]) != 403:
            sys.exit(f"recorder_kills: the recorder's user may read {path}: {code}")
    return kubeconfig


def record(kubeconfig: Path, out: Path) -> list[str]:
    """The command that records, and that continues a recording."""
    return [
        *COMMAND,
        "record",
        "--kubeconfig",
        str(kubeconfig),
        "--context",
        f"seatrial-{CLUSTER}",
        "-o",
        str(out),
        "--no-anonymise",
    ]


def kill_again_and_again(
    command: list[str], folder: Path, kills: int, chance: random.Random
) -> subprocess.Popen[bytes]:
    """Kills the recorder so often; returns the one that is left."""
    silent: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    recorder = subprocess.Popen(command, **silent)
    time.sleep(BEFORE_S)
    for _ in range(kills):
        time.sleep(chance.uniform(*BETWEEN_S))
        if recorder.poll() is not None:
            sys.exit(f"recorder_kills: the recorder ended by itself with status {recorder.returncode}")
        recorder.kill()
        recorder.wait()
        time.sleep(chance.uniform(*AWAY_S))
        recorder = subprocess.Popen(command, **silent)
    return recorder


def compared(trace: pl.DataFrame, folder: Path) -> tuple[str, bool]:
    """The trace beside what the run knows of its Jobs."""
    truth = pl.read_csv(folder / "origin" / "times.csv")
    names = trace["job"].str.split("/").list.last()
    lost = set(truth["workload"]) - set(names)
    twice = trace.height - names.n_unique()
    both = trace.with_columns(names.alias("workload")).join(truth, on="workload", how="inner")
    right = both.filter(
        (pl.col("outcome") == "completed") & (pl.col("pods") == pl.col("size")) & (pl.col("cpu_milli") == 1000)
        & (pl.col("memory_bytes") == 2**30) & pl.col("duration_ns").is_not_null() & pl.col("wait_ns").is_not_null()
        & pl.col("censored").is_null()
    )  # fmt: skip
    late = (both["submit_ns"] / 1e6 - both["submitted_s"] * 1e3).to_numpy()
    apart = np.abs(late - np.median(late))
    fine = not lost and not twice and both.height == right.height == truth.height
    text = (
        f"{truth.height} Jobs, {len(lost)} lost, {twice} twice, {both.height - right.height} with a wrong or unknown "
        f"size, wait, duration or outcome; arrivals off by {np.percentile(apart, 50):.1f} ms (p50), {apart.max():.0f} ms (max)"
    )
    return text, fine


def main() -> None:
    """Prints the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="an empty directory for the study and the recording")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "origin.yaml").write_text(SCENARIO % (QPS, options.jobs))
        subprocess.run([*COMMAND, "cluster", "up", CLUSTER, "--qps", QPS], check=True, capture_output=True)
        try:
            command = record(reader(folder, folder / "recording"), folder / "recording")
            run = subprocess.Popen(
                [*COMMAND, "run", "origin.yaml", "--on", "local", "--cluster", CLUSTER, "-o", "origin", "-q"],
                cwd=folder, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            recorder = kill_again_and_again(command, folder, options.kills, random.Random(options.seed))
            within = run.poll() is None  # all kills were during the run
            run.wait()
            recorder.send_signal(signal.SIGINT)
            status = recorder.wait(60)
        finally:
            subprocess.run([*COMMAND, "cluster", "down", CLUSTER], check=True, capture_output=True)
        text, fine = compared(pl.read_parquet(folder / "recording" / "trace.parquet"), folder)
    fine &= within and not run.returncode and not status
    print(
        f"recorder_kills: {options.kills} times kill -9{'' if within else ' (the run ended before the last)'}, a user who "
        f"may list and watch pods and Jobs: {text}: {'met' if fine else 'missed'}; load average {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
