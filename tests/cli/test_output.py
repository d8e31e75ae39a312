"""What a user sees: on a narrow terminal, in a pipe, without colours, and in `--help`."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import COMMAND, Seatrial

QUICK = ("run", "many-small-jobs", "--setup", "kwok,kwok+mcad", "--set", "jobs=3", "--repeat", "2", "-o", "out")
ESCAPE = "\x1b["


def test_a_pipe_gets_plain_text_and_only_results_on_stdout(seatrial: Seatrial, tmp_path: Path) -> None:
    done = seatrial(*QUICK)
    assert done.returncode == 0, done.stderr
    assert ESCAPE not in done.stdout + done.stderr
    assert "kwok+mcad" in done.stdout
    lines = done.stdout.splitlines()
    assert len([line for line in lines if re.match(r"\d{4}-.*kwok(\+mcad)?\s+model\s+3\s", line)]) == 2, (
        "a row is a line"
    )
    files = [line for line in lines if line.startswith("out/")]
    assert {"out/times.csv", "out/pods.csv", "out/summary.csv", "out/general.png", "out/detailed.png"} <= set(files)
    assert lines[-1] == "out/report.html", "what to look at first is said last"
    assert all((tmp_path / file).stat().st_size for file in files)
    assert len([line for line in done.stderr.splitlines() if "completed" in line]) == 4


def _on_a_terminal(folder: Path, columns: int, arguments: Sequence[str] = QUICK, **environment: str) -> str:
    """Runs the command (the quick scenario) with a pseudo-terminal of that width as stdout and stderr."""
    controller, terminal = pty.openpty()
    plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "CI")}
    process = subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, stdout=terminal, stderr=terminal, stdin=terminal,
        env={**plain, "TERM": "xterm-256color", "COLUMNS": str(columns), **environment},
    )  # fmt: skip
    os.close(terminal)
    read = b""
    while True:
        try:
            chunk = os.read(controller, 65536)
        except OSError:
            break
        if not chunk:
            break
        read += chunk
    assert process.wait(60) == 0, read.decode()
    os.close(controller)
    return read.decode()


def test_a_terminal_of_80_columns_shows_the_table_unbroken(tmp_path: Path) -> None:
    shown = _on_a_terminal(tmp_path, 80)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    rows = [line for line in plain.replace("\r", "\n").split("\n") if re.match(r".*kwok(\+mcad)?\s+model\s+3\s", line)]
    assert len(rows) == 2
    assert max(map(len, rows)) <= 80


def test_stacks_read_well_on_80_columns(tmp_path: Path) -> None:
    lines = _on_a_terminal(tmp_path, 80, ["stacks"]).replace("\r", "").splitlines()
    assert max(map(len, lines)) <= 80
    assert {"runs on", "needs", "verified"} <= {line[:13].strip() for line in lines}


def test_no_color_means_no_colour(tmp_path: Path) -> None:
    shown = _on_a_terminal(tmp_path, 80, NO_COLOR="1")
    colours = re.findall(r"\x1b\[(?:3|4|9|10)\d(?:;\d+)*m", shown)
    assert not colours


@pytest.mark.parametrize("command", ["run", "report", "stacks", "scenarios", "schema"])
def test_help_has_an_example(seatrial: Seatrial, command: str) -> None:
    done = seatrial(*command.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert "Example: seatrial " + command.split(maxsplit=1)[0] in " ".join(done.stdout.split())


def test_stacks_and_scenarios_are_listed(seatrial: Seatrial) -> None:
    assert {"default", "mcad"} <= {line.split()[0] for line in seatrial("stacks").stdout.splitlines() if line.split()}
    scenarios = seatrial("scenarios").stdout.splitlines()
    assert all(line.endswith("?") for line in scenarios), "in a pipe a line per scenario, with its whole question"
    assert "many-small-jobs" in {line.split()[0] for line in scenarios}


@pytest.mark.parametrize("group", [(), ("cluster",), ("record",), ("traces",)])
def test_the_list_of_commands_is_not_cut_off(seatrial: Seatrial, group: Sequence[str]) -> None:
    shown = seatrial(*group, "--help").stdout
    assert "..." not in shown.partition("Commands:")[2]
    assert "Example: seatrial" in shown


def test_a_reader_that_goes_away_is_no_error() -> None:
    shell = f"{' '.join(COMMAND)} schema | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {shell}"], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "{"
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_report_can_be_made_again_from_the_directory_alone(seatrial: Seatrial, tmp_path: Path) -> None:
    first = seatrial(*QUICK)
    kept = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.suffix in (".csv", ".png")}
    for name in kept:
        (tmp_path / "out" / name).unlink()
    again = seatrial("report", "out")
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.name in kept} == kept


@pytest.mark.parametrize("arguments", [("stacks",), ("templates",), ("validate", "many-small-jobs")])
def test_a_pipe_that_nobody_reads_ends_a_command_with_141_and_without_a_word(arguments: Sequence[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
