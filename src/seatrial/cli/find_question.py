"""The question of `seatrial find`, from its options or from the search that goes on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.model.errors import UsageProblem, cut

if TYPE_CHECKING:
    from seatrial.analysis.searched_studies import Question
    from seatrial.scenario.value_ranges import ValueRange

BUDGET, REPEATS, AT_ONCE = 30, 5, 2
MOST_VARIABLES = 2


@dataclass(frozen=True)
class AskedOptions:
    """The options that make the question; None where one is not given."""

    vary: Sequence[str]
    so_that: Sequence[str]
    price: Sequence[str]
    largest: bool | None
    repeats: int | None
    budget: int | None
    at_once: int | None

    def question(self) -> Question:
        """A new question; raises if it is none."""
        from seatrial.analysis.searched_studies import Question
        from seatrial.analysis.searching import SearchLimits
        from seatrial.scenario.value_ranges import parse_variation

        if not self.vary:
            raise UsageProblem("no --vary: the variable is missing", "write one like --vary nodes.gpu.count=10..500")
        if len(self.vary) > MOST_VARIABLES:
            raise UsageProblem(f"{len(self.vary)} variables are too many", "vary one or two, and --set the others")
        if not self.so_that:
            raise UsageProblem("no condition", "write one like --so-that 'wait_p95_s <= 600'")
        variables = [parse_variation(text) for text in self.vary]
        if len(variables) > 1 and self.largest:
            raise UsageProblem(
                "--largest cannot be combined with two variables", "a front has the smallest values that do"
            )
        limits = SearchLimits(self.budget or BUDGET * len(variables), self.at_once or AT_ONCE, self.largest)
        prices = _prices(self.price, variables)
        return Question(tuple(self.vary), tuple(self.so_that), self.repeats or REPEATS, limits, prices)

    def continued(self, out: Path) -> Question:
        """The question of the search in `out`; raises if an option differs from it, but for the budget."""
        from seatrial.analysis.searched_studies import Question
        from seatrial.study.resuming import begun_study

        earlier = Question.of(begun_study(out))
        if earlier is None:
            raise UsageProblem(f"--resume {cut(str(out))}: the study is no search", f"seatrial run --resume {out}")
        given = {
            "--vary": (list(self.vary), list(earlier.vary)),
            "--so-that": (list(self.so_that), list(earlier.so_that)),
            "--price": (_prices(self.price, earlier.variables) if self.price else None, dict(earlier.prices)),
            "--repeat": (self.repeats, earlier.repeats),
            "--at-once": (self.at_once, earlier.limits.at_once),
            "--largest or --smallest": (self.largest, earlier.limits.largest),
        }
        for option, (now, before) in given.items():
            if now not in (None, [], before):
                raise UsageProblem(
                    f"--resume {cut(str(out))}: {option} was {before} and is {now}", "omit it, or begin a new search"
                )
        limits = dataclasses.replace(earlier.limits, budget=self.budget or earlier.limits.budget)
        return dataclasses.replace(earlier, limits=limits)


def _prices(texts: Sequence[str], variables: Sequence[ValueRange]) -> Mapping[str, float]:
    """`--price nodes.gpu=12` by the path of the variable; every variable needs one if one has."""
    from seatrial.scenario.nearest import remedy_for

    found: dict[str, float] = {}
    paths = [one.path for one in variables]
    for text in texts:
        path, equals, written = text.partition("=")
        matching = [one for one in paths if one == path.strip() or one.startswith(f"{path.strip()}.")]
        if not equals or not matching:
            groups = [one.rpartition(".")[0] or one for one in paths]
            raise UsageProblem(f"--price {cut(text)}: no variable is called so", remedy_for(path.strip(), groups))
        try:
            price = float(written)
        except ValueError:
            price = math.nan
        if not math.isfinite(price) or price < 0:
            raise UsageProblem(f"--price {cut(text)}: no price", f"write it like {path.strip()}=12.50")
        found[matching[0]] = price
    missing = [path for path in paths if path not in found] if found else []
    if missing:
        raise UsageProblem(f"{missing[0]} has no price", f"add --price {missing[0].rpartition('.')[0]}=…")
    return found


def check_conditions(question: Question) -> None:
    """Raises for a text that is no condition of a single trial."""
    from seatrial.model.figures import FIGURES, FLAG
    from seatrial.scenario.expression_grammar import ExpressionProblem
    from seatrial.scenario.expressions import Expression

    for text in question.so_that:
        try:
            expression = Expression.parse(text)
        except ExpressionProblem as problem:
            raise UsageProblem(f"--so-that '{cut(text)}': {problem.message}", problem.remedy) from None
        if not any(expression.comparisons()) and not any(FIGURES[name].kind == FLAG for name in expression.figures):
            raise UsageProblem(
                f"--so-that '{cut(text)}': a value instead of a comparison", "write one like 'wait_p95_s <= 600'"
            )
        if expression.references:
            name = next(iter(expression.references))
            raise UsageProblem(
                f"--so-that '{cut(text)}': {name} is of one set-up or of a baseline; each set-up has its own search",
                "name the figure alone, and choose set-ups with --setup",
            )
