"""A small local page over all studies of a directory: list, filter, open, compare, progress of running studies.

It listens on 127.0.0.1 only and changes nothing. Against DNS rebinding, requests with another Host are refused. A path must, with
links resolved, be in a study below the directory. Pages of studies, which may come from anyone, run in a sandbox without an
origin. There is no script: filter and comparison are forms, and a page with a running study reloads itself.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from seatrial.analysis.comparing import compare
from seatrial.analysis.studies import COMPLETE, Study
from seatrial.model.errors import SeatrialError, UsageProblem
from seatrial.record.layout import STUDY, SUBMITTED, TRIAL, TRIALS
from seatrial.record.trial_record import RUNNING
from seatrial.report import comparisons
from seatrial.report.grouping import grouped
from seatrial.report.page.comparison import body
from seatrial.report.page.html_page import stylesheet
from seatrial.report.page.markup import Html, Inside, escaped, join, tag
from seatrial.report.text_tables import decimals_for

HOST = "127.0.0.1"
DEEPEST = 3  # folders below the directory in which studies are looked for
REFRESH_S = 2
TYPES = {
    ".html": "text/html; charset=utf-8", ".png": "image/png", ".svg": "image/svg+xml", ".pdf": "application/pdf",
    ".csv": "text/csv; charset=utf-8", ".json": "application/json", ".txt": "text/plain; charset=utf-8",
}  # fmt: skip
_STYLE = """
form.bar { display: flex; flex-wrap: wrap; gap: 10px; align-items: center; margin: 0 0 14px; }
form.bar input, button.go { font: inherit; padding: 6px 12px; border: 1px solid var(--line); border-radius: 8px; }
form.bar input { background: var(--panel); color: inherit; }
button.go { background: var(--accent); color: var(--panel); cursor: pointer; }
td input { width: 1.1em; height: 1.1em; }
progress { width: 10em; vertical-align: middle; }
img { max-width: 100%; background: #fff; border-radius: 8px; }
"""


@dataclass(frozen=True)
class StudyProgress:
    """Progress of a study: trials ended and planned, and the workloads of running trials."""

    state: str  # running, complete, interrupted, killed, cut off
    over: int
    planned: int
    submitted: int = 0  # workloads of the trials that run
    of: int = 0
    damaged: int = 0  # trials that have lost files


@dataclass(frozen=True)
class Listed:
    """A study in the list, or why it cannot be read."""

    path: str  # below the directory, with /
    study: Study | None
    problem: str = ""

    @property
    def words(self) -> str:
        """The text that the filter searches."""
        if self.study is None:
            return self.path.lower()
        setups = " ".join(dict.fromkeys(f"{trial.setup} {trial.stack}" for trial in self.study.trials))
        return f"{self.path} {self.study.name} {self.study.on} {setups}".lower()


def studies(root: Path) -> Iterator[Listed]:
    """All studies below `root`, newest first."""
    found = sorted(_below(root, DEEPEST), key=lambda folder: -(folder / STUDY).stat().st_mtime_ns)
    for folder in found:
        path = folder.relative_to(root).as_posix()
        try:
            yield Listed(path, Study.open(folder))
        except SeatrialError as error:
            yield Listed(path, None, error.message)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / STUDY).is_file():
        yield folder
    elif depth:
        try:
            inner = sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink())
        except OSError:
            return
        for one in inner:
            yield from _below(one, depth - 1)


def progress(study: Study) -> StudyProgress:
    """From the files alone: trial.json has the outcome of a trial, submitted.jsonl its workloads so far."""
    planned = [str(name) for name in study.document.get("trials", ())]
    running = [trial for trial in study.trials if trial.cut_off]
    over = len(study.trials) - len(running)
    if study.state != RUNNING:
        state = "cut off" if running and study.state == COMPLETE else study.state
        return StudyProgress(state, over, len(planned), damaged=sum(bool(trial.damage) for trial in study.trials))
    submitted = of = 0
    for trial in running:
        path = trial.directory / SUBMITTED
        submitted += path.read_bytes().count(b"\n") if path.is_file() else 0
        of += sum(int(phase.get("count") or 0) for phase in trial.phases.values())
    return StudyProgress(study.state, over, len(planned), submitted, of)


class StudyServer(ThreadingHTTPServer):
    """Serves the studies below `root`; `url` says where."""

    daemon_threads = True

    def __init__(self, root: Path, port: int = 0) -> None:
        if not root.is_dir():
            raise UsageProblem(f"{root} is not a directory", "name the directory of your studies, such as out")
        self.root = root.resolve()
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UsageProblem(f"port {port} cannot be used: {error}", "omit --port, or choose another port") from None

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/"


class _NotThere(Exception):
    """The path does not exist or may not be shown."""


class _Handler(BaseHTTPRequestHandler):
    server: StudyServer
    server_version = "seatrial"
    sys_version = ""
    timeout = 30  # seconds until the thread of a silent client ends

    def do_GET(self) -> None:
        """Answers a request of the browser."""
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._send(HTTPStatus.FORBIDDEN, b"this server answers to 127.0.0.1 and localhost only\n", "text/plain", "")
            return
        asked = urlsplit(self.path)
        parts = [unquote(part) for part in asked.path.split("/") if part]
        query = parse_qs(asked.query)
        try:
            if not parts:
                self._page("Studies", _list(self.server.root, query.get("q", [""])[0]))
            elif parts == ["favicon.ico"]:  # favicon: every browser requests it
                self._send(HTTPStatus.OK, b"", "image/x-icon", "")
            elif parts == ["compare"]:
                self._page("Comparison", (_compared(self.server.root, query), False))
            elif parts[0] == "study" and asked.path.endswith("/"):
                self._page("/".join(parts[1:]), _study(self.server.root, _folder(self.server.root, parts[1:])))
            elif parts[0] == "study":
                self._file(parts[1:])
            else:
                raise _NotThere
        except (_NotThere, OSError):  # including files removed meanwhile and impossible names
            self._page("Not there", (tag("p", "There is no such study or file."), False), HTTPStatus.NOT_FOUND)
        except SeatrialError as error:
            lines = [tag("p", line) for line in error.lines()]
            self._page("It cannot be shown", (join(lines), False), HTTPStatus.BAD_REQUEST)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Silent: the terminal is the user's."""

    def _page(self, title: str, made: tuple[Html, bool], status: HTTPStatus = HTTPStatus.OK) -> None:
        content, live = made
        style = f"{stylesheet()}{_STYLE}{_dark(stylesheet())}"
        head = join(
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", http_equiv="refresh", content=str(REFRESH_S)) if live else None,
            tag("title", f"{title} · seatrial"),
            tag("style", Html(style)),
        )
        top = tag("header", tag("p", tag("a", "seatrial", href="/"), class_="kicker"), tag("h1", title), class_="top")
        page = tag("html", tag("head", head), tag("body", tag("main", top, content)), lang="en")
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; form-action 'self'; base-uri 'none'"
        self._send(status, f"<!doctype html>\n{page}\n".encode(), TYPES[".html"], policy)

    def _file(self, parts: list[str]) -> None:
        """A file of a study: of its top folder, or a trial.json."""
        path = _inside(self.server.root, parts)
        folder = next((one for one in path.parents if (one / STUDY).is_file()), None)
        of_trial = path.name == TRIAL and path.parent.parent.name == TRIALS
        if folder is None or not path.is_file() or path.suffix not in TYPES or not (path.parent == folder or of_trial):
            raise _NotThere
        if self.server.root not in (folder, *folder.parents):
            raise _NotThere
        policy = "sandbox allow-scripts" if path.suffix == ".html" else "default-src 'none'; sandbox"
        self._send(HTTPStatus.OK, path.read_bytes(), TYPES[path.suffix], policy)

    def _send(self, status: HTTPStatus, content: bytes, kind: str, policy: str) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind, "Content-Length": str(len(content)), "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
            "Content-Security-Policy": policy,
        }  # fmt: skip
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _dark(style: str) -> str:
    """The report's dark colours by the system's preference: this page has no script to switch."""
    colours = style.partition(':root[data-theme="dark"] {')[2].partition("}")[0]
    return f"@media (prefers-color-scheme: dark) {{ :root {{ {colours} }} }}\n"


