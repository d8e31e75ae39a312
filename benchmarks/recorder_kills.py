"""A recorder that may only list and watch pods and Jobs, killed with `kill -9` at random moments while a run on `local` goes.

    python benchmarks/recorder_kills.py [--jobs 300] [--kills 10] [--seed 1]

Target: nothing lost, nothing twice. The run begins when the recorder's watches are well. Most kills come up to three seconds after
they are well again, one in five at any moment after the start; a fifth of a second to 1.5 s later the same command continues. The
run says what there was: every Job must be in the trace once, as completed, with its pods and their requests. Before that the
recorder's user, who has no role yet, is refused with the role that it needs; that role is then given to it, and nothing else. One
line; status 1 if the target is missed.
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

import numpy as np
import polars as pl
import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from seatrial.clusters.access import kept_clusters  # noqa: E402
from seatrial.clusters.local.certificates import Authority, write_kubeconfig  # noqa: E402
from seatrial.model.control_plane import Identity  # noqa: E402
from seatrial.traces.reading import read  # noqa: E402
from tests.api import Api  # noqa: E402

COMMAND = [sys.executable, "-m", "seatrial"]
CLUSTER = "recorder-kills"
QPS = "500"
LIVES_S, AWAY_S, AT_ANY_MOMENT = (0.0, 3.0), (0.2, 1.5), 0.2
STARTS_S = 60.0  # at most, until its watches are well
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


class Recorders:
    """One recorder after another, each with the same command."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command, self._folder = command, folder
        self.watched = 0  # those that were killed while their watches were well
        self.start()

    def start(self) -> None:
        """The next one."""
        self._before = self._beats()
        self.process = subprocess.Popen(
            self._command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def _beats(self) -> set[Path]:
        return set((self._folder / "recording").glob("gaps-*"))

    def well(self) -> bool:
        """Whether its watches have been well."""
        return self._beats() != self._before

    def wait_until_well(self) -> None:
        """Ends the benchmark if that takes too long."""
        until = time.monotonic() + STARTS_S
        while not self.well():
            if time.monotonic() > until or self.process.poll() is not None:
                sys.exit(f"recorder_kills: the recorder does not record (status {self.process.returncode})")
            time.sleep(0.02)

    def kill(self) -> None:
        """kill -9."""
        self.watched += self.well()
        self.process.kill()
        self.process.wait()


def kill_again_and_again(recorders: Recorders, kills: int, chance: random.Random) -> None:
    """So often, at random moments. The last one goes on."""
    for _ in range(kills):
        if chance.random() >= AT_ANY_MOMENT:
            recorders.wait_until_well()
        time.sleep(chance.uniform(*LIVES_S))
        recorders.kill()
        time.sleep(chance.uniform(*AWAY_S))
        recorders.start()
    recorders.wait_until_well()


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
    parser.add_argument("--jobs", type=int, default=300)
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
            recorders = Recorders(record(reader(folder, folder / "recording"), folder / "recording"), folder)
            recorders.wait_until_well()
            run = subprocess.Popen(
                [*COMMAND, "run", "origin.yaml", "--on", "local", "--cluster", CLUSTER, "-o", "origin", "-q"],
                cwd=folder, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            kill_again_and_again(recorders, options.kills, random.Random(options.seed))
            within = run.poll() is None  # all kills were during the run
            run.wait()
            recorders.process.send_signal(signal.SIGINT)
            status = recorders.process.wait(60)
        finally:
            subprocess.run([*COMMAND, "cluster", "down", CLUSTER], check=True, capture_output=True)
        text, fine = compared(read(folder / "recording" / "trace.parquet").jobs, folder)
    fine &= within and not run.returncode and not status
    early = "" if within else " (the run ended before the last)"
    print(
        f"recorder_kills: {options.kills} times kill -9, {recorders.watched} of them while it watched{early}, a user who "
        f"may list and watch pods and Jobs: {text}: {'met' if fine else 'missed'}; load average {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
