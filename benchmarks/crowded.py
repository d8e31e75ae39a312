"""How much slower a scheduler binds pods when thousands are there already (Volcano's issue 2583 says 40 % with 8,000).

    python benchmarks/crowded.py --stack volcano,kai            a line per stack; about three minutes each on two cores
    python benchmarks/crowded.py --stack default --there 2000

On a real control plane: 1,000 pods, as 50 Jobs of 20, are bound once on empty nodes and once where 8,000 pods run that nobody
scheduled (they are created with their node, 40 on each). No component's client is limited, so what is compared is the scheduler
on this machine. Per stack, as Markdown: pods bound per second, and the time from created to bound that 99 % of the pods keep,
without and with the others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

NODES = 200
SCENARIO = """
name: crowded
nodes: [{name: fake, count: NODES, capacity: {cpu: 64, memory: 256Gi, pods: 110}, pods: {start: 100ms}}]
stacks: [STACK]
settings: {qps: unlimited}
steps: STEPS
"""
LOAD: list[dict[str, Any]] = [
    {
        "submit": {
            "name": "load",
            "count": 50,
            "pods": 20,
            "duration": "2h",
            "requests": {"cpu": "100m", "memory": "50M"},
        }
    },
    {"wait": {"for": "scheduled", "of": ["load"], "timeout": "10m"}},
]
HEAD = "| stack | empty: bound/s, p99 | with THERE pods: bound/s, p99 | bound/s |\n|---|---|---|---|"


def crowd(there: int) -> list[dict[str, Any]]:
    """Creates pods on their nodes, and waits until they run."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "50M"}}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"there-{node}-${{i}}"},
            "spec": {
                "nodeName": f"fake-{node}",
                "containers": [container],
                "automountServiceAccountToken": False,
                "tolerations": [{"operator": "Exists"}],
            },
        }
        for node in range(NODES)
    ]
    return [
        {"create": {"name": "there", "objects": pods, "count": there // NODES, "workers": 8}},
        {"wait": {"for": "pods-running", "of": "there", "timeout": "10m"}},
        {"pause": "10s"},
    ]


def measured(stack: str, there: int) -> tuple[float, float] | None:
    """Pods bound per second from the first to the last, and the 99th percentile of created to bound; None: it did not complete."""
    steps = [*(crowd(there) if there else ()), *LOAD]
    text = SCENARIO.replace("NODES", str(NODES)).replace("STACK", stack).replace("STEPS", json.dumps(steps))
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "crowded.yaml", Path(folder) / "out"
        file.write_text(text)
        command = [sys.executable, "-m", "seatrial", "run", str(file), "--on", "local", "-o", str(out)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        summary, pods = out / "summary.csv", out / "pods.csv"
        if not summary.is_file() or pl.read_csv(summary)["outcome"][0] != "completed":
            return None
        load = pl.read_csv(pods, infer_schema_length=None).filter(pl.col("workload").str.starts_with("load-"))
    bound = load["bound_s"].sort()
    late = (load["bound_s"] - load["created_s"]).sort()
    return (len(bound) - 1) / (bound[-1] - bound[0]), float(late[int(0.99 * (len(late) - 1))])


def line(stack: str, empty: tuple[float, float] | None, full: tuple[float, float] | None) -> str:
    """A row of the table."""
    shown = [f"{one[0]:.0f}/s, {one[1]:.2f} s" if one else "did not complete" for one in (empty, full)]
    change = f"{full[0] / empty[0] - 1:+.0%}" if empty and full else ""
    return f"| {stack} | {shown[0]} | {shown[1]} | {change} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--stack", default="default,coscheduling,kueue,gang,appwrapper,volcano,kai,yunikorn")
    parser.add_argument("--there", type=int, default=8000, help=f"pods that run already; a multiple of {NODES}")
    asked = parser.parse_args()
    print(HEAD.replace("THERE", f"{asked.there:,}"), flush=True)
    for stack in asked.stack.split(","):
        print(line(stack, measured(stack, 0), measured(stack, asked.there)), flush=True)
    print(f"load average {os.getloadavg()[1]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