def _inside(root: Path, parts: list[str]) -> Path:
    """The path with links resolved; raises if it leaves the root."""
    try:
        path = root.joinpath(*parts).resolve()
    except (OSError, ValueError, RuntimeError):
        raise _NotThere from None
    if any(part in ("..", ".") or "/" in part or "\\" in part for part in parts) or root not in (path, *path.parents):
        raise _NotThere
    return path


def _folder(root: Path, parts: list[str]) -> Path:
    folder = _inside(root, parts)
    if not (folder / STUDY).is_file():
        raise _NotThere
    return folder


def _link(path: str, file: str = "") -> str:
    inside = "" if path == "." else f"{quote(path)}/"
    return f"/study/{inside}{quote(file)}"


def _list(root: Path, wanted: str) -> tuple[Html, bool]:
    listed = [one for one in studies(root) if all(word in one.words for word in wanted.lower().split())]
    rows = [_row(one) for one in listed]
    live = any(one.study and progress(one.study).state == "running" for one in listed)
    bar = tag(
        "form",
        tag("input", name="q", value=wanted, placeholder="filter: scenario, stack, folder", aria_label="filter"),
        tag("button", "Filter", class_="go"),
        tag("a", "all", href="/") if wanted else None,
        class_="bar", action="/", method="get",
    )  # fmt: skip
    heads = ("", "study", "scenario", "on", "started", "set-ups", "progress")
    top = tag("tr", [tag("th", head, scope="col", class_="text") for head in heads])
    table = tag("div", tag("table", tag("thead", top), tag("tbody", rows)), class_="scroll")
    compared = tag(
        "form",
        tag("p", tag("button", "Compare selected", class_="go"), class_="quiet"),
        table,
        action="/compare",
        method="get",
    )
    none = tag("p", f"No study {'matches' if wanted else 'exists below this directory yet'}.", class_="quiet")
    return join(bar, compared if rows else none), live


