"""A study that lost files, or was not run to its end, says so wherever somebody looks at it."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from seatrial.analysis.comparing import compare
from seatrial.analysis.gates import judge
from seatrial.analysis.studies import Study
from seatrial.record.inventory import LOST, inventory
from seatrial.report.gate_results import summary
from seatrial.report.study_report import write_report
from seatrial.report.terminal import summary_table
from tests.analysis.making import Made, plain, write_study

Spoil = Callable[[Path], object]
NAME = "001-kwok-r0"


def _truncate(name: str) -> Spoil:
    return lambda trial: (trial / name).write_bytes((trial / name).read_bytes()[:-20])


def _remove(name: str) -> Spoil:
    return lambda trial: (trial / name).unlink()


def _study(out: Path, listed: bool) -> Path:
    """Two set-ups, two repeats each; `listed`: with the inventory that this version writes."""
    made = [Made([plain(0), plain(500)], setup, number=number, repeat=repeat)
            for number, (setup, repeat) in enumerate([("kwok", 0), ("kwok", 1), ("kind", 0), ("kind", 1)], 1)]  # fmt: skip
    write_study(out, made)
    for trial in (out / "trials").iterdir() if listed else ():
        document = json.loads((trial / "trial.json").read_text())
        (trial / "trial.json").write_text(json.dumps({**document, "files": inventory(trial)}))
    return out


def _printed(out: Path) -> str:
    console = Console(file=StringIO(), width=200)
    summary_table(Study.open(out), console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(("spoil", "listed", "said"), [
    (_truncate("submitted.jsonl"), True, "submitted.jsonl has "),
    (_truncate("submitted.jsonl"), False, "submitted.jsonl has 1 of 2 lines"),
    (_remove("submitted.jsonl"), True, "submitted.jsonl is missing"),
    (_remove("observed.parquet"), True, "observed.parquet is missing"),
    (_remove("observed.parquet"), False, "observed.parquet is missing"),
    (_truncate("observed.parquet"), True, "observed.parquet has "),
    (_remove("pods.parquet"), True, "pods.parquet is missing"),
    (_remove("nodes.txt"), True, "nodes.txt is missing"),
])  # fmt: skip
def test_a_damaged_trial_is_named_with_the_file_and_what_is_lost_and_is_not_averaged(
    tmp_path: Path, spoil: Spoil, listed: bool, said: str
) -> None:
    whole = _study(tmp_path / "whole", listed)
    out = _study(tmp_path / "out", listed)
    spoil(out / "trials" / NAME)
    file = said.partition(" ")[0]
    write_report(Study.open(out))
    page = (out / "report.html").read_text()
    for shown in (_printed(out), page, "\n".join(note for one in compare([Study.open(out)]) for note in one.notes)):
        assert f"{NAME} is damaged: {said}" in shown
        assert f"lost: {LOST[file]}" in shown
    assert "Can the figures be trusted? " in page
    assert "In part: " in page
    assert "kwok cannot be judged: files of its trials are damaged." in page
    rows = {row["trial"]: row for row in pl.read_csv(out / "summary.csv").rows(named=True)}
    assert (rows[NAME]["outcome"], rows[NAME]["valid"], rows[NAME]["total_s"]) == ("damaged", False, None)
    assert [verdict.where for verdict in judge(Study.open(out)) if verdict.state == "fails"] == [NAME]
    write_report(Study.open(whole))
    others = {row["trial"]: row for row in pl.read_csv(whole / "summary.csv").rows(named=True)}
    assert {name: row for name, row in rows.items() if name != NAME} == {
        name: row for name, row in others.items() if name != NAME
    }
    assert not Study.open(whole).notes


def test_a_study_that_ended_early_says_how_many_trials_ran_and_which_stacks_did_not(tmp_path: Path) -> None:
    out = write_study(tmp_path / "out", [Made([plain()], "default"), Made([plain()], "kueue", number=2)])
    document = json.loads((out / "study.json").read_text())
    document["trials"] += ["003-mcad-r0", "004-fluence-r0", "005-default-r1"]
    document |= {"setups": {name: name for name in ("default", "kueue", "mcad", "fluence")}}
    said = "2 of 5 trials begun; stacks mcad, fluence never ran"
    for state, word in (("interrupted", "interrupted"), ("running", "killed")):
        (out / "study.json").write_text(json.dumps({**document, "run": {"state": state}}))
        write_report(Study.open(out))
        page = (out / "report.html").read_text()
        assert f"{word}: {said}" in _printed(out)
        assert f"{word.capitalize()}: {said}. Of the trials that ran: Every workload" in page
        assert f"In part: </b>{word}: {said}" in page, "the trust line"
        assert f"{word}: {said}" in compare([Study.open(out)])[0].notes
        assert f"{word}: {said}" in summary(judge(Study.open(out)), Study.open(out))
