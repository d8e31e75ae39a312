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
