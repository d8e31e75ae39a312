"""What a request costs in processor time, by verb: the constants of the simulated API server (docs/simulator.md).

    python benchmarks/request_costs.py             about two minutes on a quiet machine, one line per phase

A `local` control plane, audit log off, one phase per verb; what each process used meanwhile, from metrics.parquet, divided by the
requests that were answered well. What the scrape of once a second costs is in it, so a slow machine shows more.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

SCENARIO = """
name: request-costs
nodes: [{name: fake, count: 1, capacity: {cpu: 32, memory: 256Gi, pods: 110}}]
namespaces: 10
stacks: [default]
settings: {kube-apiserver: {audit: "off"}}
steps:
  - create: {name: create, each: 600, workers: 16, payload: 1k, as: tenant,
             objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "c-${i}"}, data: {text: "${payload}"}}}
  - get: {name: get, of: create, count: 6000, workers: 16, as: tenant}
  - patch: {name: patch, of: create, count: 3000, workers: 16, as: tenant, change: {data: {seen: "yes"}}}
  - update: {name: update, of: create, count: 3000, workers: 16, as: tenant}
  - list: {name: list, of: create, count: 200, workers: 8, as: tenant}
  - delete: {name: delete, of: create, count: 3000, workers: 16, as: tenant}
"""
PROCESSES = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok", "client")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        scenario, out = Path(folder) / "costs.yaml", Path(folder) / "out"
        scenario.write_text(SCENARIO)
        command = [sys.executable, "-m", "seatrial", "run", str(scenario), "--on", "local", "-o", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (trial,) = (out / "trials").iterdir()
        measured = pl.read_parquet(trial / "metrics.parquet").filter(pl.col("metric") == "process_cpu_seconds")
        rows = pl.read_parquet(trial / "requests.parquet").filter(pl.col("code") < 300)
        for phase in json.loads((trial / "trial.json").read_text())["took"]:
            count = rows.filter(pl.col("phase") == phase["phase"]).height
            spent = {}
            for process in PROCESSES:
                series = measured.filter(pl.col("source") == process)
                at, seconds = series["at_ns"].to_numpy(), series["value"].to_numpy()
                used = np.interp(phase["until_ns"], at, seconds) - np.interp(phase["from_ns"], at, seconds)
                spent[process] = 1000 * float(used) / count
            parts = ", ".join(f"{process} {ms:.2f}" for process, ms in spent.items())
            print(f"request_costs: {phase['phase']}: {count} requests, {sum(spent.values()):.2f} ms each ({parts})")


if __name__ == "__main__":
    main()
