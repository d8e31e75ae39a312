"""`submitted.jsonl` read while it is written."""

from __future__ import annotations

import json
from pathlib import Path

from seatrial.record.submissions import Tail


def line(number: int) -> str:
    fields = {
        "workload": f"load-{number}",
        "number": number,
        "phase": "load",
        "index": number,
        "pods": 1,
        "at_ns": number,
    }
    return json.dumps({**fields, "duration_s": 1.0}) + "\n"


def test_lines_come_once_and_a_torn_one_when_it_is_whole(tmp_path: Path) -> None:
    path, tail = tmp_path / "submitted.jsonl", Tail(tmp_path)
    assert tail.read() == []
    path.write_text(line(0) + line(1)[:9])
    assert [one.number for one in tail.read()] == [0]
    with path.open("a") as file:
        file.write(line(1)[9:] + line(2))
    assert [one.number for one in tail.read()] == [1, 2]
    assert tail.read() == []


def test_a_file_that_was_put_in_its_place_is_read_from_its_beginning(tmp_path: Path) -> None:
    path, tail = tmp_path / "submitted.jsonl", Tail(tmp_path)
    path.write_text(line(0) + line(1) + line(2))
    assert len(tail.read()) == 3
    part = tmp_path / "submitted.jsonl.part"
    part.write_text(line(0) + line(2))
    part.replace(path)
    with path.open("a") as file:
        file.write(line(1) + line(3))
    assert [one.number for one in tail.read()] == [0, 2, 1, 3]
