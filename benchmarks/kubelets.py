"""Many real kubelets on this machine: does every node become Ready, does every pod complete, and what does a node cost?

Each step is a trial on `local`: so many kubelets, a minute of rest, five pods for each, `sandbox: 100ms, start: 1s`, pods of 5 s,
no client limits for scheduler and controllers. A line of figures per step; progress goes to standard error. Processor time and
memory are those of the one process that has all kubelets (`metrics.parquet`), divided by the nodes. `--fake` does the same on
nodes of KWOK. A step that takes longer than `--limit` is ended, and its line says how far it came. Status 1 if a pod did not
complete.

    python benchmarks/kubelets.py [--nodes 100,300,1000] [--fake] [--limit 20m]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from seatrial.model.units import SECOND, parse_duration

KUBELET = "kubelet: true, runtime: {sandbox: 100ms, start: 1s}"
FAKE = "pods: {create: 100ms, start: 1s}"
REST_S = 60
PODS = 5  # for each node
KUBEMARK = "kubemark's guide reserves 40m of a core and 100 MiB for a node"
SCENARIO = """
name: many-kubelets
nodes:
  - {{name: node, count: {nodes}, capacity: {{cpu: 8, memory: 32Gi}}, {kind}}}
stacks: [default]
settings: {{qps: unlimited}}
steps:
  - pause: {rest}s
  - submit: {{name: many, count: {jobs}, pods: 50, duration: 5s, requests: {{cpu: 100m, memory: 50M}}}}
  - wait: {{for: completed, timeout: {limit}s}}
expect: ["completed == submitted"]
"""


def measure(nodes: int, fake: bool, limit_s: int) -> tuple[str, bool]:
    """One trial: its line, and whether all completed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kind, jobs = (FAKE if fake else KUBELET), max(nodes * PODS // 50, 1)
        text = SCENARIO.format(nodes=nodes, kind=kind, jobs=jobs, rest=REST_S, limit=limit_s)
        (folder / "many.yaml").write_text(text)
        command = [sys.executable, "-m", "seatrial", "run", "many.yaml", "--on", "local", "-o", "out"]
        with (folder / "said").open("wb") as said:
            run = subprocess.Popen(command, cwd=folder, stdout=said)
            try:
                run.wait(REST_S + limit_s + limit_s / 2)
            except subprocess.TimeoutExpired:
                run.terminate()  # it takes its cluster down, and keeps what it has seen
                run.wait()
        place = next(folder.glob("out/trials/*/metrics.parquet"), None)
        if place is None:
            return f"{nodes} nodes: status {run.returncode}, no figures: {(folder / 'said').read_text()[-400:]}", False
        return line(folder / "out", place.parent, nodes, jobs * 50, "kwok" if fake else "kubelets"), not run.returncode


def line(out: Path, place: Path, nodes: int, pods: int, source: str) -> str:
    """What a node costs, from the trial's directory."""
    trial = json.loads((place / "trial.json").read_text())
    [row] = csv.DictReader((out / "summary.csv").open())
    done = pl.read_csv(out / "pods.csv", infer_schema_length=None)["finished_s"].count()
    unready = [
        one
        for one in trial["validity"].get("node_conditions") or []
        if one["condition"] == "Ready" and one["status"] != "True"
    ]
    metrics = pl.read_parquet(place / "metrics.parquet").sort("at_ns")
    cpu = metrics.filter((pl.col("source") == source) & (pl.col("metric") == "process_cpu_seconds"))
    rested = cpu.filter(pl.col("at_ns") <= REST_S * SECOND)
    seconds = (rested["at_ns"][-1] - rested["at_ns"][0]) / SECOND
    idle = (rested["value"][-1] - rested["value"][0]) / seconds if seconds else float("nan")
    peaks = metrics.filter(pl.col("metric") == "process_resident_bytes").group_by("source").agg(pl.col("value").max())
    memory = {name: peak / 1e6 for name, peak in peaks.iter_rows()}
    ready = trial["run"]["wall_s"] - trial["end_ns"] / SECOND
    return (
        f"{source}: {nodes:,} nodes, {done:,} of {pods:,} pods completed in {row['total_s'] or 'more than the limit'} s; "
        f"cluster up and down, all nodes Ready, in {ready:.0f} s; {len(unready)} times a node was not Ready; "
        f"{1000 * idle / nodes:.2f}m of a core per node at rest, {1000 * (cpu['value'][-1] - rested['value'][-1]) / pods:.1f} ms "
        f"of processor time per pod; {memory[source]:,.0f} MB, {memory[source] / nodes:.2f} MB per node; "
        f"{sum(memory.values()):,.0f} MB with the control plane ({memory['kube-apiserver']:,.0f} MB of it the API server's) "
        f"and the client; load average {os.getloadavg()[0]:.1f} ({KUBEMARK})"
    )


def main() -> None:
    """Prints a line per step."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", default="100,300,1000")
    options.add_argument("--fake", action="store_true")
    options.add_argument("--limit", default="20m", help="for the pods of a step; half of it more for the cluster")
    asked = options.parse_args()
    fine = True
    for count in asked.nodes.split(","):
        said, good = measure(int(count), asked.fake, parse_duration(asked.limit) // SECOND)
        fine &= good
        print(said, flush=True)
    sys.exit(not fine)


if __name__ == "__main__":
    main()
