"""Params of a scenario: their values, `--set`, and filling in `${param}` wherever a value is."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from seatrial.model.errors import Mistake, UsageProblem, cut
from seatrial.model.figures import LABELS, NAMED
from seatrial.model.plan import Scalar
from seatrial.scenario import yaml_scalars
from seatrial.scenario.expression_grammar import BASELINE, ExpressionProblem
from seatrial.scenario.expressions import calculate
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.source import KeyPath, Source, value_at

Values = tuple[Scalar, ...]

REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_CALCULATED = re.compile(r"[-+*/%()<>=! ]")  # what no param's name has
_NEXT_PARAM = re.compile(r",(?=\s*[A-Za-z_]\w*\s*=)")
_CONSTANT = ("name", "about", "params")  # what a scenario is called cannot differ from trial to trial

# `${…}` in the manifests of a request that differ from request to request.
WHEN_SENT = ("i", "namespace", "payload")
NUMBER = "i"  # of a queue or cohort among those that a `count` makes alike
COUNTED = ("queues", "cohorts")
MOST_ALIKE = 10_000

# Columns of summary.csv and names in `expect` that no param may have. Three that describe a load may be params too (the
# design's own example has `pods`); in `expect` they then mean the figure.
TAKEN = tuple(name for name in (*LABELS, BASELINE, *NAMED) if name not in ("workloads", "pods", "nodes"))


def values_of(written: Any) -> dict[str, Values]:
    """The params of a document that are valid; `expand` reports the others."""
    if not isinstance(written, dict):
        return {}
    lists = {name: value if isinstance(value, list) else [value] for name, value in written.items()}
    return {
        name: tuple(values)
        for name, values in lists.items()
        if values and all(isinstance(value, str | int | float) for value in values)
    }


def parse_sets(texts: Iterable[str]) -> dict[str, list[Scalar]]:
    """`["jobs=1,10", "gpus=0"]` or `["jobs=1,10,gpus=0"]`, the arguments of `--set`; values are read like YAML scalars."""
    sets: dict[str, list[Scalar]] = {}
    for text in (one for several in texts for one in _NEXT_PARAM.split(several)):
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise UsageProblem(
                f"--set {text}: not of the form name=value", "write it like --set jobs=10 or --set jobs=1,10"
            )
        if name in sets:
            raise UsageProblem(f"--set {name} is given twice", f"write all values in one: --set {name}=1,10")
        sets[name] = [_set_value(name, value.strip()) for value in values.split(",")]
    return sets


def _set_value(name: str, text: str) -> Scalar:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    value = text[1:-1] if quoted else yaml_scalars.resolve(text)
    if value is None:
        raise UsageProblem(f"--set {name}: an empty value", f"write it like --set {name}=10")
    return value


def overridden(params: Mapping[str, Values], sets: Mapping[str, list[Scalar]]) -> dict[str, Values]:
    """The params with the values of `--set`."""
    for name, values in sets.items():
        if name not in params:
            raise UsageProblem(f"--set {name}: the scenario has no such param", remedy_for(name, params))
        if not values:
            raise UsageProblem(f"--set {name}: no value", f"write it like --set {name}=10")
        for value in _twice(values):
            raise UsageProblem(f"--set {name}: {yaml_scalars.spell(value)} is listed twice", "list each value once")
    return {name: tuple(sets.get(name, values)) for name, values in params.items()}


def _twice(values: Sequence[Scalar]) -> dict[Scalar, int]:
    """Repeated values and the position of the repetition; 1 and 1.0 are two values, with two names."""
    seen: set[tuple[type, Scalar]] = set()
    again: dict[Scalar, int] = {}
    for number, value in enumerate(values):
        if (type(value), value) in seen:
            again[value] = number
        seen.add((type(value), value))
    return again


def combinations(params: Mapping[str, Values]) -> Iterator[dict[str, Scalar]]:
    """Every choice of values, the last param changing fastest."""
    for values in itertools.product(*params.values()):
        yield dict(zip(params, values, strict=True))


def check(source: Source, params: Mapping[str, Values]) -> list[Mistake]:
    """Reserved names of params, and repeated values: both would make two trials look alike."""
    found = [
        source.mistake(("params", name), f"'{name}' is a column of summary.csv", "choose another name", key=True)
        for name in params
        if name in TAKEN
    ]
    found += [
        source.mistake(
            ("params", name),
            f"${{{name}}} has its own meaning in manifests and queues",
            "choose another name",
            key=True,
        )
        for name in params
        if name in WHEN_SENT
    ]
    for name, values in params.items():
        for value, number in _twice(values).items():
            path: KeyPath = ("params", name, number)
            found.append(
                source.mistake(path, f"'{yaml_scalars.spell(value)}' is listed twice in '{name}'", "remove one")
            )
    return found


def fill(source: Source, values: Mapping[str, Scalar]) -> tuple[dict[str, Any], dict[KeyPath, Mistake | None]]:
    """The document with every `${param}` filled in, and mistakes by path: unknown params, keys without a value."""
    filling = _Filling(source, values)
    written = source.data
    if (
        values and "params" in written and written["params"].keys() == values.keys()
    ):  # all sound: thousands of values need not be seen each time
        written = {**written, "params": dict(values)}
    data = {
        key: filling.entries(value, (key,))
        if key in COUNTED
        else filling.filled(value, (key,), constant=key in _CONSTANT)
        for key, value in written.items()
    }
    return data, filling.wrong


def has_count(body: Any) -> bool:
    """Whether an entry of `queues` or `cohorts` is many alike."""
    return isinstance(body, dict) and "count" in body


def entry_names(source: Source, values: Mapping[str, Scalar], data: Mapping[str, Any], section: str) -> list[str]:
    """The names of all queues or cohorts of a filled-in document, which may be wrong in any way."""
    found: list[str] = []
    written = data.get(section)
    for name, body in written.items() if isinstance(written, dict) else ():
        count = body["count"] if has_count(body) else None
        if isinstance(count, int) and 0 < count <= MOST_ALIKE:
            found += [str(_Filling(source, values, i).text(str(name), (section, name))) for i in range(count)]
        else:
            found.append(str(_Filling(source, values).text(str(name), (section, name))))
    return found


def alike(
    source: Source, values: Mapping[str, Scalar], path: KeyPath, numbers: Iterable[int | None]
) -> Iterator[tuple[str, Any, dict[KeyPath, Mistake | None]]]:
    """An entry of `queues` or `cohorts` once per number: its name and its body with `${i}` filled in, and its mistakes."""
    written, name = value_at(source.data, path), str(path[-1])
    for number in numbers:
        filling = _Filling(source, values, number)
        yield str(filling.text(name, path)) if "${" in name else name, filling.filled(written, path), filling.wrong


class _Filling:
    def __init__(self, source: Source, values: Mapping[str, Scalar], number: int | None = None) -> None:
        declared = source.data.get("params")
        self.source = source
        self.declared = list(declared) if isinstance(declared, dict) else []
        self.sound = values.keys() >= set(self.declared)  # a mistake in the declaration of a param is reported there
        self.values = values if number is None else {**values, NUMBER: number}
        self.wrong: dict[KeyPath, Mistake | None] = {}

    def entries(self, section: Any, path: KeyPath) -> Any:
        """Entries of `queues` and `cohorts`: those with a `count` as the first of the many."""
        if not isinstance(section, dict):
            return self.filled(section, path)
        return {
            name: (self.first() if has_count(body) else self).filled(body, (*path, name))
            for name, body in section.items()
        }

    def first(self) -> _Filling:
        one = _Filling(self.source, self.values, 0)
        one.sound, one.wrong = self.sound, self.wrong
        return one

    def filled(self, value: Any, path: KeyPath, *, constant: bool = False) -> Any:
        if isinstance(value, dict):
            return {key: self.filled(item, (*path, key), constant=constant) for key, item in value.items()}
        if isinstance(value, list):
            return [self.filled(item, (*path, number), constant=constant) for number, item in enumerate(value)]
        if value is None:
            what = "an empty item" if isinstance(path[-1], int) else f"'{path[-1]}' has no value"
            self.wrong[path] = self.source.mistake(path, what, "write a value, or remove it")
        elif isinstance(value, str) and "${" in value and not constant:
            return self.text(value, path)
        return value

    def text(self, text: str, path: KeyPath) -> Scalar:
        whole = REFERENCE.fullmatch(text)
        if whole:
            return self.value(whole[1].strip(), path, text)
        return REFERENCE.sub(lambda found: yaml_scalars.spell(self.value(found[1].strip(), path, found[0])), text)

    def value(self, name: str, path: KeyPath, written: str) -> Scalar:
        if name in self.values:
            return self.values[name]
        if name in WHEN_SENT and path[0] == "steps":
            return written
        self.wrong[path] = None
        if not _CALCULATED.search(name):
            if name not in self.declared:
                remedy = "add `count:` beside it" if name == NUMBER else remedy_for(name, self.declared)
                self.wrong[path] = self.source.mistake(path, f"no param '{cut(name)}'", remedy)
        elif self.sound:
            try:
                value = calculate(name, self.values)
            except ExpressionProblem as problem:
                self.wrong[path] = self.source.mistake(path, f"{cut(written)}: {problem.message}", problem.remedy)
            else:
                del self.wrong[path]
                return value
        return written
