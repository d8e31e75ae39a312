"""The expressions of `expect`: `completed == submitted`, `p99_s <= 30`, `outcome == "clogged"`, `p99_s(kueue) <= 1.2 * baseline`.

A figure may be empty (`total_s` of a trial that did not complete). A comparison with an empty figure is neither true nor false,
also under `not`, and an expectation that depends on one does not hold: a stack that clogs must not pass `not total_s > 60`.

`p99_s(kueue)` is the figure of that set-up, whichever set-up is being judged, `p99_s(phase=prod)` that of one submit phase,
`rejected(tenant)` that of one identity, and `baseline` the same figure in another study.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from seatrial.model.errors import cut
from seatrial.model.figures import CLASS, FIGURES, NAMED, QUEUE, TEXT, Value, is_asked, split
from seatrial.scenario import expression_grammar as grammar
from seatrial.scenario.expression_grammar import ExpressionProblem, FigureReference
from seatrial.scenario.nearest import remedy_for


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison in an expression; a bare name has only a left side."""

    left: ast.expr
    op: ast.cmpop | None = None
    right: ast.expr | None = None

    @property
    def names(self) -> list[str]:
        """The names on both sides."""
        return [name for side in (self.left, self.right) if side is not None for name in grammar.names_in(side)]

    @property
    def text(self) -> str:
        """The comparison as text."""
        if self.op is None or self.right is None:
            return grammar.written(self.left)
        return grammar.written(ast.Compare(self.left, [self.op], [self.right]))

    def holds(self, values: Mapping[str, Value]) -> bool | None:
        """None if it depends on an empty figure. Raises like `Expression.evaluate`."""
        whole = self.left if self.op is None else ast.Compare(self.left, [self.op], [self.right or self.left])
        return _condition(ast.copy_location(whole, self.left), values)

    def margin(self, values: Mapping[str, Value]) -> float | None:
        """By how much the left is above the right; None with a text or an empty figure."""
        if self.right is None:
            return None
        sides = [_value(side, values) for side in (self.left, self.right)]
        left, right = (side if isinstance(side, int | float) else None for side in sides)
        return None if left is None or right is None else float(left - right)

    def slack(self, values: Mapping[str, Value]) -> float | None:
        """How far it is from changing, relative to its right side: negative where it does not hold. None as `margin`."""
        margin = self.margin(values)
        if margin is None or self.right is None:
            return None
        right, left = (_value(side, values) for side in (self.right, self.left))
        size = next((abs(side) for side in (right, left) if isinstance(side, int | float) and side), 1.0)
        match self.op:
            case ast.Lt() | ast.LtE():
                return -margin / size
            case ast.Eq():
                return -abs(margin) / size
            case ast.NotEq():
                return abs(margin) / size
        return margin / size

    def limit_of(self, name: str) -> float | None:
        """The number that a single name is compared with."""
        sides = (self.left, self.right)
        if self.right is None or not any(isinstance(side, ast.Name) and side.id == name for side in sides):
            return None
        other = self.right if isinstance(self.left, ast.Name) and self.left.id == name else self.left
        value = None if grammar.names_in(other) else _value(other, {})
        return float(value) if isinstance(value, int | float) else None

    def least_mean(self, rows: Sequence[Mapping[str, Value]], repeats: int) -> bool | None:
        """Whether `figure <= number` may hold for the mean of so many repeats, of which these are known: no figure is below 0.
        None for other comparisons."""
        name = self.left.id if isinstance(self.left, ast.Name) else ""
        limit = self.limit_of(name) if split(name)[0] in NAMED else None
        values = [row.get(name) for row in rows]
        known = [value for value in values if isinstance(value, int | float)]
        if limit is None or not isinstance(self.op, ast.Lt | ast.LtE) or len(known) < len(rows):
            return None
        return grammar.COMPARISONS[type(self.op)](sum(known) / repeats, limit)

    def may_be(self, wanted: bool, low: float, high: float) -> bool:
        """Whether the comparison can be `wanted` if the margin is within these bounds."""
        match self.op:
            case ast.Lt():
                return low < 0 if wanted else high >= 0
            case ast.LtE():
                return low <= 0 if wanted else high > 0
            case ast.Gt():
                return high > 0 if wanted else low <= 0
            case ast.GtE():
                return high >= 0 if wanted else low < 0
        inside = low <= 0 <= high
        equal = isinstance(self.op, ast.Eq)
        return inside if wanted == equal else not low == high == 0


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression."""

    text: str
    names: frozenset[str]
    tree: ast.expr = field(repr=False, compare=False)
    references: Mapping[str, FigureReference] = field(default_factory=dict)  # by the name that stands for it

    @classmethod
    def parse(
        cls, text: str, known: Iterable[str] | None = None, texts: Mapping[str, Iterable[str]] | None = None
    ) -> Expression:
        """Raises ExpressionProblem; with `known`, also for a name that is not among them, and with `texts` for a text
        that a name never is."""
        tree = grammar.parse_tree(text)
        texts = {"outcome": grammar.OUTCOMES, **(texts or {})}
        try:
            members = {group: texts[group] for group in (QUEUE, CLASS) if known is not None and group in texts}
            references = grammar.References(text, None if known is None else texts.get("setup"), members)
            tree = references.visit(tree)
            grammar.check_parts(tree)
            grammar.check_condition(tree)
            grammar.check_texts(tree, texts)
            names = grammar.names_in(tree)
        except RecursionError:
            raise ExpressionProblem("the expression is nested too deep", "split it in two") from None
        if known is not None:
            known = list(known)
            grammar.check_names(tree, [*known, *references.found, *references.grouped], known)
            for name, reference in references.found.items():
                if "(" in reference.figure and reference.figure not in (*known, *references.grouped):
                    remedy = remedy_for(reference.figure, [one for one in known if "(" in one])
                    raise ExpressionProblem(f"unknown name '{name}'", remedy)
        return cls(text, frozenset(names), tree, references.found)

    @property
    def figures(self) -> frozenset[str]:
        """All figures that it names, of any set-up and group."""
        named = (*self.names - self.references.keys(), *(reference.figure for reference in self.references.values()))
        return frozenset(figure for name in named if (figure := split(name)[0]) in NAMED)

    @property
    def asked(self) -> list[str]:
        """Its figures that summary.csv may lack, of any set-up: of members of groups (phases, queues), and of shared fleets."""
        own = {name for name in self.names if name not in self.references}
        return sorted(name for name in own | {one.figure for one in self.references.values()} if is_asked(name))

    def evaluate(self, values: Mapping[str, Value]) -> bool:
        """Whether it holds. Raises ExpressionProblem for a name that `values` lacks, and for a division by zero."""
        return _condition(self.tree, values) is True

    def explain(self, values: Mapping[str, Value]) -> str:
        """The values of its figures: `completed is 99, total_s is empty`."""
        found = [f"{name} is {_shown(values.get(name))}" for name in grammar.names_in(self.tree)]
        return ", ".join(found)

    def why_not(self, values: Mapping[str, Value]) -> str | None:
        """None if it holds for these figures, else a sentence with the figures."""
        try:
            if self.evaluate(values):
                return None
        except ExpressionProblem as problem:
            return f"`{self.text}` cannot be judged: {problem.message}"
        return f"`{self.text}` does not hold: {self.explain(values)}"

    def comparisons(self) -> Iterator[Comparison]:
        """All comparisons in it; `a < b <= c` is two."""
        for part in ast.walk(self.tree):
            if isinstance(part, ast.Compare):
                yield from _comparisons(part)

    def slack(self, values: Mapping[str, Value]) -> float | None:
        """How far the condition is from changing: of `and` the least of its parts, of `or` the most. None if it has no numbers."""
        return _slack(self.tree, values)

    def decide(self, may_be: Callable[[Comparison, bool], bool]) -> bool:
        """Whether it may hold, if `may_be` says of each comparison whether it may come out as wanted."""
        return _decide(self.tree, True, may_be)


def _decide(node: ast.expr, wanted: bool, may_be: Callable[[Comparison, bool], bool]) -> bool:
    match node:
        case ast.BoolOp(op=op, values=parts):
            together = all if isinstance(op, ast.And) == wanted else any
            return together([_decide(part, wanted, may_be) for part in parts])
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return _decide(part, not wanted, may_be)
        case ast.Compare():
            return (all if wanted else any)([may_be(one, wanted) for one in _comparisons(node)])
    return may_be(Comparison(node), wanted)


def _slack(node: ast.expr, values: Mapping[str, Value]) -> float | None:
    match node:
        case ast.BoolOp(op=op, values=parts):
            known = [slack for part in parts if (slack := _slack(part, values)) is not None]
            return (min if isinstance(op, ast.And) else max)(known, default=None)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            slack = _slack(part, values)
            return None if slack is None else -slack
        case ast.Compare():
            known = [slack for one in _comparisons(node) if (slack := one.slack(values)) is not None]
            return min(known, default=None)
    return None


def _comparisons(node: ast.Compare) -> list[Comparison]:
    """`a < b <= c` is two."""
    sides = [node.left, *node.comparators]
    return [Comparison(a, op, b) for a, op, b in zip(sides, node.ops, sides[1:], strict=False)]


def figure_named(
    text: str, known: Iterable[str] | None = None, texts: Mapping[str, Iterable[str]] | None = None
) -> str:
    """A single figure, as `answer` names it: `p99_s`, `rejected(nodes)`, `p99_s(phase=prod)`. Raises as `Expression.parse` does."""
    if text.strip() in NAMED and FIGURES[text.strip()].kind == TEXT:
        raise ExpressionProblem(f"'{text.strip()}' is a text", "write a figure that is a number")
    expression = Expression.parse(f"{text} == 0", known, texts)
    names = grammar.names_in(expression.tree)
    if len(names) != 1 or not _is_a_name(expression.tree) or split(names[0])[0] not in NAMED:
        raise ExpressionProblem(
            f"`{text}` is not a figure", "write one like p99_s, rejected(nodes) or p99_s(phase=prod)"
        )
    if expression.references:
        raise ExpressionProblem(
            f"`{text}` is of one set-up", f"write {split(names[0])[0]}: it is shown for every set-up"
        )
    return names[0]


def _is_a_name(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Compare) and isinstance(tree.left, ast.Name) and len(tree.comparators) == 1


def calculate(text: str, values: Mapping[str, Value]) -> float:
    """The value of an expression of params, `5 * iters`; an int if it is whole. A comparison, `size > 1`, is true or false."""
    try:
        tree = grammar.parse_tree(text)
        compares = isinstance(tree, ast.Compare | ast.BoolOp)
        (grammar.check_condition if compares else grammar.check_value)(tree)
    except (ExpressionProblem, RecursionError):
        remedy = "use params, numbers, + - * / // %, parentheses, comparisons, and, or"
        raise ExpressionProblem("cannot be calculated", remedy) from None
    grammar.check_names(tree, list(values))
    value = _condition(tree, values) if compares else _number(tree, values)
    assert value is not None  # params are never empty
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(value: Value) -> str:
    if value is None:
        return "empty"
    return f"{value:g}" if isinstance(value, float) else f'"{value}"' if isinstance(value, str) else str(value)


def _condition(node: ast.expr, values: Mapping[str, Value]) -> bool | None:
    """True, False, or None if it depends on an empty figure."""
    match node:
        case ast.BoolOp(op=op, values=parts):
            decided = isinstance(op, ast.Or)  # the deciding value
            results = [_condition(part, values) for part in parts]
            if decided in results:
                return decided
            return None if None in results else not decided
        case ast.UnaryOp(operand=part):
            result = _condition(part, values)
            return None if result is None else not result
        case ast.Compare(left=left, ops=ops, comparators=rights):
            sides = [_value(side, values) for side in (left, *rights)]
            if None in sides:
                return None
            return all(_compare(node, op, a, b) for op, a, b in zip(ops, sides, sides[1:], strict=False))
        case _:
            value = _value(node, values)
            if isinstance(value, str):
                raise grammar.problem(
                    node, f'{grammar.written(node)} is the text "{cut(str(value))}"', "compare it with =="
                )
            return None if value is None else bool(value)


def _compare(node: ast.expr, op: ast.cmpop, left: Value, right: Value) -> bool:
    if isinstance(left, str) != isinstance(right, str) and not isinstance(op, ast.Eq | ast.NotEq):
        raise grammar.problem(node, f"`{grammar.written(node)}` compares text with a number", "use == or !=")
    return grammar.COMPARISONS[type(op)](left, right)


def _value(node: ast.expr, values: Mapping[str, Value]) -> Value:
    match node:
        case ast.Constant(value=value):
            return value  # type: ignore[return-value]  # checked when parsed
        case ast.Name(id=name):
            if name in values:
                return values[name]
            if name in grammar.TRUTH:
                return grammar.TRUTH[name]
            raise grammar.problem(node, f"unknown name '{cut(name)}'", remedy_for(name, values))
        case ast.UnaryOp(op=op, operand=part):
            value = _number(part, values)
            return value if value is None or isinstance(op, ast.UAdd) else -value
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _number(left, values), _number(right, values)
            if a is None or b is None:
                return None
            try:
                return float(grammar.ARITHMETIC[type(op)](a, b))
            except (ZeroDivisionError, OverflowError) as error:
                what = "divides by zero" if isinstance(error, ZeroDivisionError) else "is too large a number"
                message = f"`{grammar.written(node)}` {what}"
                raise grammar.problem(node, message, "guard it, or use other figures") from None
    raise grammar.refused(node)


def _number(node: ast.expr, values: Mapping[str, Value]) -> float | None:
    value = _value(node, values)
    if isinstance(value, str):
        raise grammar.problem(node, f"cannot calculate with the text {cut(repr(value))}", "use a number")
    return value
