"""The exported trace in Chrome's own trace viewer, which the Go toolchain carries for `go tool trace`: it takes every event."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.analysis.directory import read_study
from seatrial.clusters.local.golang import look_for_go
from seatrial.report.exports.perfetto import write_trace

IMPORT = """text => {
    const options = new tr.importer.ImportOptions();
    const model = new tr.Model();
    new tr.importer.Import(model, options).importTraces([text]);
    let slices = 0, instants = model.instantEvents.length;
    const names = [];
    for (const process of Object.values(model.processes)) {
        names.push(process.name);
        instants += process.instantEvents.length;
        for (const thread of Object.values(process.threads)) slices += thread.sliceGroup.length;
    }
    const warnings = model.importWarnings.map(warning => `${warning.type}: ${warning.message}`);
    return {warnings, names, slices, instants, end: model.bounds.max};
}"""


@pytest.fixture(scope="module")
def viewer(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    go, why = look_for_go()
    if go is None:
        pytest.skip(f"NO GO: the trace was NOT opened in a viewer ({why})")
    root = Path(
        subprocess.run([go.program, "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
    )
    static = root / "src/internal/trace/traceviewer/static"
    if not static.is_dir():
        pytest.skip(f"NO TRACE VIEWER in {static}: the trace was NOT opened in one")
    page_file = tmp_path_factory.mktemp("viewer") / "viewer.html"
    polyfill, whole = (static / "webcomponents.min.js").read_text(), (static / "trace_viewer_full.html").read_text()
    page_file.write_text(f"<!doctype html><html><head><script>{polyfill}</script>{whole}</head><body></body></html>")
    page = browser.new_page()
    page.goto(page_file.as_uri())
    page.wait_for_function("typeof tr === 'object' && typeof tr.importer === 'object'")
    yield page
    page.close()


@pytest.mark.parametrize("name", ["many-small-jobs", "gang-ensemble"])
def test_chromes_trace_viewer_takes_every_event_of_a_trace(
    viewer: Any, studies: dict[str, Path], tmp_path: Path, name: str
) -> None:
    for trial in read_study(studies[name]).trials:
        text = write_trace(trial, tmp_path / f"{trial.name}.json").read_text()
        document = json.loads(text)
        kinds = Counter(event["ph"] for event in document["traceEvents"])
        seen = viewer.evaluate(IMPORT, text)
        assert seen["warnings"] == []
        assert (seen["slices"], seen["instants"]) == (kinds["X"], kinds["i"])
        assert set(seen["names"]) == {
            event["args"]["name"] for event in document["traceEvents"] if event["name"] == "process_name"
        }
        assert seen["end"] > 0
