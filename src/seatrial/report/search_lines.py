"""The answers of a search (`seatrial find`) in sentences, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from seatrial.analysis.repeat_judging import Row, means
from seatrial.analysis.search_answers import EVERYWHERE, FOUND, NOWHERE, SearchAnswer
from seatrial.analysis.search_evidence import Evidence
from seatrial.analysis.searched_studies import Case, Question, Searches
from seatrial.analysis.searching import Search
from seatrial.model.figures import FIGURES, NAMED, TEXT, split
from seatrial.report.answer_figures import amount
from seatrial.report.grouping import Spread, spread
from seatrial.report.text_tables import Column, print_columns, print_line
from seatrial.scenario.expressions import Expression

NEAR = 9  # values in the table on a terminal


def print_answers(searches: Searches, cases: Iterable[Case], console: Console) -> None:
    """Prints the answer of every case, and of a single one the values around it."""
    answers = searches.answers(cases)
    for case, answer in answers.items():
        lines = answer_lines(searches, case, answer)
        print_line(console, lines[0], "bold" if answer.state == FOUND else "yellow")
        for line in lines[1:]:
            print_line(console, f"  {line}", "yellow" if line.startswith("!") else "")
    if len(answers) == 1:
        _print_tried(searches, next(iter(answers)), next(iter(answers.values())), console)


def answer_lines(searches: Searches, case: Case, answer: SearchAnswer) -> list[str]:
    """The answer of a case, what it rests on, and what is against it."""
    question, search = searches.question, searches.search(case)
    lines = [f"{case}: {_sentence(question, answer)}"]
    if answer.place is not None:
        lines.append(_grounds(question, search, answer))
    elif answer.nearest is not None:
        where = f"{described(question, search.evidence, answer.nearest)} at {question.value(answer.nearest)}"
        lines.append(f"nearest: {where}; {_trials(answer)}")
    for holds, fails in answer.contradictions:
        lines.append(
            f"! not monotone: it holds at {question.value(holds)}, but not at {question.value(fails)} "
            f"({described(question, search.evidence, fails)}); values between them may fail, too"
        )
    doubted = searches.doubted.get(case) or {}
    if doubted:
        lines.append(f"! {len(doubted)} trials are not to be trusted and left out: {next(iter(doubted.values()))}")
    return lines


def _sentence(question: Question, answer: SearchAnswer) -> str:
    name, asked, written = question.name, question.asked, question.vary[-1].partition("=")[2].strip()
    kind = "largest" if answer.largest else "smallest"
    if answer.state == NOWHERE:
        return f"{asked} holds for no {name} of {written} that was tried"
    if answer.place is None:
        return f"no answer yet after {_trials(answer)}: {asked} holds at no {name} that was tried"
    value = question.value(answer.place)
    if answer.state == EVERYWHERE:
        return f"{asked} holds for {name} = {value} already, the {kind} of {written}: the answer may lie outside"
    if answer.state == FOUND:
        return f"{value} is the {kind} {name} of {written} for which {asked}"
    if answer.fails is None:
        return f"no answer yet: {asked} holds at {name} = {value}"
    inner = answer.fails + (-1 if answer.largest else 1)
    low, high = sorted((answer.place, inner))
    over = "on average of all repeats" if answer.sure else "in the first repeat"
    if low == high:
        return f"{value} is probably the {kind} {name} of {written} for which {asked}; not all repeats were run"
    return (
        f"no answer yet: the {kind} {name} for which {asked} is between {question.value(low)} and {question.value(high)}; "
        f"it holds at {value} {over}, and not at {question.value(answer.fails)}"
    )


def _grounds(question: Question, search: Search, answer: SearchAnswer) -> str:
    """The figures on both sides of the answer, and where single repeats have it."""
    assert answer.place is not None
    evidence = search.evidence
    at = f"{described(question, evidence, answer.place)} at {question.value(answer.place)}"
    if answer.fails is not None:
        beyond = described(question, evidence, answer.fails)
        figures = [name for text in question.so_that for name in figures_in(text)]
        bare = beyond.removeprefix(f"{figures[0]} is ") if len(figures) == 1 else beyond
        some, of = len(evidence.usable(answer.fails)), len(evidence.usable(answer.place))
        alone = f" in {some} of them, which decide," if some < of else ""
        at += f"{' and' if bare != beyond else ','} {bare}{alone} at {question.value(answer.fails)}"
    count = len(evidence.usable(answer.place))
    parts = [f"mean of {count} repeats: {at}" if count > 1 else at]
    if evidence.alike and evidence.repeats > 1:
        parts.append("repeats do not differ")
    elif answer.interval and count > 1 and not answer.contradictions:
        low, high = (question.value(place) for place in answer.interval)
        same = low == high and not (answer.open_below or answer.open_above)
        ends = f"{low}{' or less' * answer.open_below} to {high}{' or more' * answer.open_above}"
        parts.append(f"in every single repeat {low}" if same else f"in single repeats {ends}")
    return f"{'; '.join(parts)}; {_trials(answer)}"


def _trials(answer: SearchAnswer) -> str:
    return f"{answer.trials} trial{'s' if answer.trials != 1 else ''}"


def described(question: Question, evidence: Evidence, place: int) -> str:
    """The figures of the condition at a place: `wait_p95_s is 571 s`."""
    rows = evidence.usable(place)
    if not rows:
        return "not trusted"
    found = [_one(name, rows) for text in question.so_that for name in figures_in(text)]
    ended = [str(row.get("outcome")) for row in rows if row.get("outcome") != "completed"]
    if ended:
        found.append(f"{len(ended)} of {len(rows)} trials {'/'.join(dict.fromkeys(ended))}")
    return ", ".join(found) or f"outcome {rows[0].get('outcome')}"


def figures_in(text: str) -> list[str]:
    """The figures of a condition, as they come, without those of trials' outcomes."""
    names = Expression.parse(text).names
    ordered = sorted(names, key=lambda name: text.find(split(name)[0]))
    return [name for name in ordered if split(name)[0] in NAMED and FIGURES[split(name)[0]].kind != TEXT]


