"""The grammar of expressions: Python's, read with `ast` and restricted to a short list of nodes, so that nothing can be executed.

A reference to a figure of a set-up, of a group or of the baseline is replaced by one name while parsing. Evaluation looks names up.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.model.errors import UsageProblem, cut
from seatrial.model.figures import CLASS, FIGURES, GROUPS, IDENTITY, NAMED, grouped, split
from seatrial.scenario.nearest import nearest, remedy_for

BASELINE = "baseline"
OUTCOMES = ("completed", "clogged", "timeout", "failed", "interrupted")
LONGEST = 1000  # characters

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
# `class` is a keyword of Python: in `preempted(class=batch)` another word of the same length stands for it while parsing.
_CLASS = "klass"
_KEYWORD = re.compile(r"\bclass(?=\s*=(?!=))")
TRUTH: dict[str, float] = {"true": True, "false": False}
ALLOWED = (
    "it may have comparisons, and, or, not, + - * / // %, numbers, texts in quotes, names, figure(set-up), figure(identity), "
    "figure(phase=name), figure(queue=name), figure(class=name) and parentheses"
)


class ExpressionProblem(UsageProblem):
    """An expression is wrong, at this column (from 1)."""

    def __init__(self, message: str, remedy: str = "", column: int = 1) -> None:
        super().__init__(message, remedy)
        self.column = column


@dataclass(frozen=True, slots=True)
class FigureReference:
    """A figure of the set-up that is named (empty: of the one that is judged), in this study or in the baseline."""

    figure: str
    setup: str = ""
    baseline: bool = False

    @property
    def name(self) -> str:
        """The name that stands for it: `p99_s(kueue, phase=prod)`, `p99_s of the baseline`."""
        figure, group, member = split(self.figure)
        of = f"{self.setup}, {group}={member}" if group else self.setup
        name = f"{figure}({of})" if self.setup else self.figure
        return f"{name}{' of the baseline' if self.baseline else ''}"


class References(ast.NodeTransformer):
    """Replaces every `figure(set-up)`, `figure(group=member)` and `baseline` by one name."""

    def __init__(
        self, text: str, setups: Iterable[str] | None, members: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        self.text = _one_line(text)
        self.setups = setups if setups is None else list(setups)
        self.members = members or {}  # group → its members, where they are known
        self.grouped: list[str] = []  # figures of these members
        self.found: dict[str, FigureReference] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A figure of a set-up, of a member of a group, or of both."""
        if not isinstance(node.func, ast.Name) or len(node.args) > 1 or len(node.args) + len(node.keywords) == 0:
            raise refused(node)
        name = node.func.id
        if name not in NAMED:
            raise problem(node, f"unknown figure '{cut(name)}'", remedy_for(name, NAMED))
        if node.keywords:
            name = self._grouped(name, node)
        elif IDENTITY in FIGURES[name].groups:
            return _name(grouped(name, IDENTITY, self._written(node.args[0])), node)
        if not node.args:
            return _name(name, node)
        setup = self._written(node.args[0])
        if self.setups is not None and setup not in self.setups:
            raise problem(node.args[0], f"unknown set-up '{cut(setup)}'", remedy_for(setup, self.setups))
        return self._referred(FigureReference(name, setup), node)

    def _grouped(self, figure: str, node: ast.Call) -> str:
        keyword = node.keywords[0]
        group = CLASS if keyword.arg == _CLASS else str(keyword.arg)
        groups = FIGURES[figure].groups
        if group not in GROUPS or len(node.keywords) > 1:
            raise problem(
                node,
                f"figures cannot be asked by '{group}'",
                f"write {figure}({groups[0] if groups else next(iter(GROUPS))}=NAME)",
            )
        if group not in groups:
            known = ", ".join(name for name in NAMED if group in FIGURES[name].groups)
            raise problem(node, f"'{figure}' is not known of single {GROUPS[group]}", f"these are: {known}")
        member = self._written(keyword.value)
        name = grouped(figure, group, member)
        if group in self.members:
            if member not in self.members[group]:
                remedy = remedy_for(member, self.members[group])
                raise problem(keyword.value, f"unknown {group} '{cut(member)}'", remedy)
            self.grouped.append(name)
        return name

    def _written(self, node: ast.expr) -> str:
        """A name as written, with or without quotes: kwok+mcad, two-of-8."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value.strip()
        return (ast.get_source_segment(self.text, node) or "").strip()

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """`baseline` stands for the figure that it is compared with."""
        self.generic_visit(node)
        asked = [name for name in ast.walk(node) if isinstance(name, ast.Name) and name.id == BASELINE]
        if asked:
            figures = [name for name in names_in(node) if split(name)[0] in NAMED]
            if len(figures) != 1:
                remedy = "compare one figure with it, like `p99_s(kueue) <= 1.2 * baseline`"
                raise problem(asked[0], "the baseline of which figure?", remedy)
            own = self.found.get(figures[0], FigureReference(figures[0]))
            for name in asked:
                name.id = self._referred(FigureReference(own.figure, own.setup, baseline=True), name).id
        return node

    def _referred(self, reference: FigureReference, node: ast.expr) -> ast.Name:
        self.found[reference.name] = reference
        return _name(reference.name, node)


def _name(name: str, node: ast.expr) -> ast.Name:
    return ast.copy_location(ast.Name(name, ast.Load()), node)


def _one_line(text: str) -> str:
    return text.strip().replace("\n", " ")


def parse_tree(text: str) -> ast.expr:
    """The tree of an expression, not yet checked."""
    if not text.strip():
        raise ExpressionProblem("an empty expectation", "write one like `completed == submitted`")
    if len(text) > LONGEST:
        raise ExpressionProblem(f"an expectation of more than {LONGEST} characters", "split it into several")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(_KEYWORD.sub(_CLASS, _one_line(text)), mode="eval").body
    except SyntaxError as error:
        remedy = "compare with ==" if _single_equals(text) else ALLOWED
        raise ExpressionProblem(
            f"`{cut(text)}` is not an expression", remedy, error.offset or len(text.strip()) + 1
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionProblem(f"`{cut(text)}` is not an expression", ALLOWED) from None


def _single_equals(text: str) -> bool:
    rest = text
    for longer in ("==", "<=", ">=", "!="):
        rest = rest.replace(longer, "")
    return "=" in rest


def check_condition(node: ast.expr) -> None:
    """Raises if the node is not a condition."""
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                check_condition(part)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            check_condition(part)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            for op in ops:
                if type(op) not in COMPARISONS:
                    raise refused(node, "compare with == != < <= > >=")
            for side in (left, *rights):
                check_value(side)
        case ast.Name():
            pass
        case ast.Constant(value=bool()):
            pass
        case ast.Constant() | ast.BinOp() | ast.UnaryOp():
            raise problem(node, "a value instead of a comparison", "write one like `p99_s <= 30`")
        case _:
            raise refused(node)


def check_value(node: ast.expr) -> None:
    """Raises if the node is not a value."""
    match node:
        case ast.Name() | ast.Constant(value=bool() | int() | float() | str()):
            pass
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            check_value(left)
            check_value(right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=part):
            check_value(part)
        case _:
            raise refused(node)


def check_texts(tree: ast.expr, texts: Mapping[str, Iterable[str]]) -> None:
    """Raises for `outcome == "cloged"`: it would never hold, and nobody would see why."""
    for node in ast.walk(tree):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        for name in (side.id for side in sides if isinstance(side, ast.Name) and side.id in texts):
            for side in sides:
                if isinstance(side, ast.Constant) and str(side.value) not in texts[name]:
                    remedy = remedy_for(str(side.value), texts[name])
                    raise problem(side, f"no {name} is {cut(repr(side.value))}", remedy)


def check_names(tree: ast.expr, known: list[str], suggested: list[str] | None = None) -> None:
    """Raises for a name that is not known."""
    suggested = known if suggested is None else suggested
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known and node.id not in TRUTH:
            close = nearest(node.id, suggested)
            if node.id in OUTCOMES or (close is None and nearest(node.id, OUTCOMES)):
                remedy = f'put text in quotes: "{nearest(node.id, OUTCOMES)}"'
            else:
                choice = [close] if close else [one for one in suggested if "(" not in one]
                remedy = remedy_for(node.id, choice)
            raise problem(node, f"unknown name '{cut(node.id)}'", remedy)


def check_parts(tree: ast.expr) -> None:
    """Raises for a figure that is known only of members of a group, and asked for without one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in FIGURES and FIGURES[node.id].in_parts:
            group = FIGURES[node.id].groups[0]
            remedy = f"write {node.id}({group}=NAME)"
            raise problem(node, f"'{node.id}' is known only of single {GROUPS[group]}", remedy)


def names_in(tree: ast.expr) -> list[str]:
    """All names in an expression, as they come."""
    found = sorted((n.lineno, n.col_offset, n.id) for n in ast.walk(tree) if isinstance(n, ast.Name))
    return list(dict.fromkeys(name for _, _, name in found if name not in TRUTH))


def problem(node: ast.expr, message: str, remedy: str) -> ExpressionProblem:
    """A problem at the column of the node."""
    return ExpressionProblem(message, remedy, node.col_offset + 1)


def written(node: ast.expr) -> str:
    """The text of a part of an expression."""
    try:
        return cut(ast.unparse(node).replace(f"{_CLASS}=", "class="))
    except ValueError:  # f-strings that Python 3.11 cannot write
        return type(node).__name__


def refused(node: ast.expr, remedy: str = ALLOWED) -> ExpressionProblem:
    """The problem for Python syntax that expressions do not have."""
    return problem(node, f"`{written(node)}` is not allowed in an expectation", remedy)
