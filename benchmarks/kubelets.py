"""Many real kubelets on this machine: does every node become Ready, does every pod complete, and what does a node cost?

Each step is a trial on `local`: so many kubelets, five pods for each, `sandbox: 100ms, start: 1s`, pods of 5 s, no client limits
for scheduler and controllers. Processor time and memory are those of the kubelets' process (`metrics.parquet`); a node's share is
all of it divided by the nodes.

    python benchmarks/kubelets.py [--nodes 100,300,1000]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

SCENARIO = """
name: many-kubelets
nodes:
  - {{name: node, count: {nodes}, kubelet: true, capacity: {{cpu: 8, memory: 32Gi}}, runtime: {{sandbox: 100ms, start: 1s}}}}
stacks: [default]
settings: {{qps: unlimited}}
steps:
  - pause: 20s
  - submit: {{name: many, count: {jobs}, pods: 50, duration: 5s, requests: {{cpu: 100m, memory: 50M}}}}
  - wait: {{for: completed, timeout: 4m}}
expect: ["completed == submitted"]
"""


def measure(nodes: int) -> dict[str, float]:
    """One trial; its figures."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "many.yaml"
        scenario.write_text(SCENARIO.format(nodes=nodes, jobs=nodes // 10))
        out = Path(folder) / "out"
        command = [sys.executable, "-m", "seatrial", "run", str(scenario), "--on", "local", "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{nodes} kubelets: status {done.returncode}\n{done.stdout}\n{done.stderr}")
        [place] = (out / "trials").iterdir()
        return figures(place, nodes)


def figures(place: Path, nodes: int) -> dict[str, float]:
    """What a node costs, from the trial's directory."""
    trial = json.loads((place / "trial.json").read_text())
    metrics = pl.read_parquet(place / "metrics.parquet")

    def of(source: str, metric: str) -> pl.DataFrame:
        return metrics.filter((pl.col("source") == source) & (pl.col("metric") == metric)).sort("at_ns")

    cpu, memory = of("kubelets", "process_cpu_seconds"), of("kubelets", "process_resident_bytes")
    rested = cpu.filter(pl.col("at_ns") <= 20_000_000_000)
    spent = rested["value"][-1] - rested["value"][0]
    idle = spent / (rested["at_ns"][-1] - rested["at_ns"][0]) * 1e9 if rested.height > 1 else float("nan")
    most = max(memory["value"].to_list()) / 1e6
    sums = metrics.filter(pl.col("metric") == "process_resident_bytes").group_by("source").agg(pl.col("value").max())
    return {
        "nodes": nodes,
        "pods completed": trial["counts"]["finished"] if "counts" in trial else nodes * 5,
        "s from first submit to last completion": trial["end_ns"] / 1e9 - 20,
        "s of the whole command's trial": trial["run"]["wall_s"],
        "millicores per node at rest": 1000 * idle / nodes,
        "cpu s per pod while they run": (cpu["value"][-1] - rested["value"][-1]) / (5 * nodes),
        "MB of the kubelets": most,
        "MB per node": most / nodes,
        "MB of everything": sum(sums["value"].to_list()) / 1e6,
    }


def main() -> None:
    """Prints a line per step."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", default="100,300,1000")
    for count in options.parse_args().nodes.split(","):
        found = measure(int(count))
        load = os.getloadavg()[0]
        print(
            ", ".join(f"{name}: {value:,.4g}" for name, value in found.items()),
            f"(load average {load:.1f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
