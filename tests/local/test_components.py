"""Descriptions as data: settings become flags, stacks and users amend them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from seatrial.clusters.local.components import PlaneOptions, describe, override
from seatrial.clusters.supervision.ports import Ports
from seatrial.model.control_plane import Component, ControlPlane, Override
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.plan import Scalar
from seatrial.model.settings import CONTROL_PLANE, resolve


@pytest.fixture
def ports() -> Iterator[Ports]:
    made = Ports()
    yield made
    made.release()


def described(ports: Ports, qps: str | float = "as shipped", **given: dict[str, Scalar]) -> ControlPlane:
    named = {name.replace("_", "-"): settings for name, settings in given.items()}
    return describe(PlaneOptions(settings=resolve(CONTROL_PLANE, qps, named), stages="kind: Stage"), ports)


def scheduler_connection(plane: ControlPlane) -> dict[str, Any]:
    return cast(dict[str, Any], cast(dict[str, Any], plane.files["scheduler.yaml"])["clientConnection"])


def test_as_shipped_renders_the_components_own_defaults(ports: Ports) -> None:
    plane = described(ports)
    manager = plane.component("kube-controller-manager")
    assert (manager.value("--kube-api-qps"), manager.value("--kube-api-burst")) == ("20", "30")
    assert scheduler_connection(plane)["qps"] == 50


def test_equal_gives_all_clients_the_same_limit(ports: Ports) -> None:
    plane = described(ports, 5000)
    assert plane.component("kube-controller-manager").value("--kube-api-qps") == "5000"
    assert scheduler_connection(plane)["qps"] == 5000


def test_no_limit_is_what_client_go_understands_as_none(ports: Ports) -> None:
    plane = described(ports, "unlimited")
    assert plane.component("kube-controller-manager").value("--kube-api-qps") == "-1"
    assert scheduler_connection(plane)["qps"] == -1


def test_a_scenario_may_set_any_flag_and_any_gate(ports: Ports) -> None:
    plane = described(
        ports,
        kube_apiserver={"--max-requests-inflight": 8, "feature-gates": "GenericWorkload=true", "args": "--v=2 --x"},
        kube_controller_manager={"job-syncs": 50, "--use-service-account-credentials": True},
    )
    server, manager = plane.component("kube-apiserver"), plane.component("kube-controller-manager")
    assert server.value("--max-requests-inflight") == "8"
    assert server.gates(Other=False).value("--feature-gates") == "GenericWorkload=true,Other=false"
    assert (server.value("--v"), server.value("--x")) == ("2", "true")
    assert manager.value("--concurrent-job-syncs") == "50"
    assert manager.args.count("--use-service-account-credentials=true") == 1


def test_a_setting_that_does_not_exist_is_refused_with_those_that_do(ports: Ports) -> None:
    with pytest.raises(UsageProblem, match="no setting 'speed'") as caught:
        described(ports, kwok={"speed": 9})
    assert "parallelism" in caught.value.remedy


def test_a_users_own_scheduler_takes_the_place_of_ours(ports: Ports, tmp_path: Path) -> None:
    for file in ("mine", "config.yaml"):
        (tmp_path / file).touch()
    own = Override(binary=tmp_path / "mine", config=tmp_path / "config.yaml", args=("--v=4",))
    scheduler = override(described(ports), {"kube-scheduler": own}).component("kube-scheduler")
    assert scheduler.binary == tmp_path / "mine"
    assert scheduler.value("--config") == str(tmp_path / "config.yaml")
    assert scheduler.value("--v") == "4"
    with pytest.raises(SetupProblem, match="there is no file"):
        override(described(ports), {"kwok": Override(config=tmp_path / "absent")})
    with pytest.raises(UsageProblem, match="no component 'kube-sched'"):
        override(described(ports), {"kube-sched": own})


def test_a_stack_adds_and_removes_components(ports: Ports) -> None:
    plane = described(ports).with_component(Component("mcad", Path("mcad"), needs=("kube-apiserver",)))
    assert plane.component("mcad").needs == ("kube-apiserver",)
    assert "kwok" not in {c.name for c in plane.without_component("kwok").components}


def test_without_stages_there_is_no_kwok(ports: Ports) -> None:
    assert "kwok" not in {c.name for c in describe(PlaneOptions(), ports).components}


def test_a_reserved_port_is_ours_until_released() -> None:
    ports = Ports()
    port = ports.reserve()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with pytest.raises(SetupProblem, match=f"port {port} .* is taken"):
        Ports().reserve(port)
    ports.release()
    again = Ports()
    assert again.reserve(port) == port
    again.release()


def test_a_taken_port_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SetupProblem, match=f"port {port} .* is taken") as caught:
            describe(PlaneOptions(port=port), Ports())
    assert "--port" in caught.value.remedy
