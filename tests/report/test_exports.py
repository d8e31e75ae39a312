"""Studies in the forms of other programs, read back by those."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from prometheus_client.openmetrics import parser

from seatrial.analysis.studies import Study
from seatrial.analysis.tables import write_tables
from seatrial.model.figures import FIGURES
from seatrial.report.exports import openmetrics
from seatrial.report.exports.parquet import write_parquet
from seatrial.report.exports.perfetto import write_trace
from seatrial.report.exports.seeds import tables, write_seeds


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """many-small-jobs as it is shipped, but for the repeats."""
    from benchmarks.compare_power import Silent
    from seatrial import stacks
    from seatrial.scenario.document import read
    from seatrial.scenario.expansion import expand
    from seatrial.study import study_directory
    from seatrial.study.executors import run_all

    scenario = read("many-small-jobs")
    trials = expand(scenario, on="sim", stacks=stacks.settings(), repeat=1)
    folder = tmp_path_factory.mktemp("exports") / "small"
    study_directory.make_empty(folder, force=False)
    study_directory.write_study(
        folder, {**study_directory.study_document(scenario.name, scenario.document, trials, {}), "run": {}}
    )
    assert all(outcome.outcome == "completed" for outcome in run_all(trials, folder, Silent(), jobs=1))
    write_tables(Study.open(folder))
    return folder


def _sql(text: str) -> list[Any]:
    found = duckdb.sql(text)
    assert found is not None
    return found.fetchall()


def test_parquet_holds_what_the_tables_hold_and_reads_back_in_polars_and_duckdb(out: Path, tmp_path: Path) -> None:
    files = {path.stem: path for path in write_parquet(Study.open(out), tmp_path / "all")}
    assert set(files) == {"summary", "times", "pods", "observed"}
    assert not list((tmp_path / "all").glob(".part*")), "nothing is left beside the tables"
    for table in ("times", "pods", "summary"):
        assert pl.read_parquet(files[table]).height == pl.read_csv(out / f"{table}.csv").height
        assert _sql(f"select count(*) from '{files[table]}'")[0][0] == pl.read_parquet(files[table]).height
    asked = "select setup, max(total_s) from '{}' where completed = 100 group by setup order by setup"
    by_duckdb = _sql(asked.format(files["summary"]))
    assert dict(by_duckdb) == pytest.approx(
        {r["setup"]: r["total_s"] for r in Study.open(out).rows if r["completed"] == 100}
    )
    observed = pl.read_parquet(files["observed"])
    bound = observed.filter((pl.col("stage") == "scheduled") & (pl.col("trial") == "001-kind-jobs=1-r1"))
    assert bound.select("workload", "pod", "node").row(0) == ("short-0", "short-0-0", bound["node"][0])
    assert bound["node"][0].startswith("worker-")
    pods = pl.read_parquet(files["pods"]).filter(pl.col("trial") == "001-kind-jobs=1-r1")
    assert bound["at_s"][0] == pytest.approx(pods["bound_s"][0])


def check_trace(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Chrome's trace format, strictly: known phases, all fields of each, and slices of a thread that nest or follow each other."""
    assert set(document) <= {"traceEvents", "displayTimeUnit", "otherData"} and document["displayTimeUnit"] in (
        "ms",
        "ns",
    )
    events: list[dict[str, Any]] = document["traceEvents"]
    for event in events:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["args"], dict) and math.isfinite(event["ts"])
        assert event["ph"] in ("M", "X", "i")
        if event["ph"] == "X":
            assert math.isfinite(event["dur"]) and event["dur"] >= 0
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "process_sort_index")
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
    slices = sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["pid"], e["tid"], e["ts"]))
    for before, after in itertools.pairwise(slices):
        if (before["pid"], before["tid"]) == (after["pid"], after["tid"]):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-3, (before, after)  # a nanosecond
    named = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert {e["pid"] for e in events} == named
    return slices


