"""`--vary PATH=RANGE`: a param for anything that a scenario has, without a change to its file.

The value at PATH becomes `${PATH}`, and PATH a param with the values of the range: trials, tables, names and comparisons treat it
like any param. Entries of lists are named by their `name` (`nodes.gpu.count`), phases also by their kind (`steps.submit.count`).
All values of a varied param see the same random streams: what differs between two trials is the value alone.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from seatrial.model.errors import UsageProblem, cut
from seatrial.model.plan import Trial
from seatrial.scenario.document import Scenario
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.source import KeyPath, spelled, value_at
from seatrial.scenario.value_ranges import ValueRange

FIXED = ("name", "about", "repeat", "seed", "expect", "answer", "stacks")  # the same in all trials of a study
UNWRITTEN = ("settings", "client")  # may be varied although the file does not have them


def varied(scenario: Scenario, ranges: Sequence[ValueRange]) -> Scenario:
    """The scenario with a param for each range. Raises UsageProblem for a path that the scenario does not have."""
    data, params = scenario.document, dict(scenario.params)
    for one in ranges:
        if sum(other.path == one.path for other in ranges) > 1:
            raise UsageProblem(f"--vary {one.path} is given twice", "write all values in one")
        name = one.path.removeprefix("params.")
        if name != one.path:
            if name not in params:
                raise UsageProblem(
                    f"--vary {one.path}: the scenario has no param '{cut(name)}'", remedy_for(name, params)
                )
            params[name] = one.values
            declared = {**data["params"], name: list(one.values)}
            data = {**data, "params": declared}
            continue
        data = _with(data, locate(data, one.path), f"${{{one.path}}}")
        params[one.path] = one.values
    return dataclasses.replace(scenario, params=params, source=dataclasses.replace(scenario.source, data=data))


def param_names(ranges: Sequence[ValueRange]) -> tuple[str, ...]:
    """The params that they vary."""
    return tuple(one.path.removeprefix("params.") for one in ranges)


def locate(data: Any, path: str) -> KeyPath:
    """The place in a document to which a path of `--vary` leads. An optional key that is not written is placed where it would
    stand."""
    root = path.partition(".")[0]
    if root in FIXED:
        raise UsageProblem(
            f"--vary {cut(path)}: '{root}' is the same for all trials", "vary nodes, steps, settings or params"
        )
    found = _locate(data, path, (), path)
    value = _value(data, found)
    if isinstance(value, dict | list):
        names = list(dict.fromkeys(label for label, _ in _children(value, found)))
        raise UsageProblem(
            f"--vary {cut(path)}: that is no single value", f"continue the path with one of {', '.join(names[:12])}"
        )
    return found


def _locate(data: Any, rest: str, at: KeyPath, path: str) -> KeyPath:
    here = value_at(data, at)
    children = list(_children(here, at))
    matching = [(label, where) for label, where in children if rest == label or rest.startswith(f"{label}.")]
    if matching:
        longest = max(len(label) for label, _ in matching)
        places = list(dict.fromkeys(where for label, where in matching if len(label) == longest))
        if len(places) > 1:
            names = ", ".join(spelled(where) for where in places)
            raise UsageProblem(
                f"--vary {cut(path)}: '{rest[:longest]}' may be {names}", "give it a name, or its number in the list"
            )
        left = rest[longest + 1 :]
        return _locate(data, left, places[0], path) if left else places[0]
    if isinstance(here, dict) and (at or rest.partition(".")[0] in UNWRITTEN):
        parts = [rest] if "/" in rest else rest.split(".")  # a resource is one key: nvidia.com/gpu
        within = (
            at[-1:] in (("settings",), ("submit",)) and len(parts) == 2
        )  # sample.share of a submit without `sample`
        if len(parts) == 1 or parts[0] in UNWRITTEN or within:
            return (*at, *parts)
    labels = [label for label, _ in children]
    named = [
        label for label in labels if not label.isdigit()
    ] or labels  # numbers of a list only where nothing has a name
    known = named + (list(UNWRITTEN) if not at else [])
    raise UsageProblem(
        f"--vary {cut(path)}: the scenario has no '{cut(rest)}'{f' in {spelled(at)}' if at else ''}",
        remedy_for(rest.partition(".")[0], [name for name in known if at or name not in FIXED]),
    )


def _children(value: Any, at: KeyPath) -> Iterator[tuple[str, KeyPath]]:
    """Possible next parts of a path: keys, and names and numbers of entries of lists."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield str(key), (*at, key)
            if at == ("nodes",) and isinstance(child, list):
                yield from ((label, where) for label, where in _children(child, (*at, key)) if not label.isdigit())
    for number, item in enumerate(value) if isinstance(value, list) else ():
        where = (*at, number)
        yield str(number), where
        if isinstance(item, list):
            yield from ((label, deep) for label, deep in _children(item, where) if not label.isdigit())
        elif isinstance(item, dict) and "name" in item:
            yield str(item["name"]), where
        elif isinstance(item, dict) and len(item) == 1:
            [(kind, body)] = item.items()
            yield str(kind), (*where, kind)
            if isinstance(body, dict) and "name" in body:
                yield str(body["name"]), (*where, kind)


def _value(data: Any, path: KeyPath) -> Any:
    for part in path:
        if isinstance(data, dict) and part not in data:
            return None
        data = data[part]
    return data


def _with(data: dict[str, Any], path: KeyPath, value: str) -> dict[str, Any]:
    """A copy with another value, and whatever mappings lead to it."""
    made = copy.deepcopy(data)
    here: Any = made
    for part in path[:-1]:
        here = here.setdefault(part, {}) if isinstance(here, dict) else here[part]
    here[path[-1]] = value
    return made


def without_effect(trials: Sequence[Trial], name: str) -> list[str]:
    """The set-ups that are the same for all values of a param."""
    seen: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        if trial.repeat == 1:
            others = {key: value for key, value in trial.params.items() if key != name}
            seen.setdefault((trial.setup.name, str(others)), []).append(trial)
    idle: dict[str, bool] = {}
    for (setup, _), alike in seen.items():
        first = alike[0]
        same = all(
            (one.setup, one.steps, one.namespaces) == (first.setup, first.steps, first.namespaces) for one in alike
        )
        idle[setup] = idle.get(setup, True) and same
    return [setup for setup, is_idle in idle.items() if is_idle]
