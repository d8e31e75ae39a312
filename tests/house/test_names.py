"""One word for one thing: a stranger who looks for a module or a class by its name finds one, and it says what it is."""

from __future__ import annotations

import ast
import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

SRC = Path(__file__).parents[2] / "src" / "seatrial"
MODULES = sorted(SRC.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
# Every stack folder has the same shape; these names mean the same in each of them.
SHAPE_OF_A_STACK = {"model", "real", "objects", "fleet_rules"}
LONGEST_FUNCTION, LONGEST_MODULE = 60, 400
# A module of `cli` is called like its command, which may be called like the package that does the work.
COMMANDS = SRC / "cli"
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


def _methods(owner: ast.ClassDef) -> Iterator[Function]:
    return (node for node in owner.body if isinstance(node, Function))


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yields names of types that are not classes (`Row = tuple[int, str]`), with what they stand for."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        if name[0].isupper() and not name.isupper():
            yield name, ast.unparse(node.value).replace("npt.", "")


def _imported() -> set[tuple[str, str]]:
    """Modules and names that other modules import from them."""
    nodes = (node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {(node.module or "", name.name) for node in nodes for name in node.names}


def test_no_two_modules_or_packages_have_the_same_name() -> None:
    places = defaultdict(set)
    for path in MODULES:
        in_a_stack = path.parent.parent == SRC / "stacks"
        if path.stem == "__init__":
            places[path.parent.name].add(_name(path))
        elif not (in_a_stack and path.stem in SHAPE_OF_A_STACK) and path.parent != COMMANDS:
            places[path.stem].add(_name(path))
    assert not _repeated(places)
    commands = {path.stem for path in COMMANDS.glob("[!_]*.py")}
    modules = {path.stem for path in MODULES if path.stem != "__init__" and path.parent != COMMANDS}
    assert not commands & modules


def test_no_two_public_types_have_the_same_name() -> None:
    """Classes, and the names of other types that more than one module uses."""
    imported = _imported()
    meanings = defaultdict(set)
    for path, tree in TREES.items():
        module = ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__")
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                meanings[node.name].add(f"a class of {module}")
        for name, meaning in _aliases(tree):
            if (module, name) in imported and not meaning.endswith(f".{name}"):
                meanings[name].add(meaning)
    assert not _repeated(meanings)


def test_every_public_name_has_a_docstring() -> None:
    """A method may leave its docstring to the Protocol or to the base that has a documented method of that name."""
    classes = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    bases = {word for owner in classes for base in owner.bases for word in re.findall(r"\w+", ast.unparse(base))}
    protocols = {owner.name for owner in classes if "Protocol" in map(ast.unparse, owner.bases)}
    promised = set(dir(asyncio.BufferedProtocol)) | {
        node.name
        for owner in classes
        if owner.name in bases | protocols
        for node in _methods(owner)
        if ast.get_docstring(node)
    }
    silent = [f"{_name(path)}: the module" for path, tree in TREES.items() if tree.body and not ast.get_docstring(tree)]
    for path, tree in TREES.items():
        for name, node in _definitions(tree.body):
            method_of_a_promise = "." in name and node.name in promised
            setter = any(ast.unparse(decorator).endswith(".setter") for decorator in node.decorator_list)
            if not (ast.get_docstring(node) or method_of_a_promise or setter):
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
    assert set(long) == {name for name in LONGER if name.startswith(f"{_name(path)}: ")}


def test_modules_stay_small() -> None:
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES if path.stem != "__init__"]
    assert 60 <= median(lengths) <= 140
