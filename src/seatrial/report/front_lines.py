"""The front of a search over two variables (`seatrial find`), in sentences and rows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from seatrial.analysis.search_fronts import Front, FrontPoint, front_of
from seatrial.analysis.searched_studies import Case, Question, Searches
from seatrial.report.search_lines import described
from seatrial.report.text_tables import Column, print_columns, print_line


def fronts_of(searches: Searches) -> dict[Case, Front]:
    """The front of every set-up and choice of the other params."""
    name = searches.question.names[0]
    bases = dict.fromkeys(case.without(name) for case in searches.rows)
    return {base: front_of(searches, base) for base in bases}


def print_fronts(searches: Searches, console: Console) -> None:
    """Prints the cheapest mix of every case, and its front."""
    for base, front in fronts_of(searches).items():
        first, *more = front_sentences(searches, base, front)
        print_line(console, first, "bold" if front.points else "yellow")
        for line in more:
            print_line(console, f"  {line}", "yellow" if line.startswith("!") else "")
        if front.points:
            heads, rows = front_rows(searches, base, front)
            print_line(console, "")
            columns = [Column(head, [row[n] for row in rows], left=n == len(heads) - 1) for n, head in enumerate(heads)]
            print_columns(console, columns, [True] * len(rows))


def front_sentences(searches: Searches, base: Case, front: Front) -> list[str]:
    """The answer of a case, and what is against it."""
    question = searches.question
    trials = f"{front.trials} trials"
    if not front.points:
        ranges = " and ".join(text.replace("=", " of ", 1) for text in question.vary)
        return [f"{base}: {question.asked} holds for no mix of {ranges} that was tried; {trials}"]
    best = front.best
    if best is None:
        lines = [f"{base}: {len(front.points)} mixes that just do, so that {question.asked}; {trials}"]
        lines.append("of the first repeat; with --price the cheapest is found, and confirmed with all repeats")
    else:
        said = "is the cheapest mix" if best.confirmed else "may be the cheapest mix (in the first repeat)"
        lines = [f"{base}: {mix(question, best)} {said} for which {question.asked}: {_price(best)}"]
        over = f"mean of {question.repeats} repeats: " if best.confirmed and question.repeats > 1 else ""
        evidence = searches.search(_slice(question, base, best)).evidence
        lines.append(f"{over}{described(question, evidence, best.place)}; {trials}")
        if front.bound is not None and best.cost is not None and front.bound < best.cost:
            lines.append(
                f"a mix between those that were tried may cost {front.bound:,.10g} or more: --resume with a larger --budget"
            )
    for (a, b), (c, d) in front.contradictions:
        does, fails = (f"{question.across_value(x)} and {question.value(y)}" for x, y in ((a, b), (c, d)))
        lines.append(f"! not monotone: it holds at {does}, but not at {fails}: the front may be wrong")
    return lines


def front_rows(searches: Searches, base: Case, front: Front) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, by the first variable."""
    question = searches.question
    rows = []
    for point in front.points:
        evidence = searches.search(_slice(question, base, point)).evidence
        run = evidence.usable(point.place)
        rows.append(
            [
                str(question.across_value(point.across)), str(question.value(point.place)),
                *([_price(point)] if point.cost is not None else []),
                "confirmed" if point.confirmed else "first repeat",
                described(question, evidence, point.place) if run else "as with less of the first",
            ]
        )  # fmt: skip
    priced = ["price"] if question.prices else []
    return [*question.names, *priced, "known from", "figures"], rows


def mix(question: Question, point: FrontPoint) -> str:
    """`nodes.a.count=4 with nodes.b.count=12`."""
    first, second = question.names
    return f"{first} = {question.across_value(point.across)} with {second} = {question.value(point.place)}"


def _price(point: FrontPoint) -> str:
    return f"{point.cost:,.10g}"


def _slice(question: Question, base: Case, point: FrontPoint) -> Case:
    return base.beside(question.names[0], question.across_value(point.across))


def tried(searches: Searches, base: Case) -> Sequence[tuple[int, int, bool]]:
    """Places of both variables that were tried in the first repeat, and whether the condition held."""
    question, name = searches.question, searches.question.names[0]
    return [
        (question.across_places[dict(case.params)[name]], place, held)
        for case in searches.rows
        if case.without(name) == base
        for place, held in searches.search(case).lead.items()
    ]
