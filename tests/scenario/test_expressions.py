"""The expressions of `expect`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.figures import NAMED
from seatrial.scenario.expression_grammar import ExpressionProblem
from seatrial.scenario.expressions import Expression

DONE = {
    "completed": 100,
    "submitted": 100,
    "failed": 0,
    "p99_s": 12.5,
    "total_s": 60.0,
    "outcome": "completed",
    "valid": True,
}
CLOGGED = {**DONE, "completed": 7, "p99_s": 12.5, "total_s": None, "outcome": "clogged", "valid": False}


@pytest.mark.parametrize(
    ("text", "done", "clogged"),
    [
        ("completed == submitted", True, False),
        ("p99_s <= 30", True, True),
        ('outcome == "clogged"', False, True),
        ("outcome != 'clogged'", True, False),
        ("total_s <= 1.2 * 60 and failed == 0", True, False),
        ("total_s > 1 or completed > 5", True, True),
        ("not total_s > 90", True, False),
        ("total_s != 5", True, False),
        ("not (failed == 0 and total_s > 90)", True, False),
        ("0 < completed <= 100", True, True),
        ("completed / submitted >= 0.9", True, False),
        ("-completed < +3 - 1", True, True),
        ("valid", True, False),
        ("valid == true and not false", True, False),
        ("total_s / 0 > 1 or failed == 0", None, True),
        ("outcome == 5", None, None),
    ],
)
def test_expressions_hold_or_not(text: str, done: bool | None, clogged: bool | None) -> None:
    for values, expected in ((DONE, done), (CLOGGED, clogged)):
        if expected is not None:
            assert Expression.parse(text).evaluate(values) is expected  # type: ignore[arg-type]


def test_an_expression_explains_itself_with_the_figures_it_names() -> None:
    expression = Expression.parse('total_s <= 60 and outcome == "completed" and completed == submitted')
    assert expression.explain(CLOGGED) == 'total_s is empty, outcome is "clogged", completed is 7, submitted is 100'  # type: ignore[arg-type]
    assert expression.names == {"total_s", "outcome", "completed", "submitted"}


WRONG = {
    "": ("an empty expectation", "write one like", 1),
    "p99_s <": ("`p99_s <` is not an expression", "it may have comparisons", 8),
    "failed = 0": ("`failed = 0` is not an expression", "compare with ==", 8),
    "p99 < 3": ("unknown name 'p99'", "did you mean 'p99_s'?", 1),
    "failed == 0 and complted == 3": ("unknown name 'complted'", "did you mean 'completed'?", 17),
    "outcome == clogged": ("unknown name 'clogged'", 'put text in quotes: "clogged"', 12),
    "outcome == 'cloged'": ("no outcome is 'cloged'", "did you mean 'clogged'?", 12),
    "p99_s(kueue, 2) < 3": ("`p99_s(kueue, 2)` is not allowed in an expectation", "it may have", 1),
    "failed == 0 and p99(kueue) < 3": ("unknown figure 'p99'", "did you mean 'p99_s'?", 17),
    "p99_s(kueue) < p50_s * baseline": ("the baseline of which figure?", "like `p99_s(kueue) <= 1.2 * baseline`", 24),
    "3 <= baseline": ("the baseline of which figure?", "compare one figure", 6),
    "baseline": ("unknown name 'baseline'", "", 1),
    "failed == 0 and x.y > 1": ("`x.y` is not allowed", "it may have", 17),
    "p99_s ** 2 < 9": ("`p99_s ** 2` is not allowed", "it may have", 1),
    "failed in [0]": ("`failed in [0]` is not allowed", "compare with == != < <= > >=", 1),
    "failed is 0": ("`failed is 0` is not allowed", "compare with ==", 1),
    "completed": None,
    "completed + 1": ("a value instead of a comparison", "write one like `p99_s <= 30`", 1),
    "3": ("a value instead of a comparison", "write one like", 1),
    "lambda: 1": ("`lambda: 1` is not allowed", "it may have", 1),
    "f'{failed!r:\\n}' == 1": ("is not allowed", "it may have", 1),
    "__import__('os').system('x')": ("is not allowed", "it may have", 1),
    "failed == 0j": ("`0j` is not allowed", "it may have", 11),
    "failed == None": ("`None` is not allowed", "it may have", 11),
    "1" * 1001: ("more than 1000 characters", "split it", 1),
    "not " * 240 + "valid": None,
    "-" * 990 + "1 < 2": ("", "", 1),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wrong"), WRONG.items())
def test_a_wrong_expression_says_where_and_what_to_write(text: str, wrong: tuple[str, str, int] | None) -> None:
    if wrong is None:
        Expression.parse(text, NAMED)
        return
    with pytest.raises(ExpressionProblem) as caught:
        Expression.parse(text, NAMED)
    message, remedy, column = wrong
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("completed / failed > 1", "divides by zero", "guard it"),
        ("p98_s < 3", "unknown name 'p98_s'", "did you mean 'p99_s'?"),
        ("outcome < completed", "compares text with a number", "use == or !="),
        ("outcome + 1 < 3", "cannot calculate with the text 'completed'", "use a number"),
        ("outcome", 'outcome is the text "completed"', "compare it with =="),
    ],
)
def test_what_cannot_be_evaluated_says_so(text: str, message: str, remedy: str) -> None:
    with pytest.raises(ExpressionProblem) as caught:
        Expression.parse(text).evaluate(DONE)  # type: ignore[arg-type]
    assert message in caught.value.message
    assert remedy in caught.value.remedy


PIECES = [
    "completed",
    "total_s",
    "outcome",
    "==",
    "<",
    "and",
    "or",
    "not",
    "(",
    ")",
    "+",
    "/",
    "0",
    "1.5",
    '"x"',
    ",",
    ".",
]


@given(st.text() | st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_any_text_is_an_expression_or_a_problem_and_evaluates_or_is_one(text: str) -> None:
    try:
        expression = Expression.parse(text)
        assert isinstance(expression.evaluate({**CLOGGED, "x": 1.0}), bool)  # type: ignore[dict-item]
    except ExpressionProblem as problem:
        assert problem.remedy
        assert "\n" not in problem.message or "\n" in text


def test_figures_of_set_ups_and_of_a_baseline_are_names_of_their_own() -> None:
    found = Expression.parse("p99_s(kwok+mcad) <= 1.2 * baseline and p50_s('10s') < p50_s", NAMED)
    assert {(r.figure, r.setup, r.baseline) for r in found.references.values()} == {
        ("p99_s", "kwok+mcad", False), ("p99_s", "kwok+mcad", True), ("p50_s", "10s", False),
    }  # fmt: skip
    values = {"p99_s(kwok+mcad)": 12.0, "p99_s(kwok+mcad) of the baseline": 11.0, "p50_s(10s)": 1, "p50_s": 2}
    assert found.evaluate(values)
    assert found.explain(values).startswith("p99_s(kwok+mcad) is 12, p99_s(kwok+mcad) of the baseline is 11")
    with pytest.raises(ExpressionProblem, match="unknown set-up 'kueu'") as caught:
        Expression.parse("p99_s(kueu) < 3", NAMED, {"setup": ["default", "kueue"]})
    assert (caught.value.remedy, caught.value.column) == ("did you mean 'kueue'?", 7)
