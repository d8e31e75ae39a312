"""From nothing running to a pod that runs on a fake node: ours beside `kwokctl create cluster --runtime binary`.

Both start the same binaries, from the cache, taking turns; both are timed from the start of their command, by the same
client, until a node and a pod created at once are Ready and Running. `--leaks N` takes a cluster up and down N times
and counts processes, listening ports and files before and after.

    python benchmarks/local_up.py [--rounds 3] [--leaks 10]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from seatrial.clusters import programs
from seatrial.clusters.programs.binaries import ensure_binaries

SOURCE = Path(__file__).parents[1] / "src"
COMMAND = "from seatrial.cli.cluster import cluster_app; cluster_app()"
NODE = {"metadata": {"name": "fake-0", "annotations": {"kwok.x-k8s.io/node": "fake"}}}
POD = {"metadata": {"name": "first"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}


class Client:
    """The same plain client for both: whatever a kubeconfig names, nothing else."""

    def __init__(self, kubeconfig: Path, scratch: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self._host = urlsplit(cluster["server"]).netloc
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        certificate, key = (_file(user, f"client-{part}", scratch / part) for part in ("certificate", "key"))
        self._tls.load_cert_chain(certificate, key)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=5)
        try:
            connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            connection.close()


def _file(user: dict[str, str], name: str, target: Path) -> Path:
    if name in user:
        return Path(user[name])
    target.write_bytes(b64decode(user[f"{name}-data"]))
    return target


def until_a_pod_runs(client: Client, patience_s: float = 60) -> None:
    until = time.monotonic() + patience_s
    pods = "/api/v1/namespaces/default/pods"
    todo = [("/api/v1/nodes", NODE), (pods, POD)]
    while time.monotonic() < until:
        try:
            while todo:
                path, body = todo[0]
                if client.call("POST", path, body)[0] not in (201, 409):
                    break
                todo.pop(0)
            if not todo and client.call("GET", f"{pods}/first")[1]["status"]["phase"] == "Running":
                return
        except (OSError, KeyError, ValueError):
            pass
        time.sleep(0.01)
    raise SystemExit("no pod ran within a minute")


def ours(binaries: dict[str, Path], scratch: Path) -> tuple[float, Callable[[], object]]:
    surroundings = {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_STATE_HOME": str(scratch / "state")}
    directory = scratch / "ready"
    directory.mkdir(exist_ok=True)
    for name, path in binaries.items():
        if not (directory / name).exists():
            (directory / name).symlink_to(path)

    def run(*args: str) -> str:
        command = [sys.executable, "-c", COMMAND, *args]
        return subprocess.run(command, env=surroundings, check=True, capture_output=True, text=True).stdout

    begun = time.monotonic()
    run("up", "bench", "--binaries", str(directory))
    kubeconfig = scratch / "state/seatrial/clusters/bench/kubeconfig/seatrial.yaml"
    until_a_pod_runs(Client(kubeconfig, scratch))
    return time.monotonic() - begun, lambda: run("down", "bench")


def kwokctl(binaries: dict[str, Path], scratch: Path) -> tuple[float, Callable[[], object]]:
    kubeconfig = scratch / "kwokctl.yaml"
    surroundings = {**os.environ, "KWOK_WORKDIR": str(scratch / "kwok"), "HOME": str(scratch)}
    common = ["--name", "bench", "--kubeconfig", str(kubeconfig)]
    flags = [
        f"--{'kwok-controller' if name == 'kwok' else name}-binary={path}"
        for name, path in binaries.items()
        if name in {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}
    ]

    def run(*args: str) -> None:
        subprocess.run([binaries["kwokctl"], *args, *common], env=surroundings, check=True, capture_output=True)

    begun = time.monotonic()
    run("create", "cluster", "--runtime", "binary", "--wait", "60s", *flags)
    until_a_pod_runs(Client(kubeconfig, scratch))
    return time.monotonic() - begun, lambda: run("delete", "cluster")


def compare(binaries: dict[str, Path], rounds: int) -> None:
    times: dict[str, list[float]] = {"ours": [], "kwokctl": []}
    downs: dict[str, list[float]] = {"ours": [], "kwokctl": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, start in (("ours", ours), ("kwokctl", kwokctl)):
                seconds, stop = start(binaries, Path(folder))
                times[name].append(seconds)
                begun = time.monotonic()
                stop()
                downs[name].append(time.monotonic() - begun)
    up = {name: statistics.median(values) for name, values in times.items()}
    down = {name: statistics.median(values) for name, values in downs.items()}
    print(
        f"local_up rounds={rounds} ours_s={up['ours']:.2f} kwokctl_s={up['kwokctl']:.2f} "
        f"ratio={up['ours'] / up['kwokctl']:.2f} ours_down_s={down['ours']:.2f} kwokctl_down_s={down['kwokctl']:.2f} "
        f"all_ours={[round(t, 2) for t in times['ours']]} all_kwokctl={[round(t, 2) for t in times['kwokctl']]}"
    )


def leaks(binaries: dict[str, Path], times: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        _, stop = ours(binaries, scratch)
        stop()
        before = _census(scratch)
        for _ in range(times):
            _, stop = ours(binaries, scratch)
            stop()
        after = _census(scratch)
    more = {name: after[name] - before[name] for name in before}
    print(f"local_leaks times={times} " + " ".join(f"{name}={number:+d}" for name, number in more.items()))


def _census(scratch: Path) -> dict[str, int]:
    """Only what can be ours: other people use this machine too."""
    processes, ports = 0, set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(scratch) in str((entry / "cwd").readlink()):
                processes += 1
            if entry.name.isdigit() and b"seatrial.clusters.local.keeper" in (entry / "cmdline").read_bytes():
                processes += 1
        except OSError:
            continue
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[7] == str(os.getuid()):
            ports.add(fields[1])
    return {"processes": processes, "listening_ports": len(ports), "files": sum(1 for _ in scratch.rglob("*"))}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time from nothing to a running pod.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--leaks", type=int, default=0, help="take it up and down this many times instead")
    arguments = parser.parse_args()
    binaries = ensure_binaries([*programs.CONTROL_PLANE, *programs.PEERS])
    if arguments.leaks:
        leaks(binaries, arguments.leaks)
    else:
        compare(binaries, arguments.rounds)


if __name__ == "__main__":
    main()
