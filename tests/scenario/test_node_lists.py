"""`nodes: {trace: FILE}`: the groups that a list of nodes becomes, and what is wrong with it, at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.model.errors import ScenarioProblem
from seatrial.model.plan import NodeGroup, Trial
from seatrial.scenario.actions.replay_trace import ReplayedTrace
from seatrial.scenario.document import from_text, node_list
from seatrial.scenario.expansion import expand
from seatrial.scenario.findings import findings_of
from seatrial.traces.options import GPU_MODEL
from tests.scenario.support import STACKS
from tests.traces import samples

GIB = 1 << 30
STEPS = "steps: [{submit: {name: short, count: 3, duration: 10s}}, {wait: {for: completed}}]\n"
OPENB = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n-{number},{row}\n"
    for number, row in enumerate(
        ["64000,262144,2,P100"] * 3 + ["96000,393216,8,NVIDIA V100"] * 2 + ["16000,122880,2,P100", "32000,65536,0,"]
    )
)


def trial(folder: Path, nodes: str, rest: str = f"stacks: [default]\n{STEPS}", text: str = OPENB) -> Trial:
    (folder / "nodes.csv").write_text(text)
    [only] = expand(from_text(f"name: small\nnodes: {nodes}\n{rest}", str(folder / "s.yaml")), on="sim", stacks=STACKS)
    return only


def wrong(folder: Path, nodes: str, text: str = OPENB, rest: str = f"stacks: [default]\n{STEPS}") -> list[str]:
    with pytest.raises(ScenarioProblem) as caught:
        trial(folder, nodes, rest, text)
    return [str(mistake).replace(f"{folder}/", "") for mistake in caught.value.mistakes]


def groups(found: Trial) -> dict[str, NodeGroup]:
    return {group.name: group for group in found.setup.nodes}


def test_nodes_alike_are_one_group_called_after_their_model(tmp_path: Path) -> None:
    found = groups(trial(tmp_path, "{trace: nodes.csv, name: openb, labels: {zone: a}, capacity: {pods: 250}}"))
    assert {name: group.count for name, group in found.items()} == {
        "openb-p100-1": 3, "openb-nvidia-v100": 2, "openb-p100-2": 1, "openb": 1,
    }  # fmt: skip
    first = found["openb-p100-1"]
    assert first.capacity == {"pods": 250, "cpu": 64_000, "memory": 256 * GIB, "nvidia.com/gpu": 2}
    assert first.labels == {"zone": "a", GPU_MODEL: "P100"}
    assert found["openb-nvidia-v100"].labels[GPU_MODEL] == "NVIDIA-V100"
    assert found["openb"].capacity == {"pods": 250, "cpu": 32_000, "memory": 64 * GIB}
    assert GPU_MODEL not in found["openb"].labels


def test_jobs_of_a_trace_ask_for_models_as_the_labels_have_them(tmp_path: Path) -> None:
    table = samples.openb(tmp_path / "pods.csv")
    table.write_text(table.read_text().replace("V100M16|V100M32", "NVIDIA V100|P100"))
    rest = "stacks: [default]\nsteps: [{submit: {name: openb, trace: pods.csv}}]\n"
    found = trial(tmp_path, "{trace: nodes.csv}", rest)
    [replay] = found.phases(ReplayedTrace)
    assert [dict(shape.affinity) for shape in replay.shapes] == [{}, {GPU_MODEL: ("NVIDIA-V100", "P100")}, {}]
    assert not [one for one in findings_of(found) if "never start" in one]


def test_fractions_make_thousandths_of_gpus_instead_of_whole_ones(tmp_path: Path) -> None:
    found = groups(trial(tmp_path, "{trace: nodes.csv, fractions: milli}"))
    assert found["node-p100-1"].capacity["nvidia.com/gpu-milli"] == 2000
    assert "nvidia.com/gpu" not in found["node-p100-1"].capacity


def test_a_sample_is_an_exact_share_and_the_same_each_time(tmp_path: Path) -> None:
    found = [groups(trial(tmp_path, "{trace: nodes.csv, sample: {share: 0.43}}")) for _ in range(2)]
    assert found[0] == found[1]
    assert sum(group.count for group in found[0].values()) == 3
    assert sum(group.count for group in groups(trial(tmp_path, "{trace: nodes.csv, head: 4}")).values()) == 4


def test_lists_stand_beside_groups_and_in_entries_of_setups(tmp_path: Path) -> None:
    beside = "[{trace: nodes.csv}, {name: more, count: 2, capacity: {cpu: 4, memory: 8Gi}}]"
    assert [group.name for group in trial(tmp_path, beside).setup.nodes][-1] == "more"
    entries = "{a: {trace: nodes.csv, name: a}}"
    setups = f"setups: {{one: {{nodes: a, stack: default}}}}\n{STEPS}"
    assert "a-p100-1" in groups(trial(tmp_path, entries, setups))


def test_steps_may_name_a_group_of_a_list(tmp_path: Path) -> None:
    steps = "stacks: [default]\nsteps: [{nodes: {cordon: node-p100-1, count: 2}}]\n"
    assert trial(tmp_path, "{trace: nodes.csv}", steps).steps
    off = "stacks: [default]\nsteps: [{nodes: {cordon: node-p100}}]\n"
    [line] = wrong(tmp_path, "{trace: nodes.csv}", rest=off)
    assert "no node group 'node-p100' at this point" in line and "did you mean 'node-p100-" in line


def test_a_table_of_any_layout_needs_its_columns(tmp_path: Path) -> None:
    text = "host;cores;ram\na;8;16\nb;8;16\n"
    [line] = wrong(tmp_path, "{trace: nodes.csv}", text)
    assert line.startswith(
        "s.yaml:2:16: nodes.csv is no list of nodes that is known; it has the columns host, cores, ram"
    )
    columns = "columns: {cpu: cores, memory: {column: ram, unit: GiB}}"
    [group] = trial(tmp_path, f"{{trace: nodes.csv, {columns}}}", text=text).setup.nodes
    assert (group.name, group.count, group.capacity) == ("node", 2, {"pods": 110, "cpu": 8000, "memory": 16 * GIB})


@pytest.mark.parametrize(
    ("nodes", "text", "said"),
    [
        ("{trace: nowhere.csv}", OPENB, "nowhere.csv: no such file or directory"),
        ("{trace: nodes.csv, columns: {cpu: core, memory: ram}}", "cores,ram\n1,2\n", "did you mean 'cores'?"),
        ("{trace: nodes.csv, columns: {cpu: cores}}", "cores,ram\n1,2\n", "says how much memory a node has"),
        ("{trace: nodes.csv, columns: {user: cores}}", "cores,ram\n1,2\n", "a node has no 'user'"),
        ("{trace: nodes.csv}", OPENB + "n-9,banana,262144,2,P100\n", "nodes.csv:9: cut off or mixed up"),
        ("{trace: nodes.csv}", OPENB + "n-9,64000\n", "nodes.csv:9: no memory"),
        ("{trace: nodes.csv}", OPENB + "n-9,-64000,5,2,P100\n", "cpu or memory is not above 0"),
        ("{trace: nodes.csv}", OPENB + "n-9,64000,5,0.5,P100\n", "not a whole number of GPUs"),
        ("{trace: nodes.csv}", OPENB.splitlines()[0] + "\n", "nodes.csv has no nodes"),
        ("{trace: nodes.csv, cuont: 2}", OPENB, "unknown key 'cuont'"),
        ("[{trace: nodes.csv}, {trace: nodes.csv}]", OPENB, "two node groups are called 'node-p100-1'"),
    ],
)  # fmt: skip
def test_a_list_that_is_wrong_is_a_mistake_at_its_place(tmp_path: Path, nodes: str, text: str, said: str) -> None:
    lines = wrong(tmp_path, nodes, text)
    assert lines[0].startswith("s.yaml:2:")
    assert said in lines[0]


def test_the_list_of_nodes_of_a_kept_cluster_may_be_a_trace(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(OPENB)
    (tmp_path / "kept.yaml").write_text("- {trace: nodes.csv, name: kept}\n")
    scenario = node_list(tmp_path / "kept.yaml")
    assert scenario is not None
    [only] = expand(scenario, on="sim", stacks=STACKS)
    assert "kept-p100-1" in groups(only)
