"""What can be under test. Every stack, ours or another package's, is found through the entry points `seatrial.stacks`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Stack
from seatrial.model.lifecycle import LOST
from seatrial.model.settings import Setting


@cache
def _entries() -> dict[str, str]:
    return {entry.name: entry.value for entry in sorted(entry_points(group="seatrial.stacks"), key=lambda e: e.name)}


def names() -> list[str]:
    return list(_entries())


def settings() -> dict[str, Sequence[Setting]]:
    """Every stack with its own settings. Of one that cannot be loaded nothing is known: who wants to run it hears why."""
    found: dict[str, Sequence[Setting]] = {}
    for name in names():
        try:
            found[name] = find(name).settings
        except SetupProblem:
            found[name] = ()
    return found


def stages() -> list[str]:
    """What workloads pass in any stack: standard stages and those of single stacks."""
    return list(dict.fromkeys(stage for name in names() for stage in stages_of(name)))


def stages_of(name: str) -> list[str]:
    """That can be waited for: a lost pod is replaced, and its workload does not stay there. None, if the stack cannot be loaded:
    who wants to run it hears why."""
    try:
        return [stage.name for stage in find(name).stages if stage != LOST]
    except SetupProblem:
        return []


def find(name: str) -> Stack:
    """The stack of this name; its code is loaded only now."""
    if name not in _entries():
        near = difflib.get_close_matches(name, names(), 1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise UsageProblem(f"there is no stack '{name}'", f"{hint}known stacks: {', '.join(names())}")
    (entry,) = entry_points(group="seatrial.stacks", name=name)
    try:
        stack: Stack = entry.load()
    except Exception as error:
        raise SetupProblem(
            f"the stack '{name}' ({entry.value}) cannot be loaded: {type(error).__name__}: {error}",
            "reinstall the package that brings it, or leave the stack out",
        ) from error
    return stack


def model_verified(stack: Stack) -> bool:
    """Whether its model was held against the real thing. What a class inherits says nothing about what it changed."""
    return bool({**vars(type(stack)), **getattr(stack, "__dict__", {})}.get("model_verified", False))
