"""The stacks that can be under test. Each, ours or a foreign package's, is found through the entry points `seatrial.stacks`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Permission, PresenceSigns, Stack
from seatrial.model.lifecycle import LOST
from seatrial.model.plan import Setup
from seatrial.model.settings import Setting, resolve


@cache
def _entries() -> dict[str, EntryPoint]:
    """Cached: reading the metadata of all installed packages takes 10 ms, and every trial asks."""
    return {entry.name: entry for entry in sorted(entry_points(group="seatrial.stacks"), key=lambda e: e.name)}


def names() -> list[str]:
    """Names of all stacks, loadable or not."""
    return list(_entries())


def find(name: str) -> Stack:
    """The stack of this name; its code is loaded only now."""
    if name not in _entries():
        near = difflib.get_close_matches(name, names(), 1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise UsageProblem(f"there is no stack '{name}'", f"{hint}known stacks: {', '.join(names())}")
    entry = _entries()[name]
    try:
        stack: Stack = entry.load()
    except Exception as error:
        raise SetupProblem(
            f"the stack '{name}' ({entry.value}) cannot be loaded: {type(error).__name__}: {error}",
            "reinstall the package that brings it, or leave the stack out",
        ) from error
    return stack


def loadable() -> dict[str, Stack]:
    """All stacks by name, without those that cannot be loaded: `find` says why when one of them is asked for."""
    found: dict[str, Stack] = {}
    for name in names():
        with suppress(SetupProblem):
            found[name] = find(name)
    return found


def settings() -> dict[str, Sequence[Setting]]:
    """Every stack with its own settings; none of one that cannot be loaded."""
    known = loadable()
    return {name: known[name].settings if name in known else () for name in names()}


def stages() -> list[str]:
    """The stages of all stacks: standard ones and those of single stacks."""
    return list(dict.fromkeys(stage for name in names() for stage in stages_of(name)))


def stages_of(name: str) -> list[str]:
    """The stages that can be waited for: not `lost`, because a lost pod is replaced. None if the stack cannot be loaded."""
    try:
        return [stage.name for stage in find(name).stages if stage != LOST]
    except SetupProblem:
        return []


def signs() -> dict[str, PresenceSigns | None]:
    """Signs of each stack in a cluster, for `doctor`; None: nothing has to be installed."""
    return {name: stack.real.signs for name, stack in sorted(loadable().items())}


def permissions() -> dict[str, Sequence[Permission]]:
    """Permissions that our user needs for each stack with shipped settings, for `doctor`."""
    return {
        name: stack.real.permissions(Setup(name, name, (), settings=resolve(stack.settings, "as shipped", {})))
        for name, stack in loadable().items()
    }


def model_verified(stack: Stack) -> bool:
    """Whether its model was compared with the real stack. An inherited answer does not count: it was not about this class."""
    return bool({**vars(type(stack)), **getattr(stack, "__dict__", {})}.get("model_verified", False))
