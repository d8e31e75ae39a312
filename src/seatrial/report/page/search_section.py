"""The answers of a search (`seatrial find`), and the figure of its condition over the values that were tried."""

from __future__ import annotations

from typing import Any

from seatrial.analysis.search_answers import FOUND, SearchAnswer
from seatrial.analysis.searched_studies import Case, Searches
from seatrial.model.figures import TIME, find
from seatrial.report.front_lines import front_rows, front_sentences, fronts_of
from seatrial.report.page.markup import Cell, Heading, Html, chart, join, table, tag
from seatrial.report.page.view import PageSection, View, plural
from seatrial.report.search_lines import answer_lines, described, over
from seatrial.report.search_picture import SearchCurve, around, curve_of

PANELS = 6


def search(view: View) -> PageSection | None:
    """The section; None if the study is no search."""
    searches = view.searches
    if searches is None or not searches.rows:
        return None
    if searches.question.across is not None:
        return _fronts(searches)
    answers = searches.answers()
    body = [_said(searches, case, answer) for case, answer in answers.items()]
    curve = curve_of(searches.question)
    if curve is not None:
        body.append(_chart(searches, curve, answers))
    body.append(_table(searches))
    return PageSection("find", "Answer", f"Which {searches.question.name} is enough?", join(*body))


def headlines(view: View) -> list[Html]:
    """The answers, for the top of the page."""
    searches = view.searches
    if searches is None:
        return []
    if searches.question.across is not None:
        fronts = list(fronts_of(searches).items())
        return [tag("p", front_sentences(searches, *one)[0], class_="headline") for one in fronts[:3]]
    found = list(searches.answers().items())
    return [tag("p", answer_lines(searches, *one)[0], class_="headline") for one in found[:3]]


def _fronts(searches: Searches) -> PageSection:
    """Fronts of two variables: sentences and a table for each case."""
    body: list[Html] = []
    for base, front in fronts_of(searches).items():
        first, *more = front_sentences(searches, base, front)
        body += [tag("p", tag("b", first)), *(tag("p", line) for line in more)]
        if front.points:
            names, rows = front_rows(searches, base, front)
            heads = [Heading(name, number=place < len(names) - 2) for place, name in enumerate(names)]
            body.append(table(heads, [[Cell(text) for text in row] for row in rows], f"The front of {base}"))
    title = f"Which mix of {' and '.join(searches.question.names)} is enough?"
    return PageSection("find", "Answer", title, join(*body))


def _said(searches: Searches, case: Case, answer: SearchAnswer) -> Html:
    first, *more = answer_lines(searches, case, answer)
    lines = [tag("p", line, class_="warning" if line.startswith("!") else None) for line in more]
    return join(tag("p", tag("b", first)) if answer.state == FOUND else tag("p", first), *lines)


def _chart(searches: Searches, curve: SearchCurve, answers: dict[Case, SearchAnswer]) -> Html:
    shown = list(answers)[:PANELS]
    figure = find(curve.figure)
    data = {
        "x": {"label": searches.question.name, "labels": None},
        "y": {"label": curve.figure, "time": figure.kind == TIME and figure.unit == "s"},
        "panels": [panel for case in shown for panel in _panels(searches, case, answers[case], curve)],
    }
    cut = f"The first {PANELS} of {len(answers)} searches." if len(answers) > PANELS else ""
    limit = "" if curve.limit is None else f"The limit is {curve.limit:g} {curve.unit}."
    note = "Lines are means of the trials at a value (one, or all repeats near the answer), dots are trials."
    return chart("lines", data, f"{curve.figure} over {searches.question.name}", limit, note, cut)


def _panels(searches: Searches, case: Case, answer: SearchAnswer, curve: SearchCurve) -> list[dict[str, Any]]:
    """The whole range, and the part around the answer."""
    last = len(searches.question.variable.grid) - 1
    parts = {"the whole range": (0, last), "around the answer": around(searches.question, answer)}
    return [
        {"title": f"{case}, {title}", "series": [_series(searches, case, curve, *ends)]}
        for title, ends in parts.items()
    ]


def _series(searches: Searches, case: Case, curve: SearchCurve, first: int, last: int) -> dict[str, Any]:
    question, evidence = searches.question, searches.search(case).evidence
    points: list[dict[str, Any]] = []
    for place in (place for place in sorted(evidence.rows) if first <= place <= last):
        rows = evidence.usable(place)
        mean = over(curve.figure, rows) if rows else None
        if mean is None:
            continue
        spread = mean.deviation or 0.0
        points.append(
            {
                "x": question.variable.number(place), "y": mean.mean, "low": mean.mean - spread, "high": mean.mean + spread,
                "dots": curve.of(rows) if len(rows) > 1 else [],
                "tip": f"{question.name} = {question.value(place)}\n{described(question, evidence, place)}\n"
                f"{plural(len(rows), 'trial')}",
            }
        )  # fmt: skip
    return {"name": case.setup, "points": points}


def _table(searches: Searches) -> Html:
    question = searches.question
    heads = [
        Heading("set-up", number=False), Heading(question.name), Heading("trials"), Heading("holds in"),
        Heading("on average", number=False), Heading("figures", number=False),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for case in searches.rows:
        evidence = searches.search(case).evidence
        for place in sorted(evidence.rows):
            trials = evidence.usable(place)
            held = sum(bool(evidence.holds(place, number)) for number in evidence.numbers(place))
            decided = evidence.decided(place)
            rows.append(
                [
                    Cell(str(case)), Cell(str(question.value(place)), question.variable.number(place)), Cell(str(len(trials))),
                    Cell(str(held)), Cell("–" if decided is None else "holds" if decided else "does not hold"),
                    Cell(described(question, evidence, place)),
                ]
            )  # fmt: skip
    return table(heads, rows, "Everything that was tried. A heading sorts by its column.")
