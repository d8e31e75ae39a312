"""`seatrial init`, `seatrial validate` and `seatrial run --dry-run`: before anything runs."""

from __future__ import annotations

from pathlib import Path

from seatrial.scenario.document import shipped_files
from tests.conftest import Seatrial

WRONG = """name: wrong
nodes: [{name: fake, count: 4, capacity: {cpu: 8, memory: 16Gi}}]
stacks: [kube]
steps:
  - submit: {name: short, count: some, duration: 2s}
"""


def test_init_writes_a_scenario_that_validates_and_runs(seatrial: Seatrial, tmp_path: Path) -> None:
    made = seatrial("init", "my-load")
    assert made.returncode == 0
    assert made.stdout == "my-load.yaml\n"
    assert "name: my-load" in (tmp_path / "my-load.yaml").read_text()
    valid = seatrial("validate", "my-load.yaml")
    assert (valid.returncode, valid.stdout) == (0, "my-load.yaml: valid, 2 set-ups, 12 trials\n")
    done = seatrial("run", "my-load.yaml", "--repeat", "1", "--set", "jobs=10", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.html").is_file()


def test_init_overwrites_only_with_force(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine")
    refused = seatrial("init", "mine.yaml")
    assert refused.returncode == 2
    assert "mine.yaml exists already" in refused.stderr
    assert (tmp_path / "mine.yaml").read_text() == "mine"
    assert seatrial("init", "mine.yaml", "--force", "--from", "gpu-requests").returncode == 0
    assert (tmp_path / "mine.yaml").read_text() == shipped_files()["gpu-requests"].read_text()


def test_init_says_why_a_file_cannot_be_written(seatrial: Seatrial) -> None:
    done = seatrial("init", "no/such/directory/mine.yaml")
    assert done.returncode == 2
    assert "no/such/directory/mine.yaml cannot be written: No such file or directory" in done.stderr


def test_validate_reports_all_mistakes_of_all_files_with_their_places(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    done = seatrial("validate", "wrong.yaml", "no-such-scenario", "gpu-requests")
    assert done.returncode == 2
    assert "wrong.yaml:3:10: " in done.stderr
    assert "wrong.yaml:5:34: " in done.stderr
    assert "no-such-scenario: no such file" in done.stderr
    assert done.stdout.startswith("gpu-requests: valid, ")


def test_validate_names_set_ups_that_a_run_leaves_out(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "name: s\nnodes: [{name: f, count: 2, capacity: {cpu: 4, memory: 8Gi}}]\nstacks: [kueue, mcad]\n"
        "queues: {a: {quota: {cpu: 2}}}\n"
        "steps: [{submit: {count: 2, duration: 1s, requests: {cpu: 1}, queue: a}}, {wait: {for: completed}}]\n"
    )
    valid = seatrial("validate", "s.yaml")
    assert valid.returncode == 0, valid.stderr
    assert "s.yaml: finding: set-up 'mcad' is left out: the stack 'mcad' has no quotas" in valid.stderr
    assert "set-up 'kueue' is left out" not in valid.stderr


def test_every_shipped_scenario_validates(seatrial: Seatrial) -> None:
    done = seatrial("validate", "-q", *shipped_files())
    assert (done.returncode, done.stderr) == (0, "")


def test_a_dry_run_prints_what_each_trial_would_create_and_leaves_nothing(seatrial: Seatrial, tmp_path: Path) -> None:
    done = seatrial(
        "run", "gang-ensemble", "--dry-run", "--setup", "kueue-quota,gang", "--set", "iters=2", "--repeat", "1"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "set-up kueue-quota: stack kueue on sim; 8 fake nodes node-0 …"
    assert any("001-kueue-quota" in line and "1 ClusterQueue" in line and "10 Job" in line for line in lines)
    assert any("002-gang" in line and "10 PodGroup" in line for line in lines)
    assert lines[-1] == "2 trials; nothing was started or written"
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_asks_no_cluster(seatrial: Seatrial, tmp_path: Path) -> None:
    done = seatrial(
        "run", "many-small-jobs", "--on", "kubeconfig", "--context", "nowhere", "--setup", "kwok", "--dry-run"
    )
    assert done.returncode == 0, done.stderr
    assert "nothing was started or written" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_counts_requests(seatrial: Seatrial) -> None:
    done = seatrial("run", "priority-and-fairness-nodes", "--dry-run", "--repeat", "1")
    assert done.returncode == 0, done.stderr
    assert "requests" in done.stdout


def test_a_dry_run_shows_the_queues_and_what_each_gets(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "teams.yaml").write_text(TEAMS)
    valid = seatrial("validate", "teams.yaml")
    assert valid.stdout == "teams.yaml: valid, 1 set-up, 1 trial, 4 queues in 1 cohort\n"
    done = seatrial("run", "teams.yaml", "--dry-run", "--on", "local")
    assert done.returncode == 0, done.stderr
    assert "4 queues in 1 cohort, within-queue lower-priority, reclaim any, fair sharing" in done.stdout
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert rows[1:4] == [
        "queue cohort quota borrows lends weight workloads",
        "team-0 … team-2 (3) all cpu 4, memory 2Gi cpu 1 none 1 6",
        "own cpu 2 2.5 7",
    ]


TEAMS = """name: teams
nodes: [{name: fake, count: 4, capacity: {cpu: 8, memory: 16Gi}}]
stacks: [kueue]
queues:
  "team-${i}": {count: 3, cohort: all, quota: {cpu: 4, memory: 2Gi}, borrow: {cpu: 1}, lend: none}
  own: {quota: {cpu: 2}, weight: 2.5}
preemption: {within-queue: lower-priority, reclaim: any, fair-sharing: true}
steps:
  - submit: {name: all, queue: each, count: 2, duration: 2s}
  - submit: {name: some, queue: own, count: 5, duration: 2s}
"""