def _row(one: Listed) -> Html:
    tick = tag("input", type="checkbox", name="study", value=one.path, aria_label=f"compare {one.path}")
    if one.study is None:
        cells: list[Inside] = [None, one.path, tag("span", one.problem, class_="bad"), None, None, None, None]
    else:
        started = str((one.study.document.get("run") or {}).get("started", ""))
        setups = ", ".join(dict.fromkeys(trial.setup for trial in one.study.trials))
        link = tag("a", one.path if one.path != "." else one.study.out.name, href=_link(one.path))
        cells = [tick, link, one.study.name, one.study.on, _when(started), setups, _shown(progress(one.study))]
    return tag("tr", [tag("td", cell, class_="text") for cell in cells])


def _when(started: str) -> str:
    try:
        return f"{datetime.datetime.fromisoformat(started):%Y-%m-%d %H:%M}"
    except ValueError:
        return ""


def _shown(far: StudyProgress) -> Html:
    over = f"{far.over} of {far.planned} trials" + (f", {far.damaged} damaged" if far.damaged else "")
    if far.state != "running":
        return escaped(over if far.state == "complete" else f"{far.state}, {over}")
    share = (far.over + (far.submitted / far.of if far.of else 0)) / max(far.planned, 1)
    sent = f", {far.submitted} of {far.of} workloads submitted" if far.of else ""
    return join(tag("progress", max="1", value=f"{share:.3f}"), f" running: {over}{sent}")


def _study(root: Path, folder: Path) -> tuple[Html, bool]:
    study = Study.open(folder)
    far = progress(study)
    path = folder.relative_to(root).as_posix()
    names = sorted(one.name for one in folder.iterdir() if one.is_file() and one.suffix in TYPES and one.name != STUDY)
    report = tag("p", tag("a", "Open the report", href=_link(path, "report.html"))) if "report.html" in names else None
    links = [join(tag("a", name, href=_link(path, name)), " ") for name in (*names, STUDY)]
    pictures = [tag("p", tag("img", src=_link(path, name), alt=name)) for name in names if name.endswith(".png")]
    notes = [tag("li", note) for note in study.notes]
    return join(
        tag("p", f"{study.name} on {study.on}: ", _shown(far), class_="headline"),
        tag("div", tag("ul", notes), class_="warning") if notes and far.state != "running" else None,
        report,
        _figures(study) if study.trials else None,
        tag("p", links, class_="quiet"),
        pictures,
    ), far.state == "running"


def _figures(study: Study) -> Html:
    """The summary in short; report.html has the rest."""
    groups = grouped(study.rows)
    heads = ["set-up", *groups[0].params, "workloads", "completed", "total_s", "p50_s", "p99_s"]
    spreads = {name: [group.of(name) for group in groups] for name in heads[-3:]}
    rows = []
    for place, group in enumerate(groups):
        cells = [group.setup, *group.params.values(), str(group.most("workloads"))]
        cells.append(f"{group.completed} of {len(group.rows)}")
        for of in spreads.values():
            decimals, one = decimals_for([each.mean for each in of if each]), of[place]
            cells.append("–" if one is None else f"{one.mean:.{decimals}f}")
        rows.append(tag("tr", [tag("td", cell) for cell in cells]))
    top = tag("tr", [tag("th", head, scope="col") for head in heads])
    return tag("div", tag("table", tag("thead", top), tag("tbody", rows)), class_="scroll")


def _compared(root: Path, query: dict[str, list[str]]) -> Html:
    paths = query.get("study", [])
    if len(paths) < 2:
        raise UsageProblem("two studies are needed for a comparison", "select two in the list")
    outs = [_folder(root, [part for part in path.split("/") if part != "."]) for path in paths]
    try:
        found = compare([Study.open(out) for out in outs], anyway=bool(query.get("anyway")))
    except UsageProblem as problem:
        more = "".join(f"&study={quote(path, safe='')}" for path in paths)
        anyway = tag("p", tag("a", "Compare them anyway", href=f"/compare?anyway=1{more}"))
        is_refusal = problem.message.startswith("not comparable")
        return join([tag("p", line) for line in problem.lines()], anyway if is_refusal else None)
    return join([tag("section", tag("h2", comparisons.title(one)), body(one)) for one in found])
