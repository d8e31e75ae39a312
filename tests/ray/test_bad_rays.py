"""A Ray that cannot run a study is refused before anything is written, in a line with a remedy."""

from __future__ import annotations

import platform
import shutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conftest import Seatrial
from tests.ray_nodes import ray_of

TINY = """
name: tiny
params: {jobs: 1}
nodes: [{name: n, count: 1, capacity: {cpu: 4, memory: 8Gi}}]
stacks: [default]
steps:
  - submit: {name: load, count: "${jobs}", duration: 1s, requests: {cpu: 10m}}
  - wait: {for: completed, timeout: 1m}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY)
    return file


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Bound, but nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


class _Page(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web_port() -> Iterator[int]:
    """A web server, as Ray's dashboard is one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("address", ["nonsense", "ray://", "host:0", "http://host:8265"])
def test_what_is_no_address_says_what_addresses_look_like(seatrial: Seatrial, tiny: Path, address: str) -> None:
    done = seatrial("run", tiny, "--ray", address, "-o", "out")
    assert done.returncode == 2
    assert "no address of a Ray" in done.stderr
    assert "ray://HOST:10001" in done.stderr


def test_an_address_that_does_not_answer_is_said_within_seconds(
    seatrial: Seatrial, tmp_path: Path, tiny: Path, silent_port: int
) -> None:
    for address in (f"127.0.0.1:{silent_port}", f"ray://127.0.0.1:{silent_port}"):
        done = seatrial("run", tiny, "--ray", address, "-o", "out")
        assert done.returncode == 3
        assert f"127.0.0.1:{silent_port} does not answer: Connection refused" in done.stderr
        assert "ray status" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_port_of_a_dashboard_is_no_ray(seatrial: Seatrial, tiny: Path, web_port: int) -> None:
    done = seatrial("run", tiny, "--ray", f"127.0.0.1:{web_port}", "-o", "out")
    assert done.returncode == 3
    assert "is no Ray" in done.stderr
    assert "8265 is its dashboard" in done.stderr


def test_auto_without_a_ray_names_the_ways_to_one(seatrial: Seatrial, tmp_path: Path, tiny: Path) -> None:
    done = seatrial("run", tiny, "--ray", "auto", "-o", "out", RAY_TMPDIR=str(tmp_path), RAY_ADDRESS="")
    assert done.returncode == 3
    assert "no Ray is running on this machine" in done.stderr
    assert "ray start --head" in done.stderr


def test_without_ray_the_extra_is_named(seatrial: Seatrial, tmp_path: Path, tiny: Path) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "ray.py").write_text("raise ImportError(\"No module named 'ray'\")")
    done = seatrial("run", tiny, "--ray", "local", "-o", "out", PYTHONPATH=str(absent))
    assert done.returncode == 3
    assert "pip install 'seatrial[ray]'" in done.stderr


def test_trials_on_one_cluster_that_stays_have_no_use_for_other_machines(seatrial: Seatrial) -> None:
    done = seatrial("run", "many-small-jobs", "--on", "kubeconfig", "--context", "none", "--ray", "auto", "-o", "out")
    assert done.returncode == 2
    assert "take turns" in done.stderr


def test_a_load_from_several_machines_says_what_it_lacks(seatrial: Seatrial, tmp_path: Path) -> None:
    file = tmp_path / "load.yaml"
    asks = "  - get: {name: look, objects: {apiVersion: v1, kind: Namespace, metadata: {name: default}}, count: 5}\n"
    nodes = "nodes: [{name: n, count: 1, capacity: {cpu: 4, memory: 8Gi}}]\n"
    file.write_text(f"name: load\n{nodes}stacks: [default]\nclient: {{machines: 3}}\nsteps:\n{asks}")
    without = seatrial("run", file, "--on", "kubeconfig", "--context", "none", "-o", "out")
    assert without.returncode == 2
    assert "sends its load from 3 machines" in without.stderr and "--ray ADDRESS" in without.stderr
    alone = seatrial("run", file, "--on", "local", "-o", "out")
    assert alone.returncode == 3
    assert "a control plane of the trial's own is reached from this one alone" in alone.stderr
    simulated = seatrial("run", file, "--dry-run")
    assert "the simulator's load comes from one client, not from 3 machines" in simulated.stderr


def test_a_machine_with_another_python_or_numpy_is_refused(seatrial: Seatrial, tmp_path: Path, tiny: Path) -> None:
    other = _other_python(tmp_path, "import platform\nplatform.python_version_tuple = lambda: ('3', '10', '2')\n")
    (other / "numpy-1.0.dist-info").mkdir()
    (other / "numpy-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.0\n")
    with ray_of({"num_cpus": 0}, {"num_cpus": 1}, {"num_cpus": 1, "env_vars": {"PYTHONPATH": str(other)}}) as nodes:
        done = seatrial("run", tiny, "--ray", nodes.address, "-o", "out")
    assert done.returncode == 3
    assert f"the machine {socket.gethostname()}" in done.stderr
    assert "would not give the same figures" in done.stderr
    assert "Python is 3.10" in done.stderr and "numpy is 1.0" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_ray_of_another_python_is_refused_with_both_versions(seatrial: Seatrial, tiny: Path) -> None:
    with ray_of({"num_cpus": 1, "python": "3.12.1"}) as nodes:
        done = seatrial("run", tiny, "--ray", nodes.address, "-o", "out")
    assert done.returncode == 3
    assert "Python: 3.12.1" in done.stderr
    assert f"Python: {platform.python_version()}" in done.stderr
    assert "use the same versions" in done.stderr


def test_a_trial_that_fits_on_no_machine_is_refused_with_the_largest(seatrial: Seatrial, tiny: Path) -> None:
    with ray_of({"num_cpus": 0}, {"num_cpus": 1, "memory": 300 * 2**20}) as nodes:
        done = seatrial("run", tiny, "--ray", nodes.address, "--set", "jobs=100000", "-o", "out")
        empty = seatrial("run", tiny, "--ray", nodes.address, "-o", "small")
    assert done.returncode == 3
    assert "001-default-r1 takes about" in done.stderr
    assert "has 300 MiB" in done.stderr
    assert empty.returncode == 0


def test_a_ray_without_a_core_for_tasks_is_refused_and_so_is_a_machine_without_go(
    seatrial: Seatrial, tmp_path: Path, tiny: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "bash").symlink_to(str(shutil.which("bash")))  # with which Ray starts workers
    no_pip = _other_python(tmp_path, "import sys\nsys.modules['pip'] = None\n")
    bare = {"PATH": str(programs), "PYTHONPATH": str(no_pip), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with ray_of({"num_cpus": 0}) as nodes:
        done = seatrial("run", tiny, "--ray", nodes.address, "-o", "out")
    assert done.returncode == 3
    assert "no machine of the Ray has a core for trials" in done.stderr
    with ray_of({"num_cpus": 0}, {"num_cpus": 1, "env_vars": bare}) as nodes:
        done = seatrial("run", tiny, "--on", "local", "--ray", nodes.address, "-o", "out")
    assert done.returncode == 3
    assert f"the machine {socket.gethostname()}" in done.stderr
    assert "lacks Go 1.26" in done.stderr
    assert "install Go 1.26" in done.stderr


def _other_python(folder: Path, sitecustomize: str) -> Path:
    """A folder for PYTHONPATH that makes a Python appear as another one."""
    other = folder / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(sitecustomize)
    return other
