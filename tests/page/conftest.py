"""A real Chromium, started once for the module that asks for it, and pages that complain of everything they should not do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial import stacks
from seatrial.analysis.studies import Study
from seatrial.model.errors import SetupProblem
from seatrial.report.page import write_page
from seatrial.scenario.document import read, shipped_files
from seatrial.scenario.expansion import expand
from seatrial.study.eligibility import check
from seatrial.study.executors import run_all
from seatrial.study.study_directory import make_empty, study_document, write_study

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FIGURES = "figure[data-chart]"


# Values with which scenarios are small and still what they are: gangs clog, requests are rejected.
SMALL: dict[str, list[Any]] = {
    "jobs": [3, 12], "iters": [6], "lasting": ["2s"], "fakes": [20], "workers": [20], "spaces": [5], "apps": [5], "each": [3],
    "percent": [2],
}  # fmt: skip


class _Silent:
    def started(self, trial: str) -> None: ...
    def update(self, trial: str, submitted: int, completed: int, of: int, virtual_s: float, requests: int) -> None: ...
    def ended(self, trial: str, outcome: str, figures: dict[str, object]) -> None: ...


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A study of every scenario that comes with seatrial, simulated, with its page."""
    if CHROMIUM is None:
        pytest.skip(
            "NO CHROMIUM: what a browser makes of report.html was NOT tried; apt-get install chromium, then again"
        )
    folder = tmp_path_factory.mktemp("studies")
    made: dict[str, Path] = {}
    for name in shipped_files():
        scenario = read(name)
        sets = {param: SMALL[param] for param in scenario.document.get("params") or {} if param in SMALL}
        expanded = expand(
            scenario,
            on="sim",
            stacks=stacks.settings(),
            pick_setups=None,
            pick_stacks=None,
            sets=sets,
            repeat=1,
            seed=None,
        )
        try:
            trials = check(expanded).trials
        except SetupProblem:
            continue  # the simulator has no such thing
        made[name] = folder / name
        make_empty(made[name], force=False)
        write_study(made[name], {**study_document(scenario.name, scenario.document, trials, {}), "run": {}})
        assert list(run_all(trials, made[name], _Silent(), jobs=1))
        write_page(Study.open(made[name]))
    return made


@pytest.fixture(scope="module")
def browser(studies: dict[str, Path]) -> Iterator[Any]:
    """After the studies, and closed with its module: while it is there, nothing else in this process can have an event loop."""
    from playwright.sync_api import sync_playwright

    assert studies, "they are made first"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM)
        yield launched
        launched.close()


Opened = Callable[..., Any]


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    """`opened(out, width=…, theme=…)`: a report with every chart drawn. What it says, asks for or pops up fails the test."""
    wrong: list[str] = []
    contexts: list[Any] = []

    def open_page(out: Path, width: int = 1280, theme: str = "light", scroll: bool = True) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        address = (out / "report.html").absolute().as_uri()
        page.on("request", lambda request: None if request.url == address else wrong.append(f"request: {request.url}"))
        page.goto(address)
        for figure in page.query_selector_all(FIGURES) if scroll else ():
            figure.scroll_into_view_if_needed()
        page.wait_for_selector(f"{FIGURES}:not([data-ready])", state="detached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong
