"""One kept control plane for all that is looked at here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seatrial.clusters import programs
from seatrial.clusters.programs.binaries import ensure_binaries
from tests.conftest import COMMAND

CLUSTER = "sampled"
NODES = "- {name: fake, count: 10, capacity: {cpu: 32, memory: 64Gi, pods: 500}}\n"
JOB = """
apiVersion: batch/v1
kind: Job
spec:
  template:
    metadata: {annotations: {seatrial.dev/duration: DURATION}}
    spec: {restartPolicy: Never, containers: [{name: main, image: none, resources: {requests: {cpu: 10m}}}]}
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    ensure_binaries(programs.CONTROL_PLANE)
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "nodes.yaml").write_text(NODES)
    up = [*COMMAND, "cluster", "up", CLUSTER, "--nodes", "nodes.yaml", "--qps", "1000"]
    subprocess.run(up, cwd=folder, check=True, capture_output=True, timeout=120)
    yield CLUSTER
    subprocess.run([*COMMAND, "cluster", "down", CLUSTER], check=True, capture_output=True, timeout=60)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start("sample", …)` in the background."""
    begun: list[subprocess.Popen[str]] = []

    def go(*arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)], cwd=tmp_path, env={**os.environ}, stdout=pipe, stderr=pipe, text=True
        )
        begun.append(process)
        return process

    yield go
    for process in begun:
        with process:
            if process.poll() is None:
                process.kill()
