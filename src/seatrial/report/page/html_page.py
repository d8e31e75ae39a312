"""report.html: one self-contained file that opens from a disk, without a network.

The file contains its styles and scripts; its content security policy allows only these, by hash, and no other source.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from seatrial.analysis.studies import Study
from seatrial.record.files import atomic_write
from seatrial.record.layout import REPORT
from seatrial.report.page.answer import answer
from seatrial.report.page.clogs import clogs
from seatrial.report.page.markup import Html, join, json_block, tag
from seatrial.report.page.replays import replays
from seatrial.report.page.request_section import requests
from seatrial.report.page.search_section import search
from seatrial.report.page.sensitivity import sensitivity
from seatrial.report.page.step_section import steps
from seatrial.report.page.summary import summary
from seatrial.report.page.teams import teams
from seatrial.report.page.timeline import timeline
from seatrial.report.page.totals import totals
from seatrial.report.page.validity import again, validity
from seatrial.report.page.view import PageSection, View, view_of
from seatrial.report.page.waterfall import waterfall

# In the order of the page. Each returns None if the study has nothing to show.
SECTIONS: tuple[Callable[[View], PageSection | None], ...] = (
    search,
    summary,
    sensitivity,
    totals,
    teams,
    replays,
    waterfall,
    steps,
    timeline,
    clogs,
    requests,
    validity,
    again,
)

_SCRIPTS = (
    "base.js",
    "lines.js",
    "heat.js",
    "waterfall.js",
    "steps.js",
    "timeline.js",
    "teams.js",
    "clog.js",
    "main.js",
)
_LIGHT_OR_DARK = "Light or dark"


def write_page(study: Study) -> Path:
    """Writes report.html of the study."""
    path = study.out / REPORT
    text = page(view_of(study))
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8", errors="replace")
    return path


def page(view: View) -> str:
    """The whole page of a study."""
    sections = [section for section in (make(view) for make in SECTIONS) if section is not None]
    return document(f"{view.study.name} · seatrial", answer(view), sections, view.setups)


def document(title: str, top: Html, sections: Sequence[PageSection], setups: Sequence[str]) -> str:
    """A whole page of these parts; the order of `setups` gives their colours."""
    style, script = _asset("page.css"), _script()
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    contents = [tag("li", tag("a", section.short, href=f"#{section.name}")) for section in sections]
    switch = tag("button", "◐", type="button", id="theme", aria_label=_LIGHT_OR_DARK, title=_LIGHT_OR_DARK)
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(style)),
    )
    body = join(
        tag("nav", tag("ul", contents), switch, aria_label="Contents"),
        tag("main", top, [_section(section) for section in sections]),
        tag("footer", "Made by seatrial from the study directory alone. This page loads nothing."),
        tag("noscript", tag("p", "Charts need JavaScript; the tables above and below do not.")),
        tag("div", id="tip", role="status", hidden=True),
        json_block(list(setups), id="setups"),
        tag("script", Html(script)),
    )
    return "<!doctype html>\n" + tag("html", tag("head", head), tag("body", body), lang="en") + "\n"


def _section(section: PageSection) -> Html:
    return tag("section", tag("h2", section.title), section.body, id=section.name)


def _script() -> str:
    return "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in _SCRIPTS) + "\n})();"


def stylesheet() -> str:
    """For other pages that should look like this one."""
    return _asset("page.css")


def _asset(name: str) -> str:
    return files("seatrial.report.page").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
