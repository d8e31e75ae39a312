"""Real traces on `sim`, whole: how long a replay takes, and its waits and utilisation beside those of the trace.

    python benchmarks/traces.py PATH…           files of OpenB (pods and nodes), SWF (KTH-SP2, LCG, also gzipped), Philly
    python benchmarks/traces.py --keep DIR PATH…
    python benchmarks/traces.py --local PODS NODES   1,000 pods of OpenB within 90 s on 300 of its nodes, on `local`

No trace comes with seatrial: docs/traces.md says where these are. A file is known by its content. Fleets: OpenB's own nodes; for
SWF as many processors as its header says (`MaxProcs`), a node each up to 1,000, nodes of 16 beyond; for Philly nodes of 8 GPUs, as
many GPUs as it wants at its peak, in two queues that borrow from each other. Jobs of SWF run as gangs behind Kueue where the system
had at most 1,000 processors, else as they come. A line per trace. Ends with status 1 if a trial did not complete, is not valid, or
took longer than asked for: 30 s up to 50,000 jobs, 3 minutes beyond; on `local`, if 1 in 100 pods was sent 0.1 s late or later.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seatrial.analysis.replayed_waits import WaitSummary, replayed_waits
from seatrial.analysis.studies import Study
from seatrial.model.errors import UsageProblem
from seatrial.traces import swf
from seatrial.traces.arrivals import arrivals
from seatrial.traces.inspecting import inspect
from seatrial.traces.options import TraceOptions
from seatrial.traces.reading import Trace, read

LIMITS_S = ((50_000, 30.0), (1_000_000, 180.0))  # jobs, seconds
LARGEST_OF_SINGLE = 1000  # processors: beyond, nodes have several
PER_NODE = 16
WAIT = "  - wait: {for: completed, timeout: 3000d}\n"
LATE_S = 0.1  # p99, on `local`


@dataclass(frozen=True)
class Case:
    """A scenario of one trace."""

    name: str
    jobs: int
    text: str
    on: str = "sim"


def cases(paths: list[Path]) -> Iterator[Case]:
    """A case per trace; a list of nodes belongs to OpenB's pods."""
    nodes = [path for path in paths if _is_node_list(path)]
    for path in paths:
        if path in nodes:
            continue
        trace = read(path)
        jobs = trace.jobs.height
        if trace.format.name == "openb":
            if not nodes:
                sys.exit("traces: OpenB's pods need its list of nodes (openb_node_list_all_node.csv) beside them")
            yield Case("openb", jobs, _openb(path, nodes[0]))
        elif trace.format.name == "philly":
            yield Case("philly", jobs, _philly(trace))
        elif trace.format.name == "swf":
            yield Case(path.name.removesuffix(".gz").removesuffix(".swf"), jobs, _swf(trace))
        else:
            sys.exit(f"traces: {path.name} is {trace.format.about}: no benchmark of it")


def _is_node_list(path: Path) -> bool:
    try:
        read(path)
    except UsageProblem:
        return True
    return False


def _openb(pods: Path, nodes: Path) -> str:
    return f"""name: openb
nodes: {{trace: {nodes.absolute()}, name: openb}}
stacks: [default]
steps:
  - submit: {{name: openb, trace: {pods.absolute()}}}
{WAIT}"""


def slice_of_openb(paths: list[Path]) -> Iterator[Case]:
    """What a control plane on one machine can host; from day 116 on, before which hardly a pod comes, and a tenth as long."""
    nodes = [path for path in paths if _is_node_list(path)]
    pods = [path for path in paths if path not in nodes]
    if len(nodes) != 1 or len(pods) != 1:
        sys.exit("traces: --local needs OpenB's pods and its list of nodes")
    text = f"""name: openb-slice
nodes: {{trace: {nodes[0].absolute()}, name: openb, head: 300}}
stacks: [default]
settings: {{qps: {{equal: 1000}}}}
steps:
  - submit: {{name: openb, trace: {pods[0].absolute()}, from: 116d, head: 1000, speed: fit into 90s, scale: {{durations: 0.1}}}}
{WAIT}"""
    yield Case("openb-slice", 1000, text, "local")


def _swf(trace: Trace) -> str:
    processors = int(swf.header_of(trace.path)["MaxProcs"])
    single = processors <= LARGEST_OF_SINGLE
    count, cpu = (processors, 1) if single else (math.ceil(processors / PER_NODE), PER_NODE)
    more = "" if single else ", gang: false"
    return f"""name: swf
nodes: [{{name: node, count: {count}, capacity: {{cpu: {cpu}, memory: 1Ti}}}}]
stacks: [{"kueue" if single else "default"}]
steps:
  - submit: {{name: jobs, trace: {trace.path.absolute()}{more}}}
{WAIT}"""


