"""Which workloads are in which stage."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from seatrial.analysis.studies import Study
from seatrial.observe.sampling import SampleProgress
from seatrial.report.stage_table import LiveLine, in_stage, stage_table
from tests.analysis.making import Job, Made, plain, write_study


def test_a_workload_is_in_the_last_stage_that_it_reached() -> None:
    reached = {"submitted": 10, "created": 10, "pods_created": 9, "running": 4, "completed": 3, "failed": 0}
    assert in_stage(reached) == {
        "submitted": 0, "created": 1, "pods_created": 5, "running": 1, "completed": 3, "failed": 0,
    }  # fmt: skip


def test_a_pipe_gets_one_line_and_a_terminal_a_table(tmp_path: Path) -> None:
    runs = Job({"submitted": 0, "created": 10}, [{"pods_created": 20, "scheduled": 30, "running": 40}])
    out = write_study(tmp_path / "out", [Made([plain(0), runs, plain(5)])])
    for terminal in (False, True):
        text = StringIO()
        stage_table(Study.open(out), Console(file=text, force_terminal=terminal, width=100, color_system=None))
        first, *rest = text.getvalue().splitlines()
        assert "3 of 0 submitted: 1 running, 2 completed" in first
        assert any("running" in line and "short-1" in line for line in rest) == terminal


def test_the_line_on_a_terminal_says_how_far_everything_is() -> None:
    text = StringIO()
    standing = SampleProgress(120, 200, {"submitted": 120, "created": 120, "running": 40, "completed": 30}, 30, 2.34)
    console = Console(file=text, force_terminal=True, width=200, color_system=None, _environ={"TERM": "xterm"})
    with LiveLine(console) as line:
        line.update("001-default-r1", standing)
    said = text.getvalue()
    assert "120 of 200 submitted, 30 ended; now 80 created, 10 running, 30 completed; up to 2.3 s behind" in said
    quiet = StringIO()
    with LiveLine(Console(file=quiet)) as line:
        line.update("001-default-r1", standing)
    assert quiet.getvalue() == ""
