"""The expressions of `expect`: `completed == submitted`, `p99_s <= 30`, `outcome == "clogged"`, `p99_s(kueue) <= 1.2 * baseline`.

Python's grammar, read with `ast` and held to a short list of what may stand there, so that nobody has to learn another
language and nothing can be executed. A figure may be empty (`total_s` of a trial that did not complete). A comparison
with an empty figure is neither true nor false, also under `not`, and an expectation that hangs on one does not hold: a
stack that clogs must not pass `not total_s > 60`.

`p99_s(kueue)` is that set-up's figure, whichever set-up is being judged, `p99_s(phase=prod)` that of one submit phase,
`rejected(tenant)` that of one identity, and `baseline` the same figure in another study. When it is parsed, each becomes a name of
its own (`references` says what it stands for), so that whoever judges only looks names up.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from seatrial.model.errors import UsageProblem, cut
from seatrial.scenario.nearest import nearest, remedy_for

Value = float | str | None

# The figures of summary.csv that an expectation may name.
FIGURES: tuple[str, ...] = (
    "workloads", "pods", "nodes", "submitted", "completed", "failed", "deleted", "pending", "outcome", "total_s",
    "rate_per_s", "dispatch_per_s", "p50_s", "p95_s", "p99_s", "cpu_util", "gpu_util", "held_idle_s", "valid",
    "bound_per_s", "schedule_p50_s", "schedule_p99_s",
    "setup", "stack", "clog", "stalls", "stalled_s", "audit_misfit", "audit_aggregate", "audit_overadmitted", "audit_declared",
    "audit_partial", "audit_overtaken",
    "requests", "rejected", "retried", "errors", "requests_per_s", "api_p50_s", "api_p95_s", "api_p99_s", "in_flight_max",
    "queued_max", "cpu_cores", "pod_start_p99_s", "heartbeat_gap_s",
)  # fmt: skip
# Those that can be asked of one identity: `rejected(tenant)`, `api_p99_s("kube-scheduler")`.
OF_IDENTITIES = ("requests", "rejected", "retried", "errors", "api_p50_s", "api_p95_s", "api_p99_s")
# Those that can be asked of one submit phase: `p99_s(phase=prod)`.
OF_PHASES = (
    "workloads", "pods", "submitted", "completed", "failed", "deleted", "pending", "total_s", "rate_per_s", "dispatch_per_s",
    "p50_s", "p95_s", "p99_s", "bound_per_s", "schedule_p50_s", "schedule_p99_s",
)  # fmt: skip
TEXTS = ("outcome", "setup", "stack", "clog")
# Counted or said, not measured: these hold or not, whatever the noise.
EXACT = (
    "workloads", "pods", "nodes", "submitted", "completed", "failed", "deleted", "pending", "valid", *TEXTS,
    "requests", "rejected", "retried", "errors", "in_flight_max", "queued_max", "stalls",
    *(name for name in FIGURES if name.startswith("audit_")),
)  # fmt: skip
BASELINE = "baseline"
KNOWN_WHILE_RUNNING = ("submitted", "completed", "failed", "deleted", "pending", "setup", "stack")
OUTCOMES = ("completed", "clogged", "timeout", "failed", "interrupted")
LONGEST = 1000

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_TRUTH: dict[str, float] = {"true": True, "false": False}
_ALLOWED = (
    "comparisons, and, or, not, + - * /, numbers, texts in quotes, names, figure(set-up), figure(identity), "
    "figure(phase=name) and parentheses"
)


def figure_of(name: str) -> str:
    """`rejected` of `rejected(tenant)`."""
    return name.partition("(")[0]


def of_phase(figure: str, phase: str) -> str:
    """How a figure of one phase is called."""
    return f"{figure}(phase={phase})"


def phase_of(name: str) -> str:
    """`prod` of `p99_s(phase=prod)`; empty for a figure of no phase."""
    return name.partition("(phase=")[2].removesuffix(")")


class ExpressionProblem(UsageProblem):
    """What is wrong with an expression, and at which of its columns (from 1)."""

    def __init__(self, message: str, remedy: str = "", column: int = 1) -> None:
        super().__init__(message, remedy)
        self.column = column


@dataclass(frozen=True, slots=True)
class Reference:
    """A figure of a set-up that is named (empty: the one that is judged), in this study or in the baseline."""

    figure: str
    setup: str = ""
    baseline: bool = False

    @property
    def name(self) -> str:
        phase = phase_of(self.figure)
        of = ", ".join(part for part in (self.setup, f"phase={phase}" if phase else "") if part)
        name = f"{figure_of(self.figure)}({of})" if self.setup else self.figure
        return f"{name}{' of the baseline' if self.baseline else ''}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides of one comparison; a bare name has only a left."""

    left: ast.expr
    op: ast.cmpop | None = None
    right: ast.expr | None = None

    @property
    def names(self) -> list[str]:
        return [name for side in (self.left, self.right) if side is not None for name in _names(side)]

    @property
    def text(self) -> str:
        if self.op is None or self.right is None:
            return _written(self.left)
        return _written(ast.Compare(self.left, [self.op], [self.right]))

    def holds(self, values: Mapping[str, Value]) -> bool | None:
        """None where an empty figure leaves it open. Raises as `Expression.evaluate` does."""
        whole = self.left if self.op is None else ast.Compare(self.left, [self.op], [self.right or self.left])
        return _condition(ast.copy_location(whole, self.left), values)

    def margin(self, values: Mapping[str, Value]) -> float | None:
        """By how much the left is above the right; None with a text or an empty figure."""
        if self.right is None:
            return None
        sides = [_value(side, values) for side in (self.left, self.right)]
        left, right = (side if isinstance(side, int | float) else None for side in sides)
        return None if left is None or right is None else float(left - right)

    def may_be(self, wanted: bool, low: float, high: float) -> bool:
        """Whether it can come out as wanted if the margin is somewhere between these two."""
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
    references: Mapping[str, Reference] = field(default_factory=dict)  # by the name that stands for it

    @classmethod
    def parse(
        cls, text: str, known: Iterable[str] | None = None, texts: Mapping[str, Iterable[str]] | None = None
    ) -> Expression:
        """Raises ExpressionProblem; with `known`, also for a name that is not among them, and with `texts` for a text
        that a name never is."""
        tree = _tree(text)
        texts = {"outcome": OUTCOMES, **(texts or {})}
        try:
            references = _Referring(text, None if known is None else texts.get("setup"))
            tree = references.visit(tree)
            _check_condition(tree)
            _check_texts(tree, texts)
            names = _names(tree)
        except RecursionError:
            raise ExpressionProblem("the expression is nested too deep", "split it in two") from None
        if known is not None:
            _check_names(tree, [*known, *references.found], list(known))
            for name, reference in references.found.items():
                if "(" in reference.figure and reference.figure not in known:
                    remedy = remedy_for(reference.figure, [one for one in known if "(" in one])
                    raise ExpressionProblem(f"unknown name '{name}'", remedy)
        return cls(text, frozenset(names), tree, references.found)

    @property
    def figures(self) -> frozenset[str]:
        """All figures it is about, of whichever set-up."""
        own = {figure_of(name) for name in self.names}
        return frozenset(own & set(FIGURES) | {figure_of(reference.figure) for reference in self.references.values()})

    @property
    def asked(self) -> list[str]:
        """Its figures of single identities and phases, of whichever set-up."""
        own = {name for name in self.names if name not in self.references}
        return sorted(name for name in own | {one.figure for one in self.references.values()} if "(" in name)

    def evaluate(self, values: Mapping[str, Value]) -> bool:
        """Whether it holds. Raises ExpressionProblem for a name that `values` lacks, and for a division by zero."""
        return _condition(self.tree, values) is True

    def explain(self, values: Mapping[str, Value]) -> str:
        """The figures it names as they are: `completed is 99, total_s is empty`."""
        found = [f"{name} is {_shown(values.get(name))}" for name in _names(self.tree)]
        return ", ".join(found)

    def why_not(self, values: Mapping[str, Value]) -> str | None:
        """None if it holds for these figures, else a sentence that says what was found."""
        try:
            if self.evaluate(values):
                return None
        except ExpressionProblem as problem:
            return f"`{self.text}` cannot be judged: {problem.message}"
        return f"`{self.text}` does not hold: {self.explain(values)}"

    def comparisons(self) -> Iterator[Comparison]:
        for part in ast.walk(self.tree):
            if isinstance(part, ast.Compare):
                yield from _comparisons(part)

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


