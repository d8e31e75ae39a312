"""`seatrial cluster …` as people type it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.clusters.supervision.directories import clusters_root
from seatrial.clusters.supervision.procfs import identify
from tests.waiting import eventually

Seatrial = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("command", ["up", "down", "status", "kubeconfig", "logs", "build"])
def test_every_command_explains_itself_with_an_example(seatrial_cluster: Seatrial, command: str) -> None:
    answer = seatrial_cluster(command, "--help", COLUMNS="200", NO_COLOR="1", TERM="dumb")
    assert answer.returncode == 0
    assert "Example: " in answer.stdout


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        (("down", "nowhere"), 3, "no cluster 'nowhere'"),
        (("kubeconfig", "nowhere"), 3, "no cluster 'nowhere'"),
        (("logs", "--name", "nowhere"), 3, "no cluster 'nowhere'"),
        (("status", "No/Name"), 2, "cannot be the name"),
        (("up", "x", "--qps", "fast"), 2, "--qps fast"),
        (("up", "x", "--stages", "no-such-file"), 3, "cannot be read"),
        (("up", "x", "--binaries", "no-such-directory"), 3, "no program called etcd"),
    ],
)
def test_a_wrong_command_is_one_clear_error(
    seatrial_cluster: Seatrial, args: tuple[str, ...], status: int, says: str
) -> None:
    answer = seatrial_cluster(*args)
    assert answer.returncode == status, answer
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (clusters_root() / "x").exists()


@pytest.mark.local
@pytest.mark.timeout(1800)
def test_the_life_of_a_cluster(seatrial_cluster: Seatrial, binaries: dict[str, Path], tmp_path: Path) -> None:
    def seatrial(*args: str) -> subprocess.CompletedProcess[str]:
        return seatrial_cluster(*args, XDG_STATE_HOME=str(tmp_path))

    assert "is up after" in seatrial("up", "mine").stdout
    again = seatrial("up", "mine")
    assert (again.returncode, "already up" in again.stderr) == (3, True)
    assert seatrial("up", "other").returncode == 0
    assert {line.split()[0] for line in seatrial("status").stdout.splitlines()} == {"NAME", "mine", "other"}
    assert "kube-scheduler" in seatrial("status", "mine").stdout
    config = seatrial("kubeconfig", "mine").stdout.strip()
    nodes = subprocess.run(
        [binaries["kubectl"], "--kubeconfig", config, "get", "nodes"], check=True, capture_output=True, timeout=30
    )
    assert nodes.stderr == b"No resources found\n"
    assert "kwok" in seatrial("logs", "kwok", "--name", "mine").stdout
    assert seatrial("logs", "nobody", "--name", "mine").returncode == 2
    assert seatrial("kubeconfig", "mine", "--as", "nobody").returncode == 2
    assert seatrial("down", "mine").stdout == "The cluster 'mine' is gone.\n"
    assert seatrial("down", "--all").stdout == "The cluster 'other' is gone.\n"
    assert seatrial("down", "--all").stdout == "No clusters.\n"
    assert list((tmp_path / "seatrial" / "clusters").iterdir()) == [tmp_path / "seatrial" / "clusters" / ".lock"]


@pytest.mark.local
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("binaries")
def test_a_port_that_is_taken_is_a_clear_error(seatrial_cluster: Seatrial) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        answer = seatrial_cluster("up", "crowded", "--port", str(other.getsockname()[1]))
    assert answer.returncode == 3
    assert "is taken" in answer.stderr
    assert not (clusters_root() / "crowded").exists()


@pytest.mark.local
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("binaries")
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGKILL])
def test_a_start_that_is_interrupted_leaves_nothing(sig: signal.Signals) -> None:
    """Also after `kill -9` of the command: the keeper notices that nobody waits for it."""
    code = "from seatrial.cli.cluster import cluster_app; cluster_app()"
    source = Path(sys.modules["seatrial"].__file__ or "").parents[1]
    directory = clusters_root() / "hasty"
    with subprocess.Popen(
        [sys.executable, "-c", code, "up", "hasty"],
        env={**os.environ, "PYTHONPATH": str(source)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as command:  # fmt: skip
        assert eventually((directory / "logs" / "kube-apiserver.log").exists)
        command.send_signal(sig)
    assert eventually(lambda: not directory.exists(), 20)
    running = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and _runs_in(entry, directory)]
    assert running == []


def _runs_in(process: Path, directory: Path) -> bool:
    try:
        return str(directory) in str((process / "cwd").readlink()) and identify(int(process.name)) is not None
    except OSError:
        return False