def _philly(trace: Trace) -> str:
    """The virtual cluster with most jobs is a queue, all the others are the second."""
    demand = inspect(trace, arrivals(trace.path, TraceOptions())).demands[0].peak
    count = math.ceil(demand / 8)
    largest = trace.jobs["queue"].value_counts(sort=True)["queue"][0]
    quota = "{cpu: 100000, memory: 100000Ti, nvidia.com/gpu: %d}"
    return f"""name: philly
nodes: [{{name: gpu, count: {count}, capacity: {{cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}}}}]
queues:
  largest: {{cohort: all, quota: {quota % (count * 4)}, borrow: any}}
  others: {{cohort: all, quota: {quota % (count * 4)}, borrow: any}}
stacks: [kueue]
steps:
  - submit: {{name: jobs, trace: {trace.path.absolute()}, requests: {{cpu: 1, memory: 1Gi}},
             map: {{queue: {{by: queue, to: {{"{largest}": largest, "*": others}}}}}}}}
{WAIT}"""


def run(case: Case, folder: Path) -> tuple[str, bool]:
    """The line of a case, and whether all is well."""
    (folder / f"{case.name}.yaml").write_text(case.text)
    begin = time.monotonic()
    out = folder / case.name
    command = [
        sys.executable,
        "-m",
        "seatrial",
        "run",
        f"{case.name}.yaml",
        "--on",
        case.on,
        "-q",
        "--force",
        "-o",
        str(out),
    ]
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    took, processor = time.monotonic() - begin, used.ru_utime + used.ru_stime
    if status:
        return f"{case.name}: ended with status {os.waitstatus_to_exitcode(status)}", False
    study = Study.open(out)
    [row] = list(csv.DictReader((out / "summary.csv").open(encoding="utf-8")))
    [trial] = study.trials
    rate = trial.document["validity"]["rates"][0]
    limit = next(limit for most, limit in LIMITS_S if case.jobs <= most)
    in_time = took <= limit if case.on == "sim" else rate["late_p99_s"] < LATE_S
    well = row["outcome"] == "completed" and row["valid"] == "true" and in_time
    met = "met" if in_time else "missed"
    asked = f"at most {limit:.0f} s" if case.on == "sim" else f"at most {LATE_S * 1e3:.0f} ms late"
    line = (
        f"{case.name}: {int(row['workloads']):,} jobs, {int(row['pods']):,} pods on {int(row['nodes']):,} nodes, "
        f"{trial.document['stack']}: {took:.1f} s ({processor:.1f} s of processor; {asked}: {met}), "
        f"{used.ru_maxrss / 2**20:.2f} GiB; {row['outcome']}, {'valid' if row['valid'] == 'true' else 'not valid'}, "
        f"sent {rate['late_p99_s'] * 1e3:.1f} ms after due (p99); cpu {_percent(row['cpu_util'])}, GPUs {_percent(row['gpu_util'])}"
    )
    for waits in replayed_waits(study.lifecycle(trial)):
        line += (
            f"; waits of {waits.jobs:,} jobs: {_words(waits.recorded)} in the trace, {_words(waits.replayed)} replayed"
        )
        then, now = waits.recorded.lasted_s, waits.replayed.lasted_s
        if then and now and row["cpu_util"]:
            line += f"; cpu in the trace {float(row['cpu_util']) * now / then:.1%}"
    return line, well


def _words(of: WaitSummary) -> str:
    return f"mean {of.mean_s:,.0f} s, p50 {of.quantiles_s[0]:,.0f} s, p99 {of.quantiles_s[2]:,.0f} s"


def _percent(text: str) -> str:
    return f"{float(text):.1%}" if text else "none"


def main() -> None:
    """Prints a line per trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--keep", type=Path, help="directory for the studies")
    parser.add_argument("--local", action="store_true", help="a slice of OpenB on a real control plane")
    options = parser.parse_args()
    if not options.paths:
        print("traces: no paths of real traces given, nothing measured")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        well = True
        for case in (slice_of_openb if options.local else cases)(options.paths):
            line, fine = run(case, folder)
            well &= fine
            print(f"traces: {line}; load average {os.getloadavg()[0]:.1f}", flush=True)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
