"""`kill -9` of a run while its kubelets work: is anything left after the next command?

    python benchmarks/kubelets_killed.py [--kills 10] [--kubelet true|containers] [--seed N]

Each run has four kubelets that pods come to and leave all the time. It is killed at a random moment of the 20 s after its first
kubelet has a directory: while nodes register, while pods start, run and end. The next command is `seatrial cluster status`. Left
over is a process that works in our directories or has them in its command or environment; a mount, network namespace or cgroup
that was not there before; and a file of the cluster. Run it alone: network namespaces and cgroups that others make count too.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCENARIO = """
name: killed
nodes:
  - {{name: node, count: 4, kubelet: {kubelet}, capacity: {{cpu: 4, memory: 2Gi}}{runtime}}}
stacks: [default]
steps:
  - submit: {{name: short, count: 400, rate: 10/s, duration: 2s, requests: {{cpu: 100m, memory: 20M}}}}
  - wait: {{for: completed, timeout: 5m}}
"""
SPREAD_S = 20.0
BEGINS_WITHIN_S = 120.0  # before that kubelets do not run: a control plane takes some five seconds
CGROUPS, NAMED = Path("/sys/fs/cgroup"), Path("/run/netns")


def network_namespaces() -> set[str]:
    """Those of processes and those with a name."""
    found = {str(one) for one in NAMED.iterdir()} if NAMED.is_dir() else set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                found.add(str((process / "ns" / "net").readlink()))
            except OSError:
                continue  # it has ended, or is another user's
    return found


def cgroups() -> set[str]:
    return {where for where, _, _ in os.walk(CGROUPS)}


def mounts() -> set[str]:
    return {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}


def processes(folder: Path) -> list[str]:
    """Everything that works below the folder, or was told of it."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            where = (process / "cwd").readlink()
            command = (process / "cmdline").read_bytes()
            told = os.fsencode(folder) in command + (process / "environ").read_bytes()
        except OSError:
            continue
        if told or where.is_relative_to(folder):
            found.append(f"{process.name} {command[:100].replace(bytes(1), b' ').decode(errors='replace')}")
    return found


def one_kill(kubelet: str, after_s: float) -> tuple[int, list[str]]:
    """How many processes the kill met, and what was left after the next command."""
    with tempfile.TemporaryDirectory(prefix="kubelets-killed-") as name:
        folder = Path(name).resolve()
        runtime = ", runtime: {sandbox: 100ms, start: 300ms}" if kubelet == "true" else ""
        (folder / "killed.yaml").write_text(SCENARIO.format(kubelet=kubelet, runtime=runtime))
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        before = mounts(), network_namespaces(), cgroups()
        command = [sys.executable, "-m", "seatrial"]
        with (folder / "said").open("wb") as said:
            run = subprocess.Popen(
                [*command, "run", "killed.yaml", "--on", "local", "-o", "out"],
                cwd=folder, env=environment, stdout=said, stderr=said,
            )  # fmt: skip
            until = time.monotonic() + BEGINS_WITHIN_S
            while not any(folder.glob("state/seatrial/clusters/*/kubelets/*")):
                if run.poll() is not None or time.monotonic() > until:
                    run.kill()
                    sys.exit(f"kubelets_killed: no kubelet began\n{(folder / 'said').read_text()}")
                time.sleep(0.02)
            time.sleep(after_s)
            if run.poll() is not None:
                sys.exit(f"kubelets_killed: the run ended before its kill\n{(folder / 'said').read_text()}")
            met = len(processes(folder))
            run.kill()
            run.wait()
        subprocess.run([*command, "cluster", "status"], cwd=folder, env=environment, check=True, capture_output=True)
        left = [f"process {one}" for one in processes(folder)]
        after = mounts(), network_namespaces(), cgroups()
        for what, was, now in zip(("mount", "network namespace", "cgroup"), before, after, strict=True):
            left += [f"{what} {one}" for one in sorted(now - was)]
        left += [f"file {one}" for one in folder.glob("state/seatrial/clusters/*/*")]
        return met, left


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=10)
    options.add_argument("--kubelet", choices=("true", "containers"), default="true")
    options.add_argument("--seed", type=int, default=1)
    asked = options.parse_args()
    drawn = random.Random(asked.seed)
    clean, moments = 0, []
    for number in range(asked.kills):
        after_s = drawn.uniform(0, SPREAD_S)
        met, left = one_kill(asked.kubelet, after_s)
        clean += not left
        moments.append(f"{after_s:.1f}")
        print(
            f"kill {number + 1} of {asked.kills}, {after_s:.1f} s after the first kubelet, {met} processes", flush=True
        )
        for one in left:
            print(f"  left: {one}", flush=True)
    print(
        f"kubelets_killed: nothing left after {clean} of {asked.kills} kills (kubelet: {asked.kubelet}), "
        f"{', '.join(moments)} s after the first kubelet; load average {os.getloadavg()[0]:.1f}"
    )
    sys.exit(clean < asked.kills)


if __name__ == "__main__":
    main()