def test_a_trace_has_nodes_and_workloads_as_tracks(out: Path, tmp_path: Path) -> None:
    trial = next(one for one in Study.open(out).trials if one.name.startswith("017-kwok-jobs=100"))
    document = json.loads(write_trace(trial, tmp_path / "trace.json").read_text())
    slices = check_trace(document)
    processes = {e["pid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"}
    assert sorted(processes.values()) == ["fake-0", "fake-1", "fake-2", "fake-3", "workloads of kwok"]
    pods = [e for e in slices if processes[e["pid"]].startswith("fake-")]
    assert len(pods) == 100
    threads = {e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert threads == {f"short-{number}" for number in range(100)}
    assert {e["name"] for e in slices if e["pid"] == 1} >= {
        "creating",
        "scheduling",
        "starting",
        "running",
        "completing",
    }


def test_a_trace_of_a_clogged_trial_shows_the_clog_and_who_is_stuck(tmp_path: Path) -> None:
    from tests.analysis.making import Job, Made, plain, write_study

    stuck = Job({"submitted": 0, "created": 5}, [{"pods_created": 20}] * 2, name="stuck", phase="gang")
    clog = {"kind": "gang deadlock", "summary": "nobody moves", "at_ns": 60_000_000_000}
    study = write_study(tmp_path / "s", [Made([plain(), plain(1), stuck], outcome="clogged", also={"clog": clog})])
    document = json.loads(write_trace(Study.open(study).trials[0], tmp_path / "trace.json").read_text())
    assert "stuck after pods_created" in {e["name"] for e in check_trace(document)}
    [instant] = [e for e in document["traceEvents"] if e["ph"] == "i"]
    assert (instant["name"], instant["ts"]) == ("clog: gang deadlock", 60e6)


def test_openmetrics_is_what_its_parser_accepts(out: Path) -> None:
    text = "\n".join(openmetrics.lines(Study.open(out))) + "\n"
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    total = families["seatrial_total_seconds"]
    assert (total.type, total.unit) == ("gauge", "seconds")
    assert len(total.samples) == len(Study.open(out).trials)
    values = {(s.labels["setup"], s.labels["param_jobs"]): s.value for s in total.samples}
    rows = {(str(r["setup"]), str(r["jobs"])): r["total_s"] for r in Study.open(out).rows}
    assert values == pytest.approx(rows)
    assert "seatrial_cpu_util_ratio" in families and "seatrial_audit_misfit" in families


def test_every_figure_of_the_summary_is_a_metric() -> None:
    names = {openmetrics.metric(figure) for figure in openmetrics.METRICS}
    assert len(names) == len(FIGURES) - 10  # eight labels, outcome and clog are texts
    assert {"seatrial_api_p99_seconds", "seatrial_held_idle_core_seconds", "seatrial_cpu_cores"} <= names


# How the experiments were published: the headings, and what stands in which row.
HEADINGS = ["Date", "Tester", "Jobs", "Pods", "Total time to complete (s)"]


def test_many_small_jobs_has_the_shape_of_the_published_tables(out: Path, tmp_path: Path) -> None:
    text = write_seeds(Study.open(out), tmp_path / "table.md", "VR").read_text()
    found = [block.splitlines() for block in text.strip().split("\n\n")]
    assert len(found) == 3
    for table, setup in zip(found, ("kind", "kwok", "kwok+mcad"), strict=True):
        head, rule, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
        assert head == [*HEADINGS, f"Cluster Info ({setup})"]
        assert all(re.fullmatch("-+", cell) for cell in rule)
        assert [row[2] for row in rows] == [row[3] for row in rows] == ["1", "10", "20", "50", "75", "100"]
        assert all(re.fullmatch(r"\d+", row[4]) for row in rows), "whole seconds"
        assert re.fullmatch(r"\d{1,2}-[A-Z][a-z]{2}", rows[0][0]) and rows[0][1] == "VR"
        assert [row[:2] for row in rows[1:]] == [["", ""]] * 5, "date and tester once"
        assert [bool(row[5]) for row in rows] == [False, True, False, False, False, False]
    assert "4 nodes" in text and "mcad" in text


def test_a_set_up_that_did_not_complete_has_no_total_time(tmp_path: Path) -> None:
    from tests.analysis.making import Made, plain, write_study

    study = write_study(tmp_path / "s", [Made([plain()], outcome="clogged")])
    assert "clogged, 1 of 1 completed" in tables(Study.open(study))
