"""`seatrial record nodes`: what becomes of the nodes of a real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from seatrial.kube.shapes import Node
from seatrial.model.plan import Taint
from seatrial.observe.anonymising import NameHider
from seatrial.observe.recorded_nodes import node_groups_of
from seatrial.scenario.document import from_text
from seatrial.scenario.expansion import expand
from seatrial.study.node_recording import _as_yaml, _write_csv
from seatrial.traces.node_lists import NodePart, node_kinds

OPEN = NameHider()


def node(number: int, memory: str = "1000Gi", **more: Any) -> Node:
    """A GPU node as a kubelet writes it; `more`: labels, taints, cordoned."""
    labels = {
        "kubernetes.io/hostname": f"ip-10-0-0-{number}", "kubernetes.io/arch": "amd64", "pool.acme.com/team": "vision",
        "csi.acme.com/instance": f"i-{number:04}", "nvidia.com/gpu.product": "NVIDIA-A100", **more.get("labels", {}),
    }  # fmt: skip
    document = {
        "metadata": {"name": f"ip-10-0-0-{number}", "labels": labels},
        "spec": {"taints": more.get("taints", []), "unschedulable": more.get("cordoned", False)},
        "status": {
            "capacity": {"cpu": "128"},
            "allocatable": {"cpu": "127500m", "memory": memory, "pods": "110", "nvidia.com/gpu": "8", "hugepages-1Gi": "0",
                            "attachable-volumes-csi": "39", "acme.com/fpga": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }  # fmt: skip
    return msgspec.convert(document, Node)


def test_nodes_alike_become_one_group_of_what_pods_can_have() -> None:
    [group], notes = node_groups_of([node(n) for n in range(4)], OPEN)
    assert (group.name, group.count) == ("nvidia-a100", 4)
    assert dict(group.capacity) == {
        "cpu": 127500, "memory": 1000 << 30, "pods": 110, "nvidia.com/gpu": 8, "acme.com/fpga": 2,
    }  # fmt: skip
    assert dict(group.labels) == {
        "kubernetes.io/arch": "amd64", "pool.acme.com/team": "vision", "nvidia.com/gpu.product": "NVIDIA-A100",
    }  # fmt: skip
    assert notes == [
        "2 labels left out, with another value on every node: csi.acme.com/instance, kubernetes.io/hostname"
    ]


def test_a_few_mebibytes_make_no_other_kind_and_half_the_memory_does() -> None:
    groups, notes = node_groups_of([node(1, "1000Gi"), node(2, "999Gi"), node(3, "1003Gi"), node(4, "500Gi")], OPEN)
    assert [(one.name, one.count, one.capacity["memory"] >> 30) for one in groups] == [
        ("nvidia-a100", 3, 999),
        ("nvidia-a100-2", 1, 500),
    ]
    assert "memory of 2 nodes rounded down, by less than 1%, to that of nodes like them" in notes


def test_taints_of_a_node_s_health_are_left_out_and_the_others_kept() -> None:
    taints = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "ml", "effect": "NoExecute"},
    ]
    [group], notes = node_groups_of([node(n, taints=taints, cordoned=n == 1) for n in range(3)], OPEN)
    assert group.taints == (Taint("dedicated", "ml", "NoExecute"),)
    assert "1 node not ready or cordoned: written as if they were well" in notes


def test_on_request_no_name_of_the_cluster_s_own_is_written_and_what_is_alike_stays_alike() -> None:
    taints = [{"key": "acme.com/team", "value": "vision", "effect": "NoSchedule"}]
    nodes = [node(n, labels={"acme-zone": "a" if n < 2 else "b"}, taints=taints) for n in range(4)]
    groups, notes = node_groups_of(nodes, NameHider(b"salt"))
    written = _as_yaml(groups) + "\n".join(notes)
    assert not [word for word in ("acme", "vision", "ip-10", "i-000") if word in written]
    assert "NVIDIA-A100" in written, "everybody has this word"
    assert [one.count for one in groups] == [2, 2]
    [team] = [value for key, value in groups[0].labels.items() if key.startswith("label-") and value in
              {taint.value for taint in groups[0].taints}]  # fmt: skip
    assert team.startswith("value-")


def test_what_is_written_is_read_as_the_nodes_of_a_scenario(tmp_path: Path) -> None:
    taints = [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]
    groups, _ = node_groups_of([node(1), node(2), node(3, "64Gi", taints=taints)], OPEN)
    (tmp_path / "nodes.yaml").write_text(_as_yaml(groups))
    scenario = "name: x\nnodes: {trace: nodes.yaml, labels: {zone: a}}\nstacks: [default]\nsteps: [{pause: 1s}]\n"
    trial = expand(from_text(scenario, str(tmp_path / "s.yaml")), on="sim", stacks={"default": ()}, repeat=1)[0]
    for read, group in zip(trial.setup.nodes, groups, strict=True):
        assert (read.name, read.count, dict(read.capacity), read.taints) == (
            group.name, group.count, dict(group.capacity), group.taints,
        )  # fmt: skip
        assert read.labels == {**group.labels, "zone": "a"}
    assert isinstance(yaml.safe_load(_as_yaml(groups)), list), "as `cluster up --nodes` reads it"


def test_a_csv_has_a_row_per_node_and_reads_as_a_list_of_nodes(tmp_path: Path) -> None:
    groups, _ = node_groups_of([node(1), node(2), node(3, "64Gi")], OPEN)
    _write_csv(groups, tmp_path / "nodes.csv")
    kinds = node_kinds(tmp_path / "nodes.csv", {}, NodePart())
    assert [(kind.count, kind.cpu_milli, kind.memory_bytes, kind.gpus, kind.model) for kind in kinds] == [
        (2, 127500, 1000 << 30, 8, "NVIDIA-A100"),
        (1, 127500, 64 << 30, 8, "NVIDIA-A100"),
    ]
