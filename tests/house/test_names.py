"""One word for one thing: a stranger who looks for a module or a class by its name finds one, and it says what it is."""

from __future__ import annotations

import ast
import asyncio
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

SRC = Path(__file__).parents[2] / "src" / "seatrial"
MODULES = sorted(SRC.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
# Every stack folder has the same shape; these names mean the same in each of them.
SHAPE_OF_A_STACK = {"model", "real", "objects"}
LONGEST_FUNCTION, LONGEST_MODULE = 60, 400
# Longer than that, and why.
LONGER = {
    "cli/run.py: run": "two thirds are the options of the command, a line each",
    "cli/find.py: find": "two thirds are the options of the command, a line each",
    "cli/submit.py: submit": "the options of the command, a line each",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def _name(path: Path) -> str:
    return str(path.relative_to(SRC))


def _repeated(places: dict[str, set[str]]) -> dict[str, list[str]]:
    return {name: sorted(found) for name, found in sorted(places.items()) if len(found) > 1}


def _definitions(body: list[ast.stmt], of: str = "") -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Yields public classes, functions and methods with their names; `Watch.close` for a method."""
    for node in body:
        if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
            yield of + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, f"{of}{node.name}.")


def test_no_two_modules_have_the_same_name() -> None:
    places = defaultdict(set)
    for path in MODULES:
        in_a_stack = path.parent.parent == SRC / "stacks"
        if path.stem != "__init__" and not (in_a_stack and path.stem in SHAPE_OF_A_STACK):
            places[path.stem].add(_name(path))
    assert not _repeated(places)


def test_no_two_public_classes_have_the_same_name() -> None:
    places = defaultdict(set)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(_name(path))
    assert not _repeated(places)


def test_every_public_name_has_a_docstring() -> None:
    """A method may leave its docstring to the class that promises it: a Protocol or a base with a method of that name."""
    promised = set(dir(asyncio.BufferedProtocol)) | {
        node.name
        for tree in TREES.values()
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, Function) and ast.get_docstring(node)
    }
    silent = [f"{_name(path)}: the module" for path, tree in TREES.items() if tree.body and not ast.get_docstring(tree)]
    for path, tree in TREES.items():
        for name, node in _definitions(tree.body):
            method_of_a_promise = "." in name and node.name in promised
            if not ast.get_docstring(node) and not method_of_a_promise:
                silent.append(f"{_name(path)}: {name}")
    assert not silent


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_functions_fit_on_a_screen_and_modules_are_about_one_thing(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST_MODULE
    long = [
        f"{_name(path)}: {node.name}"
        for node in ast.walk(TREES[path])
        if isinstance(node, Function) and (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    ]
    assert not set(long) - LONGER.keys()


def test_modules_stay_small() -> None:
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES if path.stem != "__init__"]
    assert 60 <= median(lengths) <= 140