def _comparisons(node: ast.Compare) -> list[Comparison]:
    """`a < b <= c` is two."""
    sides = [node.left, *node.comparators]
    return [Comparison(a, op, b) for a, op, b in zip(sides, node.ops, sides[1:], strict=False)]


class _Referring(ast.NodeTransformer):
    """Puts a name in place of every `figure(set-up)` and every `baseline`."""

    def __init__(self, text: str, setups: Iterable[str] | None) -> None:
        self.text = _one_line(text)
        self.setups = setups if setups is None else list(setups)
        self.found: dict[str, Reference] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name) or len(node.args) > 1 or len(node.args) + len(node.keywords) == 0:
            raise _refused(node, f"it may have {_ALLOWED}")
        figure = node.func.id
        if figure not in FIGURES:
            raise ExpressionProblem(f"unknown figure '{cut(figure)}'", remedy_for(figure, FIGURES), _column(node))
        if node.keywords:
            figure = self._of_phase(figure, node)
            if not node.args:
                return ast.copy_location(ast.Name(figure, ast.Load()), node)
        given = node.args[0]
        setup = self._given(given)
        if figure in OF_IDENTITIES:  # not of a set-up: whoever sends requests is asked for by name
            return ast.copy_location(ast.Name(f"{figure}({setup})", ast.Load()), node)
        if self.setups is not None and setup not in self.setups:
            raise ExpressionProblem(f"unknown set-up '{cut(setup)}'", remedy_for(setup, self.setups), _column(given))
        return self._named(Reference(figure, setup), node)

    def _of_phase(self, figure: str, node: ast.Call) -> str:
        keyword = node.keywords[0]
        if keyword.arg != "phase" or len(node.keywords) > 1:
            raise ExpressionProblem(
                f"'{keyword.arg}' is nothing that a figure can be asked of",
                f"write {figure}(phase=NAME)",
                _column(node),
            )
        if figure not in OF_PHASES:
            raise ExpressionProblem(
                f"'{figure}' is not known of single phases", f"these are: {', '.join(OF_PHASES)}", _column(node)
            )
        return of_phase(figure, self._given(keyword.value))

    def _given(self, node: ast.expr) -> str:
        """As it is written, in quotes or not: a set-up may be called kwok+mcad, a phase two-of-8."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value.strip()
        return (ast.get_source_segment(self.text, node) or "").strip()

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        asked = [name for name in ast.walk(node) if isinstance(name, ast.Name) and name.id == BASELINE]
        if asked:
            figures = [name for name in _names(node) if figure_of(name) in FIGURES]
            if len(figures) != 1:
                remedy = "compare one figure with it, like `p99_s(kueue) <= 1.2 * baseline`"
                raise ExpressionProblem("the baseline of which figure?", remedy, _column(asked[0]))
            own = self.found.get(figures[0], Reference(figures[0]))
            for name in asked:
                name.id = self._named(Reference(own.figure, own.setup, baseline=True), name).id
        return node

    def _named(self, reference: Reference, node: ast.expr) -> ast.Name:
        self.found[reference.name] = reference
        return ast.copy_location(ast.Name(reference.name, ast.Load()), node)


def figure_named(text: str, known: Iterable[str] | None = None) -> str:
    """A single figure, as `answer` names it: `p99_s`, `rejected(nodes)`, `p99_s(phase=prod)`. Raises ExpressionProblem."""
    if text.strip() in TEXTS:
        raise ExpressionProblem(f"'{text.strip()}' is a text", "write a figure that is a number")
    expression = Expression.parse(f"{text} == 0", known)
    names = _names(expression.tree)
    if len(names) != 1 or not _is_a_name(expression.tree) or figure_of(names[0]) not in FIGURES:
        raise ExpressionProblem(f"`{text}` is no figure", "write one like p99_s, rejected(nodes) or p99_s(phase=prod)")
    if expression.references:
        raise ExpressionProblem(
            f"`{text}` is of one set-up", f"write {figure_of(names[0])}: it is told of every set-up"
        )
    return names[0]


def _is_a_name(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Compare) and isinstance(tree.left, ast.Name) and len(tree.comparators) == 1


def calculate(text: str, values: Mapping[str, Value]) -> float:
    """The number that an expression of params is, `5 * iters`; whole where it comes out so."""
    try:
        tree = _tree(text)
        _check_value(tree)
    except (ExpressionProblem, RecursionError):
        raise ExpressionProblem("cannot be calculated", "use params, numbers, + - * / and parentheses") from None
    _check_names(tree, list(values))
    value = _number(tree, values)
    assert value is not None  # params are never empty
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(value: Value) -> str:
    if value is None:
        return "empty"
    return f"{value:g}" if isinstance(value, float) else f'"{value}"' if isinstance(value, str) else str(value)


def _one_line(text: str) -> str:
    return text.strip().replace("\n", " ")


def _tree(text: str) -> ast.expr:
    if not text.strip():
        raise ExpressionProblem("an empty expectation", "write one like `completed == submitted`")
    if len(text) > LONGEST:
        raise ExpressionProblem(f"an expectation of more than {LONGEST} characters", "split it into several")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(_one_line(text), mode="eval").body
    except SyntaxError as error:
        remedy = "compare with ==" if _single_equals(text) else f"it may have {_ALLOWED}"
        raise ExpressionProblem(
            f"`{cut(text)}` is not an expression", remedy, error.offset or len(text.strip()) + 1
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionProblem(f"`{cut(text)}` is not an expression", f"it may have {_ALLOWED}") from None


def _single_equals(text: str) -> bool:
    rest = text
    for longer in ("==", "<=", ">=", "!="):
        rest = rest.replace(longer, "")
    return "=" in rest


def _check_condition(node: ast.expr) -> None:
    """What may stand where true or false is wanted."""
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                _check_condition(part)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            _check_condition(part)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            for op in ops:
                if type(op) not in _COMPARISONS:
                    raise _refused(node, "compare with == != < <= > >=")
            for side in (left, *rights):
                _check_value(side)
        case ast.Name():
            pass
        case ast.Constant(value=bool()):
            pass
        case ast.Constant() | ast.BinOp() | ast.UnaryOp():
            raise ExpressionProblem(
                "a value where a comparison is wanted", "write one like `p99_s <= 30`", _column(node)
            )
        case _:
            raise _refused(node, f"it may have {_ALLOWED}")


def _check_value(node: ast.expr) -> None:
    match node:
        case ast.Name() | ast.Constant(value=bool() | int() | float() | str()):
            pass
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            _check_value(left)
            _check_value(right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=part):
            _check_value(part)
        case _:
            raise _refused(node, f"it may have {_ALLOWED}")


def _check_texts(tree: ast.expr, texts: Mapping[str, Iterable[str]]) -> None:
    """`outcome == "cloged"` would never hold, and nobody would see why."""
    for node in ast.walk(tree):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        for name in (side.id for side in sides if isinstance(side, ast.Name) and side.id in texts):
            for side in sides:
                if isinstance(side, ast.Constant) and str(side.value) not in texts[name]:
                    remedy = remedy_for(str(side.value), texts[name])
                    raise ExpressionProblem(f"no {name} is {cut(repr(side.value))}", remedy, _column(side))


def _check_names(tree: ast.expr, known: list[str], suggested: list[str] | None = None) -> None:
    suggested = known if suggested is None else suggested
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known and node.id not in _TRUTH:
            close = nearest(node.id, suggested)
            if node.id in OUTCOMES or (close is None and nearest(node.id, OUTCOMES)):
                remedy = f'text stands in quotes: "{nearest(node.id, OUTCOMES)}"'
            else:
                remedy = remedy_for(node.id, [one for one in suggested if "(" not in one])
            raise ExpressionProblem(f"unknown name '{cut(node.id)}'", remedy, _column(node))


def _names(tree: ast.expr) -> list[str]:
    found = sorted((n.lineno, n.col_offset, n.id) for n in ast.walk(tree) if isinstance(n, ast.Name))
    return list(dict.fromkeys(name for _, _, name in found if name not in _TRUTH))


def _column(node: ast.expr) -> int:
    return node.col_offset + 1


def _written(node: ast.expr) -> str:
    try:
        return cut(ast.unparse(node))
    except ValueError:  # f-strings that Python 3.11 cannot write
        return type(node).__name__


def _refused(node: ast.expr, remedy: str) -> ExpressionProblem:
    return ExpressionProblem(f"`{_written(node)}` may not stand in an expectation", remedy, _column(node))


def _condition(node: ast.expr, values: Mapping[str, Value]) -> bool | None:
    """True, False, or None where an empty figure leaves it open."""
    match node:
        case ast.BoolOp(op=op, values=parts):
            decided = isinstance(op, ast.Or)  # the value that settles it
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
                raise ExpressionProblem(
                    f'{_written(node)} is the text "{cut(str(value))}"', "compare it with ==", _column(node)
                )
            return None if value is None else bool(value)


def _compare(node: ast.expr, op: ast.cmpop, left: Value, right: Value) -> bool:
    if isinstance(left, str) != isinstance(right, str) and not isinstance(op, ast.Eq | ast.NotEq):
        raise ExpressionProblem(f"`{_written(node)}` compares text with a number", "use == or !=", _column(node))
    return _COMPARISONS[type(op)](left, right)


def _value(node: ast.expr, values: Mapping[str, Value]) -> Value:
    match node:
        case ast.Constant(value=value):
            return value  # type: ignore[return-value]  # checked when parsed
        case ast.Name(id=name):
            if name in values:
                return values[name]
            if name in _TRUTH:
                return _TRUTH[name]
            raise ExpressionProblem(f"unknown name '{cut(name)}'", remedy_for(name, values), _column(node))
        case ast.UnaryOp(op=op, operand=part):
            value = _number(part, values)
            return value if value is None or isinstance(op, ast.UAdd) else -value
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _number(left, values), _number(right, values)
            if a is None or b is None:
                return None
            try:
                return float(_ARITHMETIC[type(op)](a, b))
            except (ZeroDivisionError, OverflowError) as error:
                what = "divides by zero" if isinstance(error, ZeroDivisionError) else "is too large a number"
                message = f"`{_written(node)}` {what}"
                raise ExpressionProblem(message, "guard it, or use other figures", _column(node)) from None
    raise _refused(node, f"it may have {_ALLOWED}")


def _number(node: ast.expr, values: Mapping[str, Value]) -> float | None:
    value = _value(node, values)
    if isinstance(value, str):
        raise ExpressionProblem(f"cannot calculate with the text {cut(repr(value))}", "use a number", _column(node))
    return value
