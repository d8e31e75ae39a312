"""How much slower a scheduler binds pods when thousands are there already (Volcano's issue 2583 says 40 % with 8,000).

    python benchmarks/crowded.py                                all stacks: about five minutes each on two cores
    python benchmarks/crowded.py --stack volcano                one of them
    python benchmarks/crowded.py --stack volcano,kai --pods 1000 --load 10

On a real control plane: 1,000 pods, as 50 Jobs of 20, are bound once on empty nodes and once where 8,000 pods run that nobody
scheduled (they are created with their node, 40 on each of 200). No component's client is limited, so what is compared is the
scheduler on this machine. Per stack, as Markdown: pods bound per second, and the time from created to bound that 99 % of the pods
keep, without and with the others.

It can be cut off at any time: what was measured is kept below `--keep`, and the same command goes on from there. A trial that takes
longer than `--limit` is ended, and its cell says how far it came.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import polars as pl  # noqa: E402

from benchmarks.study_cells import STACKS, Case, Cell, options, run_all  # noqa: E402

NODES = 200
CREATED_AT_ONCE = 16
SCENARIO = """
name: crowded
nodes: [{name: fake, count: NODES, capacity: {cpu: 64, memory: 256Gi, pods: 200}, pods: {start: 100ms}}]
stacks: [default]
settings: {qps: unlimited}
steps: STEPS
"""


def load(jobs: int) -> list[dict[str, Any]]:
    """What is bound, and measured."""
    requests = {"cpu": "100m", "memory": "50M"}
    submit = {"name": "load", "count": jobs, "pods": 20, "duration": "2h", "requests": requests}
    return [{"submit": submit}, {"wait": {"for": "scheduled", "of": ["load"], "timeout": "30m"}}]


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
    create = {"name": "there", "objects": pods, "count": there // NODES, "workers": CREATED_AT_ONCE}
    return [
        {"create": create},
        {"wait": {"for": "pods-running", "of": "there", "timeout": "30m"}},
        {"pause": "10s"},
    ]


def case(kept: Path, jobs: int, there: int, limit: str) -> Case:
    """The scenario is written beside the studies, which name it."""
    steps = [*(crowd(there) if there else ()), *load(jobs)]
    kept.mkdir(parents=True, exist_ok=True)
    file = kept / f"crowded-{there}-{jobs}.yaml"
    file.write_text(SCENARIO.replace("NODES", str(NODES)).replace("STEPS", json.dumps(steps)))
    return Case(str(file), limit=limit)


@dataclass(frozen=True)
class Bound:
    """Pods bound per second from the first to the last, and the 99th percentile of created to bound; or how it ended instead."""

    per_s: float = 0.0
    late_s: float = 0.0
    ended: str = "not yet run"

    def __str__(self) -> str:
        return self.ended or f"{self.per_s:.0f}/s, {self.late_s:.2f} s"


def measured(cell: Cell) -> Bound:
    summary, pods = cell.table(), cell.table("pods.csv")
    if summary is None or pods is None or not summary.height:
        return Bound(ended=cell.problem() or "not yet run")
    wanted = pods.filter(pl.col("workload").str.starts_with("load-"))
    if summary["outcome"][0] != "completed":
        count = wanted["bound_s"].count() if wanted.height else 0
        return Bound(ended=f"{summary['outcome'][0]}, {count} bound")
    bound = wanted["bound_s"].sort()
    late = (wanted["bound_s"] - wanted["created_s"]).sort()
    return Bound((len(bound) - 1) / (bound[-1] - bound[0]), float(late[int(0.99 * (len(late) - 1))]), "")


def row(stack: str, empty: Bound, full: Bound) -> str:
    """A row of the table."""
    change = f"{full.per_s / empty.per_s - 1:+.0%}" if not (empty.ended or full.ended) else ""
    return f"| {stack} | {empty} | {full} | {change} |"


def main() -> None:
    parser = options(__doc__ or "", "out/crowded")
    parser.add_argument("--stack", default=",".join(STACKS))
    parser.add_argument("--pods", type=int, default=8000, help=f"pods that run already; a multiple of {NODES}")
    parser.add_argument("--load", type=int, default=50, help="Jobs of 20 pods that are bound")
    parser.add_argument("--limit", default="10m", help="of one trial")
    asked = parser.parse_args()
    if asked.pods < NODES or asked.pods % NODES:
        parser.error(f"--pods {asked.pods}: a multiple of {NODES}, the number of nodes")
    cases = {there: case(asked.keep, asked.load, there, asked.limit) for there in (0, asked.pods)}
    stacks = asked.stack.split(",")
    cells = {
        (stack, there): Cell(f"crowded-{there}-{asked.load}", cases[there], stack, "local", 1, asked.keep)
        for stack in stacks
        for there in cases
    }
    try:
        for _ in run_all(list(cells.values()), asked.side_by_side):
            pass
    except KeyboardInterrupt:
        print("cut off; the same command goes on from here", file=sys.stderr)
    print(f"\n| stack | empty: bound/s, p99 | with {asked.pods:,} pods: bound/s, p99 | bound/s |\n|---|---|---|---|")
    for stack in stacks:
        print(row(stack, measured(cells[stack, 0]), measured(cells[stack, asked.pods])))
    print(f"load average {os.getloadavg()[1]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
