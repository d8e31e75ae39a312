"""Why set-ups did not complete: clogs, timeouts and failures, at the top of the page, where the reader asks."""

from __future__ import annotations

from seatrial.analysis.trial_figures import Figures, since_first_s
from seatrial.clog.diagnosis import KINDS
from seatrial.report.page.markup import Html, tag
from seatrial.report.page.view import View, plural, seconds

DID = {"clogged": "clogged", "timeout": "timed out", "failed": "failed"}
SHOWN = 5


def endings(view: View) -> list[Html]:
    """The first trial of each set-up and way of ending, with its cause; at most five."""
    found: dict[tuple[str, str], list[Figures]] = {}
    for row in view.rows:
        if row["outcome"] in DID:
            found.setdefault((str(row["setup"]), str(row["outcome"])), []).append(row)
    items = [_ending(view, setup, outcome, rows) for (setup, outcome), rows in list(found.items())[:SHOWN]]
    if len(found) > SHOWN:
        items.append(tag("p", f"{len(found) - SHOWN} more did not complete: see below."))
    return items


def _ending(view: View, setup: str, outcome: str, rows: list[Figures]) -> Html:
    document = view.trials[str(rows[0]["trial"])].document
    cause = document.get("clog" if outcome == "clogged" else "timed_out") or {}
    kind, at = cause.get("kind"), since_first_s(cause.get("at_ns"), rows[0], document)
    times = f" in {plural(len(rows), 'trial')}, the first" if len(rows) > 1 else ""
    when = f" after {seconds(at, 1)}" if at is not None else ""
    return tag(
        "div",
        tag("h2", f"{setup} {DID[outcome]}{times}{when}{f': {kind}' if kind else ''}", class_="small"),
        tag("p", f"Meaning: {KINDS.get(str(kind), 'not known here')}.", class_="quiet") if kind else None,
        tag("p", str(cause.get("summary") or document.get("detail") or ""), class_="clipped"),
        class_="clogged",
    )