def _one(name: str, rows: Sequence[Row]) -> str:
    found = over(name, rows)
    return f"{name} is {'empty' if found is None else amount(name, Spread(found.mean))}"


def over(name: str, rows: Sequence[Row]) -> Spread | None:
    """A figure over repeats; None if one has none."""
    values = [value for row in rows if isinstance(value := row.get(name), int | float)]
    return spread(values) if len(values) == len(rows) else None


def _print_tried(searches: Searches, case: Case, answer: SearchAnswer, console: Console) -> None:
    """The values around the answer."""
    question, evidence = searches.question, searches.search(case).evidence
    middle = answer.place if answer.place is not None else answer.nearest
    if middle is None:
        return
    tried = [place for place in evidence.rows if evidence.usable(place)]
    near = sorted(sorted(tried, key=lambda place: abs(place - middle))[:NEAR])
    rows = [evidence.usable(place) for place in near]
    condition = Expression.parse(question.condition.text)
    columns = [
        Column(question.name, [str(question.value(place)) for place in near]),
        Column("repeats", [str(len(of)) for of in rows]),
        Column("holds in", [str(sum(_holds(condition, row) for row in of)) for of in rows]),
    ]
    for name in dict.fromkeys(name for text in question.so_that for name in figures_in(text)):
        columns.append(Column(name, [_range(name, of) for of in rows], left=True))
    print_line(console, "")
    print_columns(console, columns, [evidence.decided(place) is not False for place in near])


def _holds(condition: Expression, row: Row) -> bool:
    return condition.why_not(means(condition, [row])) is None


def _range(name: str, rows: Sequence[Row]) -> str:
    values = [float(value) for row in rows if isinstance(value := row.get(name), int | float)]
    if len(values) < len(rows):
        return "empty"
    mean = amount(name, Spread(sum(values) / len(values)))
    if min(values) == max(values):
        return mean
    return f"{mean} ({amount(name, Spread(min(values)))} to {amount(name, Spread(max(values)))})"
