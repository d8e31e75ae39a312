"""A Ray of several nodes on this machine, in a process of its own: raylets of its own for every node, all on the loopback address.

`python tests/ray_nodes.py '[{"num_cpus": 0}, {"num_cpus": 1}]'` prints a line of JSON (address, pid of every node's raylet) and
stays until its standard input ends. What a node is given goes to Ray's own `Cluster.add_node`, but for
`python` of the head. Nothing stays behind, also if its parent is killed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import eventually


@dataclass(frozen=True)
class RayNodes:
    """A running Ray: where it is reached, and the pids of its raylets; the first is that of the head."""

    address: str
    client: str  # for `ray://`, if the head was given a port for it
    raylets: Sequence[int]
    temporary: Path  # of Ray

    def trials(self) -> list[Path]:
        """The folders of trials that run now, or that dead workers have left."""
        return [path.parent for path in self.temporary.glob("seatrial-trial-*/*/trial.json")]

    def busy(self, node: int) -> list[int]:
        """Pids of its workers that run a trial now."""
        return [pid for pid in _children(self.raylets[node]) if re.match(r"ray::\d{3}-", _command(pid))]


@contextmanager
def ray_of(*nodes: Mapping[str, Any]) -> Iterator[RayNodes]:
    """A Ray with these nodes, the head first, while the block runs."""
    home = Path(__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, __file__, json.dumps(nodes)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(home)},
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    with process:
        try:
            line = process.stdout.readline()
            assert line, "no Ray came up"
            found = json.loads(line)
            yield RayNodes(found["address"], found["client"], found["raylets"], Path(found["temporary"]))
        finally:
            process.stdin.close()
            process.stdout.read()
            process.wait(60)


def kill(pid: int) -> None:
    """`kill -9`, and waits until the process is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not _command(pid))


def _children(parent: int) -> list[int]:
    with suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()] + [
            int(pid)
            for task in Path(f"/proc/{parent}/task").iterdir()
            if task.name != str(parent)
            for pid in (task / "children").read_text().split()
        ]
    return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def _serve(nodes: Sequence[Mapping[str, Any]]) -> None:
    temporary = tempfile.mkdtemp(prefix="st-")  # short: sockets have paths of at most 107 bytes
    os.environ |= {
        "TMPDIR": temporary, "RAY_TMPDIR": temporary, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0",
        # Dead nodes are noticed within seconds. Ray's own tests do the same.
        "RAY_health_check_initial_delay_ms": "0", "RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "4",
    }  # fmt: skip
    (Path(temporary) / "ray").mkdir()
    from ray.cluster_utils import Cluster

    try:
        head = {"node_ip_address": "127.0.0.1", "include_dashboard": False, **nodes[0]}
        pretended = head.pop("python", "")
        cluster = Cluster(initialize_head=True, head_node_args=head)
        started = [cluster.head_node, *(cluster.add_node(node_ip_address="127.0.0.1", **one) for one in nodes[1:])]
        if pretended:
            _pretend(pretended, cluster.head_node)
        raylets = [node.all_processes["raylet"][0].process.pid for node in started]
        port = nodes[0].get("ray_client_server_port")
        line = {
            "address": cluster.address, "client": f"ray://127.0.0.1:{port}" if port else "", "raylets": raylets,
            "temporary": temporary,
        }  # fmt: skip
        print(json.dumps(line), flush=True)
        sys.stdin.read()
        cluster.shutdown()  # type: ignore[no-untyped-call]
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _pretend(python: str, head: Any) -> None:
    """As if the Ray had been started with another Python: it keeps what its first process was."""
    client = head.get_gcs_client()
    key, namespace = b"CLUSTER_METADATA", b"cluster"
    known = json.loads(client.internal_kv_get(key, namespace))
    client.internal_kv_put(key, json.dumps({**known, "python_version": python}).encode(), True, namespace)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
