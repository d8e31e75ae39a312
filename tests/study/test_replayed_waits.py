"""A trace is replayed by the command: its waits stand beside those of the replay, and a late replay is not to be trusted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.conftest import Seatrial
from tests.traces import samples

SCENARIO = """
name: replay
nodes: [{{name: node, count: {nodes}, capacity: {{cpu: 1, memory: 8Gi}}}}]
setups: {{plain: {{stack: default, client: {{rate: {rate}}}}}}}
steps:
  - submit: {{name: old, trace: t.swf, gang: false{more}}}
  - wait: {{for: completed, timeout: 1h}}
"""


def replayed(
    seatrial: Seatrial, folder: Path, nodes: int = 9, rate: str = "100/s", more: str = ""
) -> tuple[str, dict[str, Any]]:
    (folder / "s.yaml").write_text(SCENARIO.format(nodes=nodes, rate=rate, more=more))
    done = seatrial("run", "s.yaml", "--on", "sim", "-o", "out", "--force")
    assert done.returncode == 0, done.stderr
    [document] = [json.loads(path.read_text()) for path in (folder / "out" / "trials").glob("*/trial.json")]
    return done.stdout, document["validity"]


def test_waits_stand_beside_those_of_the_trace(seatrial: Seatrial, tmp_path: Path) -> None:
    samples.swf(tmp_path / "t.swf", [samples.swf_line(n, 10 * n, run=60, processors=1, wait=5) for n in range(1, 5)])
    out, validity = replayed(seatrial, tmp_path, nodes=1)
    table = out.partition("replayed traces")[2].splitlines()
    # One node, jobs of a minute ten seconds apart: they wait 0, 50, 100 and 150 s; in the trace 5 s each.
    assert re.search(r"in the trace\s+5\.00 s\s+5\.00 s\s+5\.00 s\s+5\.00 s", table[2])
    waits = [float(one) for one in re.findall(r"(\d+\.\d+) s", table[3])]
    assert [round(one / 50) for one in waits[1:4]] == [1, 3, 3], "p50, p90, p99 by nearest rank"
    assert "4 jobs compared: 3 waited longer than in the trace, 1 not as long" in out
    assert "Replayed traces" in (tmp_path / "out" / "report.html").read_text()
    assert validity["valid"] is True


def test_jobs_of_unknown_wait_are_not_compared_and_counted(seatrial: Seatrial, tmp_path: Path) -> None:
    samples.swf(tmp_path / "t.swf", [samples.swf_line(1, 0), samples.swf_line(2, 5, wait=-1)])
    out, _ = replayed(seatrial, tmp_path)
    assert "1 jobs compared" in out or "1 job compared" in out
    assert "the trace has no wait of 1 more" in out


def test_waits_are_compared_at_the_speed_of_the_replay(seatrial: Seatrial, tmp_path: Path) -> None:
    samples.swf(tmp_path / "t.swf", [samples.swf_line(1, 0, wait=100), samples.swf_line(2, 5, wait=100)])
    out, _ = replayed(seatrial, tmp_path, more=", speed: 10")
    assert re.search(r"in the trace\s+10\.0 s", out)


def test_a_replay_whose_client_is_late_is_not_to_be_trusted(seatrial: Seatrial, tmp_path: Path) -> None:
    samples.swf(tmp_path / "t.swf", [samples.swf_line(n, 0, processors=1) for n in range(1, 101)])
    _, punctual = replayed(seatrial, tmp_path, nodes=100, rate="1000/s")
    assert punctual["valid"] is True
    [rate] = punctual["rates"]
    assert 0 <= rate["late_p50_s"] <= rate["late_p99_s"] < 0.2
    _, late = replayed(seatrial, tmp_path, nodes=100, rate="10/s")
    assert late["valid"] is False, "100 jobs are due together, and the last is sent 10 s later"
    assert "1 in 100 jobs of the trace was sent" in str(late["reasons"])


def sent_s(folder: Path) -> list[float]:
    lines = (folder / "out" / "trials").glob("*/submitted.jsonl")
    times = [json.loads(line)["at_ns"] / 1e9 for path in lines for line in path.read_text().splitlines()]
    return [round(at - min(times), 1) for at in times]


CHAIN = [
    samples.swf_line(1, 0, run=100, processors=1),
    samples.swf_line(2, 10, run=100, processors=1, after=1, think=30),
    samples.swf_line(3, 20, run=10, processors=1),
    samples.swf_line(4, 500, run=10, processors=1, after=2, think=5),
]


def test_with_think_a_job_waits_for_the_end_of_the_one_before_and_the_thinking_time(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    samples.swf(tmp_path / "t.swf", CHAIN)
    out, validity = replayed(seatrial, tmp_path, more=", think: true")
    # Job 1 ends after 100 s and what a Job costs, job 2 comes 30 s later; job 4 comes 5 s after job 2, long before its 500 s.
    first, third, second, fourth = sent_s(tmp_path)
    assert (first, third) == (0.0, 20.0)
    assert 130 <= second < 135
    assert 105 <= fourth - second < 110
    assert validity["valid"] is True, out


def test_without_think_jobs_come_by_the_clock(seatrial: Seatrial, tmp_path: Path) -> None:
    samples.swf(tmp_path / "t.swf", CHAIN)
    replayed(seatrial, tmp_path)
    assert sent_s(tmp_path) == [0.0, 10.0, 20.0, 500.0]


def test_a_trace_that_does_not_say_who_follows_whom_cannot_think(seatrial: Seatrial, tmp_path: Path) -> None:
    samples.swf(tmp_path / "t.swf", [samples.swf_line(1, 0)])
    (tmp_path / "s.yaml").write_text(SCENARIO.format(nodes=1, rate="100/s", more=", think: true"))
    done = seatrial("run", "s.yaml", "--on", "sim", "--dry-run")
    assert (done.returncode, "does not say which job follows which" in done.stderr) == (2, True), done.stderr
