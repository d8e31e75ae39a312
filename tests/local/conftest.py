"""One real control plane for all tests that only use it, kept by a keeper; its state is in a folder of this session."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seatrial.clusters import programs
from seatrial.clusters.access import kept_clusters
from seatrial.clusters.kwok.stage_objects import default_stages
from seatrial.clusters.local import kept_planes
from seatrial.clusters.local.components import PlaneOptions
from seatrial.clusters.programs.binaries import ensure_binaries

SOURCE = Path(kept_planes.__file__).parents[3]


@pytest.fixture(scope="session")
def binaries() -> dict[str, Path]:
    return ensure_binaries([*programs.CONTROL_PLANE, programs.KUBECTL])


@pytest.fixture(scope="session")
def cluster(binaries: dict[str, Path]) -> Iterator[kept_clusters.KeptCluster]:
    found = kept_planes.up("shared", PlaneOptions(stages=default_stages()), binaries)
    yield found
    kept_planes.down("shared")


Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def kubectl(
    cluster: kept_clusters.KeptCluster, binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    """kubectl as the user runs it, with nothing but our kubeconfig."""
    surroundings = {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("home"))}

    def run(*args: str, given: str = "", identity: str = "seatrial") -> subprocess.CompletedProcess[str]:
        command = [str(binaries["kubectl"]), "--kubeconfig", str(cluster.kubeconfig(identity)), *args]
        return subprocess.run(
            command, input=given, text=True, capture_output=True, timeout=60, check=True, env=surroundings
        )

    return run


Seatrial = Callable[..., "subprocess.CompletedProcess[str]"]

_MAIN = """
import sys
from seatrial.cli.cluster import cluster_app
from seatrial.model.errors import SeatrialError
try:
    cluster_app()
except SeatrialError as error:
    print("\\n".join(error.lines()), file=sys.stderr)
    sys.exit(error.exit_status)
"""


@pytest.fixture(scope="session")
def seatrial_cluster() -> Seatrial:
    """`seatrial cluster …` in a process of its own."""

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", _MAIN, *args],
            env=python_env(**env), text=True, capture_output=True, timeout=1800, check=False,
        )  # fmt: skip

    return run


def python_env(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), **more}


def start_python(script: str) -> subprocess.Popen[str]:
    """A process that runs the script with our package, for tests that kill it."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], env=python_env(), text=True, stdout=subprocess.PIPE
    )


@pytest.fixture(name="start_python")
def start_python_fixture() -> Callable[[str], subprocess.Popen[str]]:
    return start_python
