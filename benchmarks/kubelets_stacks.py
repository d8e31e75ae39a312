"""Every stack on real kubelets: gangs, plain Jobs and queues, on `local`.

    python benchmarks/kubelets_stacks.py [--stacks kueue,kai] [--fake]

Four kubelets with played containers, 16 cores. Two teams, each with gangs of 2, 3 and 4 pods and with three plain Jobs: 24 pods
that ask for 21 cores, so that some wait. Queues borrow where the stack has cohorts; `default`, `coscheduling` and `gang` have a
namespace with a quota per team; `mcad` and `appwrapper` have no quotas, and both teams share what there is. `--fake` runs the same
on fake nodes. A line per stack; status 1 if one did not complete everything, or an audit found something wrong. That gangs start in
parts is no fault of `default`.
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

COHORTS = ("kueue", "volcano", "yunikorn", "kai", "appwrapper-kueue")
QUOTAS = ("default", "coscheduling", "gang")
ALONE = ("mcad", "appwrapper")
KUBELET = "kubelet: true, runtime: {sandbox: 100ms, start: 200ms}"
FAKE = "pods: {create: 100ms, start: 200ms}"
TEAMS = ("red", "blue")
AUDITS = ("audit_misfit", "audit_aggregate", "audit_overadmitted", "audit_quota_exceeded")
SCENARIO = """
name: stacks-on-kubelets
nodes:
  - {{name: node, count: 4, capacity: {{cpu: 4, memory: 8Gi}}, {kind}}}
stacks: [{stack}]
{queues}
steps:
  - - submit: {{name: gang{name}, {queue}sizes: [2, 3, 4], gang: true, duration: 5s, requests: {{cpu: 1, memory: 500M}}}}
    - submit: {{name: plain{name}, {queue}count: 3, duration: 3s, requests: {{cpu: 500m, memory: 100M}}}}
{more}
  - wait: {{for: completed, timeout: 2m}}
expect: ["completed == submitted"]
"""
MORE = """
    - submit: {name: gang-blue, sizes: [2, 3, 4], gang: true, duration: 5s, requests: {cpu: 1, memory: 500M}}
    - submit: {name: plain-blue, count: 3, duration: 3s, requests: {cpu: 500m, memory: 100M}}
"""


def scenario(stack: str, kind: str) -> str:
    """With the queues that the stack can have."""
    if stack in ALONE:
        return SCENARIO.format(stack=stack, kind=kind, queues="", queue="", name="-red", more=MORE)
    borrows = "cohort: all, borrow: any, " if stack in COHORTS else ""
    lines = [f"  {team}: {{{borrows}quota: {{cpu: {8 if borrows else 11}, memory: 16Gi}}}}" for team in TEAMS]
    queues = "\n".join(["queues:", *lines])
    return SCENARIO.format(stack=stack, kind=kind, queues=queues, queue="queue: each, ", name="", more="")


def measure(stack: str, kind: str) -> tuple[str, bool]:
    """One trial: its line, and whether it is as it should be."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stacks.yaml").write_text(scenario(stack, kind))
        command = [sys.executable, "-m", "seatrial", "run", "stacks.yaml", "--on", "local", "-o", "out"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        tables = folder / "out" / "summary.csv"
        if not tables.exists():
            return f"{stack}: status {done.returncode}: {done.stderr.strip()[-600:]}", False
        [row] = csv.DictReader(tables.open())
        found = [f"{audit} {row[audit]}" for audit in AUDITS if row.get(audit) not in ("", "0", None)]
        validity = json.loads(next(folder.glob("out/trials/*/trial.json")).read_text())["validity"]
        played = validity.get("runtime") or {}
        gangs, plain = (waited(folder / "out" / "times.csv", phase) for phase in ("gang", "plain"))
        line = (
            f"{stack}: {row['outcome']}, {row['completed']} of {row['submitted']} workloads, {row['total_s']} s, "
            f"gangs run after {gangs:.1f} s, plain Jobs after {plain:.1f} s (means), "
            f"{played.get('started', 0)} containers started, {row.get('audit_partial') or 0} gangs started in parts, "
            f"{row.get('evicted') or 0} evictions"
        )
        wrong = [*found, *(validity["reasons"] if not validity["valid"] else [])]
        return "; ".join([line, *wrong]), not done.returncode and not found


def waited(times: Path, phase: str) -> float:
    """Mean seconds from submitted to running, of the phases whose names begin so."""
    rows = [row for row in csv.DictReader(times.open()) if row["workload"].startswith(phase) and row["running_s"]]
    spans = [float(row["running_s"]) - float(row["submitted_s"]) for row in rows]
    return sum(spans) / len(spans) if spans else float("nan")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--stacks", default=",".join((*QUOTAS, *ALONE, *COHORTS)))
    options.add_argument("--fake", action="store_true")
    asked = options.parse_args()
    fine = True
    for stack in asked.stacks.split(","):
        line, good = measure(stack, FAKE if asked.fake else KUBELET)
        fine &= good
        print(f"{line} (load average {os.getloadavg()[0]:.1f})", flush=True)
    sys.exit(not fine)


if __name__ == "__main__":
    main()
