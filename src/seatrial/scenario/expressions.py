"""The expressions of `expect`: `completed == submitted`, `p99_s <= 30`, `outcome == "clogged"`.

Python's grammar, read with `ast` and held to a short list of what may stand there, so that nobody has to learn another
language and nothing can be executed. A figure may be empty (`total_s` of a trial that did not complete). A comparison
with an empty figure is neither true nor false, also under `not`, and an expectation that hangs on one does not hold: a
stack that clogs must not pass `not total_s > 60`.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from seatrial.model.errors import UsageProblem
from seatrial.scenario.nearest import nearest, remedy_for

Value = float | str | None

# The figures of summary.csv that an expectation may name.
FIGURES: tuple[str, ...] = (
    "workloads", "pods", "nodes", "submitted", "completed", "failed", "deleted", "pending", "outcome", "total_s",
    "rate_per_s", "dispatch_per_s", "p50_s", "p95_s", "p99_s", "cpu_util", "gpu_util", "held_idle_s", "valid",
    "setup", "stack", "clog", "audit_misfit", "audit_aggregate", "audit_overadmitted", "audit_declared",
    "audit_partial", "audit_overtaken",
    "requests", "rejected", "retried", "errors", "requests_per_s", "api_p50_s", "api_p95_s", "api_p99_s", "in_flight_max",
    "queued_max", "cpu_cores", "pod_start_p99_s", "heartbeat_gap_s",
)  # fmt: skip
# Those that can be asked of one identity: `rejected(tenant)`, `api_p99_s("kube-scheduler")`.
OF_IDENTITIES = ("requests", "rejected", "retried", "errors", "api_p50_s", "api_p95_s", "api_p99_s")
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
_ALLOWED = "comparisons, and, or, not, + - * /, numbers, texts in quotes, names and parentheses"


class ExpressionProblem(UsageProblem):
    """What is wrong with an expression, and at which of its columns (from 1)."""

    def __init__(self, message: str, remedy: str = "", column: int = 1) -> None:
        super().__init__(message, remedy)
        self.column = column


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression. Calls such as `p99_s(kueue)` will be one more case in `_check` and `_value`."""

    text: str
    names: frozenset[str]
    tree: ast.expr = field(repr=False, compare=False)

    @classmethod
    def parse(
        cls, text: str, known: Iterable[str] | None = None, texts: Mapping[str, Iterable[str]] | None = None
    ) -> Expression:
        """Raises ExpressionProblem; with `known`, also for a name that is not among them, and with `texts` for a text
        that a name never is."""
        tree = _tree(text)
        try:
            tree = cast(ast.expr, _Calls().visit(tree))
            _check_condition(tree)
            _check_texts(tree, {"outcome": OUTCOMES, **(texts or {})})
            names = _names(tree)
        except RecursionError:
            raise ExpressionProblem("the expression is nested too deep", "split it in two") from None
        if known is not None:
            _check_names(tree, list(known))
        return cls(text, frozenset(names), tree)

    def evaluate(self, values: Mapping[str, Value]) -> bool:
        """Whether it holds. Raises ExpressionProblem for a name that `values` lacks, and for a division by zero."""
        return _condition(self.tree, values) is True

    def explain(self, values: Mapping[str, Value]) -> str:
        """The figures it names as they are: `completed is 99, total_s is empty`."""
        found = [f"{name} is {_shown(values.get(name))}" for name in _names(self.tree)]
        return ", ".join(found)


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


def _tree(text: str) -> ast.expr:
    if not text.strip():
        raise ExpressionProblem("an empty expectation", "write one like `completed == submitted`")
    if len(text) > LONGEST:
        raise ExpressionProblem(f"an expectation of more than {LONGEST} characters", "split it into several")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip().replace("\n", " "), mode="eval").body
    except SyntaxError as error:
        remedy = "compare with ==" if _single_equals(text) else f"it may have {_ALLOWED}"
        raise ExpressionProblem(
            f"`{text}` is not an expression", remedy, error.offset or len(text.strip()) + 1
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionProblem(f"`{text}` is not an expression", f"it may have {_ALLOWED}") from None


class _Calls(ast.NodeTransformer):
    """`rejected(tenant)` is a figure of that name: from here on nothing need know that it was written as a call."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(
                func=ast.Name(id=figure), args=[ast.Name(id=of) | ast.Constant(value=str() as of)], keywords=[]
            ):
                return ast.copy_location(ast.Name(f"{figure}({of})", ast.Load()), node)
        return node


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
                    raise ExpressionProblem(f"no {name} is {side.value!r}", remedy, _column(side))


def _check_names(tree: ast.expr, known: list[str]) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known and node.id not in _TRUTH:
            close = nearest(node.id, known)
            if node.id in OUTCOMES or (close is None and nearest(node.id, OUTCOMES)):
                remedy = f'text stands in quotes: "{nearest(node.id, OUTCOMES)}"'
            else:
                remedy = f"did you mean '{close}'?" if close else f"known: {', '.join(known)}"
            raise ExpressionProblem(f"unknown name '{node.id}'", remedy, _column(node))


def _names(tree: ast.expr) -> list[str]:
    found = sorted((n.lineno, n.col_offset, n.id) for n in ast.walk(tree) if isinstance(n, ast.Name))
    return list(dict.fromkeys(name for _, _, name in found if name not in _TRUTH))


def _column(node: ast.expr) -> int:
    return node.col_offset + 1


def _written(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
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
                raise ExpressionProblem(f'{_written(node)} is the text "{value}"', "compare it with ==", _column(node))
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
            raise ExpressionProblem(f"unknown name '{name}'", remedy_for(name, values), _column(node))
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
                message = f"`{_written(node)}`: {error}"
                raise ExpressionProblem(message, "guard it, or use other figures", _column(node)) from None
    raise _refused(node, f"it may have {_ALLOWED}")


def _number(node: ast.expr, values: Mapping[str, Value]) -> float | None:
    value = _value(node, values)
    if isinstance(value, str):
        raise ExpressionProblem(f"cannot calculate with the text {value!r}", "use a number", _column(node))
    return value
