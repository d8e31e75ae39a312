"""Bad input: one clear line with the place and the remedy, the right exit status, never a traceback, nothing half-made."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import COMMAND, Seatrial

GOOD = """name: good
params: {jobs: 2}
nodes: [{name: n, count: 1, capacity: {cpu: 4, memory: 8Gi}}]
stacks: [default]
steps:
  - submit: {name: load, count: "${jobs}", duration: 1s, requests: {cpu: 10m}}
  - wait: {for: completed, timeout: 1m}
"""


def _write(folder: Path, text: str | bytes) -> Path:
    path = folder / "s.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _refused(done: subprocess.CompletedProcess[str], folder: Path, status: int, *words: str) -> None:
    said = done.stderr
    assert done.returncode == status, said
    assert "Traceback" not in said
    for word in words:
        assert word in said
    assert not (folder / "out").exists(), "nothing is left of a study that cannot begin"


@pytest.mark.parametrize(("change", "words"), [
    (("count: \"${jobs}\"", "coutn: 3"), ["s.yaml:6:", "coutn", "count"]),
    (("count: \"${jobs}\"", "count: -3"), ["s.yaml:6:", "-3"]),
    (("[default]", "[defualt]"), ["s.yaml:4:", "defualt", "default"]),
    (("for: completed", "for: complete"), ["s.yaml:7:", "completed"]),
    (("duration: 1s", "duration: 1"), ["s.yaml:6:", "10s"]),
    (("${jobs}", "${job}"), ["s.yaml:6:", "jobs"]),
    (("params: {jobs: 2}", "params: {jobs: 2}\nparams: {jobs: 3}"), ["s.yaml:3:", "params"]),
    (("cpu: 10m", "cpu: ten"), ["s.yaml:6:", "ten"]),
    (("cpu: 10m", "cpu: ١"), ["s.yaml:6:", "500m"]),
    (("duration: 1s", "duration: ３s"), ["s.yaml:6:", "10s"]),
    (("steps:", "steps: [\n"), ["s.yaml:"]),
    (("name: good", "name: good\nexpect: [\"complete == submitted\"]"), ["s.yaml:2:", "completed"]),
])  # fmt: skip
def test_a_mistake_in_a_scenario_has_a_place_and_a_remedy(
    seatrial: Seatrial, tmp_path: Path, change: tuple[str, str], words: list[str]
) -> None:
    assert change[0] in GOOD
    _refused(seatrial("run", _write(tmp_path, GOOD.replace(*change)), "-o", "out"), tmp_path, 2, *words)


def test_all_mistakes_are_said_at_once(seatrial: Seatrial, tmp_path: Path) -> None:
    text = GOOD.replace("duration: 1s", "duration: soon").replace("timeout: 1m", "timeout: later")
    _refused(seatrial("run", _write(tmp_path, text), "-o", "out"), tmp_path, 2, "s.yaml:6:", "s.yaml:7:")


@pytest.mark.parametrize(("content", "words"), [
    (b"", ["empty"]),
    (b"\xff\xfe\x00name", ["UTF-8"]),
    (b"- just\n- a list\n", ["s.yaml:1:1"]),
    (b"name: [unclosed\n", ["s.yaml:"]),
    (b"name:\t\tx\n\t- y\n", ["s.yaml:"]),
])  # fmt: skip
def test_a_file_that_is_no_scenario_is_refused(
    seatrial: Seatrial, tmp_path: Path, content: bytes, words: list[str]
) -> None:
    _refused(seatrial("run", _write(tmp_path, content), "-o", "out"), tmp_path, 2, *words)


def test_a_missing_file_a_directory_and_a_misspelt_name_are_refused(seatrial: Seatrial, tmp_path: Path) -> None:
    _refused(seatrial("run", "nowhere/s.yaml", "-o", "out"), tmp_path, 2, "nowhere/s.yaml")
    _refused(seatrial("run", tmp_path, "-o", "out"), tmp_path, 2, "directory")
    _refused(seatrial("run", "many-smal-jobs", "-o", "out"), tmp_path, 2, "many-small-jobs")


@pytest.mark.parametrize(("arguments", "words"), [
    (["--set", "jbos=3"], ["jbos", "jobs"]),
    (["--set", "jobs"], ["jobs", "="]),
    (["--set", "jobs=-1"], ["-1"]),
    (["--stack", "defaul"], ["defaul", "default"]),
    (["--setup", "defaul"], ["defaul", "default"]),
    (["--on", "moon"], ["moon", "sim"]),
    (["--repeat", "0"], ["repeat"]),
])  # fmt: skip
def test_a_wrong_option_is_refused_with_the_nearest_name(
    seatrial: Seatrial, tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    _refused(seatrial("run", _write(tmp_path, GOOD), "-o", "out", *arguments), tmp_path, 2, *words)


def test_a_stage_that_the_stack_lacks_is_refused(seatrial: Seatrial, tmp_path: Path) -> None:
    text = GOOD.replace("for: completed", "for: admitted")
    _refused(seatrial("run", _write(tmp_path, text), "-o", "out"), tmp_path, 2, "admitted", "default", "scheduled")


def test_another_study_is_not_overwritten_without_force(seatrial: Seatrial, tmp_path: Path) -> None:
    scenario = _write(tmp_path, GOOD)
    assert seatrial("run", scenario, "-o", "out").returncode == 0
    before = (tmp_path / "out" / "study.json").read_bytes()
    done = seatrial("run", scenario, "-o", "out")
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert (tmp_path / "out" / "study.json").read_bytes() == before
    (tmp_path / "out" / "mine.txt").write_text("kept")
    assert seatrial("run", scenario, "-o", "out", "--force", "--seed", "5").returncode == 0
    assert (tmp_path / "out" / "mine.txt").read_text() == "kept"
    assert json.loads((tmp_path / "out" / "study.json").read_text())["seed"] == 5


def test_a_directory_that_is_not_a_study_is_never_touched(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for more in ([], ["--force"]):
        done = seatrial("run", _write(tmp_path, GOOD), "-o", "mine", *more)
        assert done.returncode == 2
        assert "no study" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    assert seatrial("run", _write(tmp_path, GOOD), "-o", "s.yaml").returncode == 2
    assert seatrial("report", "mine").returncode == 2


def test_an_export_that_cannot_be_written_is_refused_with_a_remedy(seatrial: Seatrial, tmp_path: Path) -> None:
    assert seatrial("run", _write(tmp_path, GOOD), "-o", "out").returncode == 0
    (tmp_path / "file").touch()
    for form, into in (("parquet", "file"), ("parquet", "file/sub"), ("openmetrics", "no/file"), ("seeds", "out")):
        done = seatrial("export", "out", "--to", form, "--into", into)
        assert done.returncode == 2, done.stderr
        assert f"seatrial: {into} cannot be written: " in done.stderr
        assert "Traceback" not in done.stderr


def test_a_full_disk_is_said_and_what_was_seen_is_kept(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: both fail in write(2)."""
    scenario = _write(tmp_path, GOOD)
    limit = 100_000
    done = subprocess.run(
        [*COMMAND, "run", str(scenario), "-o", "out", "--set", "jobs=20000"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "no space" in done.stderr
    assert "-o" in done.stderr
    trial = next((tmp_path / "out" / "trials").iterdir())
    assert (trial / "submitted.jsonl").stat().st_size > 0
    shutil.rmtree(tmp_path / "out")


def test_a_pod_that_fits_nowhere_is_a_finding_and_the_run_goes_on(seatrial: Seatrial, tmp_path: Path) -> None:
    text = GOOD.replace("cpu: 10m", "cpu: 40")
    done = seatrial("run", _write(tmp_path, text), "-o", "out")
    assert done.returncode == 1
    assert "finding" in done.stderr
    assert "cpu" in done.stderr
    trial = json.loads(next((tmp_path / "out" / "trials").glob("*/trial.json")).read_text())
    assert trial["outcome"] == "clogged"
    assert trial["findings"]


def test_a_node_that_a_later_step_adds_counts_for_that(seatrial: Seatrial, tmp_path: Path) -> None:
    text = GOOD.replace("cpu: 10m", "cpu: 40").replace(
        "  - wait:", "  - nodes: {add: {name: big, count: 1, capacity: {cpu: 64, memory: 8Gi}}}\n  - wait:"
    )
    done = seatrial("run", _write(tmp_path, text), "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "finding" not in done.stderr


@pytest.mark.parametrize(("expect", "status"), [
    ('outcome == "clogged"', 0),
    ("completed == 0", 1),
    ('outcome == "clogged" and completed == 1', 1),
])  # fmt: skip
def test_the_exit_status_follows_expect(seatrial: Seatrial, tmp_path: Path, expect: str, status: int) -> None:
    text = GOOD.replace("cpu: 10m", "cpu: 40") + f"expect: ['{expect}']\n"
    done = seatrial("run", _write(tmp_path, text), "-o", "out")
    assert done.returncode == status, done.stderr
    if expect.startswith("outcome") and status:
        assert f"s.yaml:8:10: `{expect}` does not hold" in done.stderr


def test_a_gang_larger_than_the_cluster_is_said_before_the_run_and_runs(seatrial: Seatrial, tmp_path: Path) -> None:
    gang = GOOD.replace('count: "${jobs}"', "count: 1, pods: 3, gang: true").replace("cpu: 10m", "cpu: 2")
    done = seatrial("run", _write(tmp_path, gang + "expect: ['outcome == \"clogged\"']\n"), "-o", "out")
    said = "finding: load: a gang of 3 pods that each request cpu 2 is larger than the cluster, which holds 2 of them"
    assert said in done.stderr
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_deleting_what_is_gone_is_no_error(seatrial: Seatrial, tmp_path: Path) -> None:
    text = GOOD + "  - delete: {of: load}\n  - delete: {of: load}\n  - pause: 1s\n"
    done = seatrial("run", _write(tmp_path, text), "-o", "out")
    assert done.returncode == 0, done.stderr


def test_an_overlay_on_the_simulator_is_a_notice(seatrial: Seatrial, tmp_path: Path) -> None:
    text = GOOD.replace("duration: 1s", "duration: 1s, overlay: {spec: {backoffLimit: 3}}")
    done = seatrial("run", _write(tmp_path, text), "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "finding: load: the simulator does not know `overlay`" in done.stderr
    wrong = GOOD.replace("duration: 1s", "duration: 1s, overlay: {metadata: {name: x}}")
    shutil.rmtree(tmp_path / "out")
    _refused(seatrial("run", _write(tmp_path, wrong), "-o", "out"), tmp_path, 2, "s.yaml:6:", "metadata.name")


@pytest.mark.parametrize(("arguments", "words"), [
    (["-o", "afile/sub"], ["afile is a file", "-o"]),
    (["-o", "n" * 300], ["File name too long", "-o"]),
    (["-o", "dangling"], ["dangling is a broken link"]),
    (["-o", "dangling/sub"], ["dangling is a broken link"]),
    (["-o", "out", "--seed", "9223372036854775808"], ["--seed 9223372036854775808 is more than 9007199254740992"]),
    (["-o", "out", "--junit", "no/gates.xml"], ["--junit no/gates.xml", "there is no directory no", "mkdir -p no"]),
    (["-o", "out", "--summary", "no/gates.md"], ["--summary no/gates.md", "there is no directory no"]),
    (["-o", "out", "--summary", "."], ["--summary . is a directory"]),
    (["-o", "out", "--setup", "x" * 5000], ["--setup xxx", "no such set-up"]),
])  # fmt: skip
def test_what_cannot_be_written_or_is_too_large_is_said_before_the_run(
    seatrial: Seatrial, tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    (tmp_path / "afile").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    done = seatrial("run", _write(tmp_path, GOOD), *arguments)
    _refused(done, tmp_path, 2, *words)
    assert len(done.stderr) < 500
    assert sorted(path.name for path in tmp_path.iterdir()) == ["afile", "dangling", "s.yaml"]


@pytest.mark.parametrize("change", [
    ("${jobs}", "${" + "1 + " * 1250 + "jobs}"),
    ("${jobs}", "${" + "1 + " * 1250 + "}"),
    ("name: good", f"name: good\nexpect: [\"{'x' * 900} == 3\"]"),
    ("name: good", f"name: good\nexpect: [\"completed == {'x' * 900}(\"]"),
])  # fmt: skip
def test_an_error_on_a_long_expression_is_short(seatrial: Seatrial, tmp_path: Path, change: tuple[str, str]) -> None:
    done = seatrial("run", _write(tmp_path, GOOD.replace(*change)), "-o", "out")
    _refused(done, tmp_path, 2, "s.yaml:", " … ")
    assert len(done.stderr) < 400


def test_compare_and_report_say_what_is_in_their_way(seatrial: Seatrial, tmp_path: Path) -> None:
    assert seatrial("run", _write(tmp_path, GOOD), "-o", "out", "--repeat", "2").returncode == 0
    done = seatrial("compare", "out", "out", "--markdown", "no/it.md")
    assert (done.returncode, done.stdout) == (2, ""), "before anything is compared"
    assert "there is no directory no" in done.stderr
    done = seatrial("report", "n" * 300)
    assert done.returncode == 2
    assert "File name too long" in done.stderr
    (tmp_path / "out" / "times.csv").unlink()
    (tmp_path / "out" / "times.csv").mkdir()
    done = seatrial("report", "out")
    assert done.returncode == 3
    assert "out/times.csv is in the way" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("limit", [100, 1000, 30_000])
def test_a_report_on_a_full_disk_is_said(seatrial: Seatrial, tmp_path: Path, limit: int) -> None:
    """Whichever file is the first that does not fit: a table, a picture, the page."""
    assert seatrial("run", _write(tmp_path, GOOD), "-o", "out").returncode == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    done = subprocess.run(
        [*COMMAND, "report", "out"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "no space left" in done.stderr
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()} == before


def test_a_clog_is_explained_once(seatrial: Seatrial, tmp_path: Path) -> None:
    gangs = GOOD.replace('count: "${jobs}"', "count: 4, pods: 3, gang: true").replace("cpu: 10m", "cpu: 1")
    done = seatrial("run", _write(tmp_path, gangs.replace("timeout: 1m", "timeout: 100h")), "-o", "out")
    assert done.returncode == 1, done.stderr
    assert (done.stdout + done.stderr).count("waits for room for") == 1
    assert "001-default-r1: clogged: gang deadlock" in done.stderr
