"""Validates a filled-in document against the schema, and turns pydantic's errors into mistakes with a place and a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from seatrial.model.errors import Mistake
from seatrial.model.figures import FIGURES, IDENTITY, NAMED, PHASE, grouped
from seatrial.model.plan import CLIENT, COMPONENT_IDENTITIES, Scalar
from seatrial.scenario.actions import ACTIONS, phase_name
from seatrial.scenario.actions.wait import STAGES, STATES
from seatrial.scenario.fields import FieldMistake, Fields, KnownNames, shown
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.node_groups import ALONE
from seatrial.scenario.params import entry_names, fill
from seatrial.scenario.schema import ScenarioFields
from seatrial.scenario.source import KeyPath, Source, real_path, value_at

_KINDS = {
    "list_type": ("a list", "write it as [a, b] or as lines that begin with `- `"),
    "dict_type": ("a mapping", "write it as {key: value} or as indented `key: value` lines"),
    "model_type": ("a mapping", "write it as {key: value} or as indented `key: value` lines"),
    "model_attributes_type": ("a mapping", "write it as {key: value} or as indented `key: value` lines"),
}


def check(
    source: Source, values: Mapping[str, Scalar], stacks: Iterable[str], stages: Iterable[str] = ()
) -> tuple[ScenarioFields | None, dict[str, Any], list[Mistake]]:
    """The scenario with these params: its fields (None if not valid), its filled-in data, and its mistakes."""
    data, wrong = fill(source, values)
    known = KnownNames({**_names(source, data, values, stacks), "stage": dict.fromkeys([*STAGES, *STATES, *stages])})
    fields: ScenarioFields | None = None
    found: list[tuple[KeyPath, Mistake]] = []
    try:
        fields = ScenarioFields.model_validate(data, context=known)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            found += _translate(source, data, known, one)
    found += _contradictions(source, data, known, ())
    found += _same_names(source, data)
    mistakes = [mistake for mistake in wrong.values() if mistake]
    mistakes += [mistake for path, mistake in found if not any(path[: len(bad)] == bad for bad in wrong)]
    return (None if wrong or mistakes else fields), data, mistakes


def translated(source: Source, data: Any, known: KnownNames, error: ValidationError, path: KeyPath) -> list[Mistake]:
    """The mistakes of a part of the document that was validated by itself."""
    found: list[Mistake] = []
    for one in error.errors(include_url=False):
        found += [m for _, m in _translate(source, data, known, {**one, "loc": (*path, *one["loc"])})]
    return found


def _contradictions(source: Source, data: Any, known: KnownNames, path: KeyPath) -> list[tuple[KeyPath, Mistake]]:
    """Contradictions in every mapping that was read as `Fields`."""
    found: list[tuple[KeyPath, Mistake]] = []
    if isinstance(data, dict):
        owner = known.owners.get(id(data))
        found += _several(source, path, owner.contradictions(data), key=True) if owner else []
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, child in children:
        found += _contradictions(source, child, known, (*path, key))
    return found


def _names(
    source: Source, data: dict[str, Any], values: Mapping[str, Scalar], stacks: Iterable[str]
) -> dict[str, list[str]]:
    """The names that may be referred to, gathered from a document that may be wrong in any way."""
    nodes = data.get("nodes")
    alone = isinstance(nodes, dict) and any(isinstance(nodes.get(key), str) for key in ALONE)
    entries = nodes if isinstance(nodes, dict) and not alone else {"": nodes}
    groups = [group for entry in entries.values() if isinstance(entry, list) for group in entry]
    names: dict[str, list[str]] = {
        "stack": list(stacks),
        "node entry": [entry for entry in entries if entry],
        "node group": [group["name"] for group in groups if _named(group)],
        "submit": [],
        "create": [],
        "phase": [],
        "identity": [CLIENT, *COMPONENT_IDENTITIES],
        "setup": [*(data["setups"] if isinstance(data.get("setups"), dict) else ()), *stacks],
        "queue": entry_names(source, values, data, "queues"),
        "class": [],
        **{
            what: list(data[section]) if isinstance(data.get(section), dict) else []
            for section, what in (("params", "param"), ("flavors", "flavor"), ("priorities", "priority"))
        },
    }
    for _, name, action, body in _phases(data.get("steps")):
        if isinstance(body, dict):
            for what, found in ACTIONS[action].names(name, action, body).items():
                names[what] += found
    if any(isinstance(one, dict) and "trace" in one for one in (*entries.values(), *groups)):
        del names["node group"]  # the file knows its groups: the names are checked once it is read
    names["figure"] = [
        *NAMED,
        *(name for name in values if name not in NAMED),
        *(
            grouped(name, group, member)
            for group, members in ((IDENTITY, names["identity"]), (PHASE, names["submit"]))
            for name in NAMED
            for member in dict.fromkeys(members)
            if group in FIGURES[name].groups
        ),
    ]
    return names


def _phases(steps: Any) -> Iterator[tuple[KeyPath, str, str, Any]]:
    """KeyPath, name, action and content of every phase of a document that may be wrong in any way."""
    number = 0
    for position, step in enumerate(steps if isinstance(steps, list) else []):
        for beside, phase in enumerate(step if isinstance(step, list) else [step]):
            number += 1
            path: KeyPath = ("steps", position, beside) if isinstance(step, list) else ("steps", position)
            for action, body in phase.items() if isinstance(phase, dict) else ():
                if action in ACTIONS:
                    name = body["name"] if _named(body) else phase_name(action, number)
                    yield (*path, action), name, action, body


def _same_names(source: Source, data: Mapping[str, Any]) -> list[tuple[KeyPath, Mistake]]:
    found: list[tuple[KeyPath, Mistake]] = []
    names: set[str] = set()
    for path, name, _, _ in _phases(data.get("steps")):
        if name in names:
            what = f"two phases are called '{name}'"
            found.append((path, source.mistake((*path, "name"), what, "give each a different name")))
        names.add(name)
    return found


def _named(body: Any) -> bool:
    return isinstance(body, dict) and isinstance(body.get("name"), str)


def _translate(source: Source, data: Any, known: KnownNames, error: Any) -> list[tuple[KeyPath, Mistake]]:
    """An error of pydantic as mistakes of ours."""
    loc: Sequence[str | int] = error["loc"]
    path = real_path(data, [part for part in loc if part != "[key]"])
    context: dict[str, Any] = error.get("ctx", {})
    kind: str = error["type"]
    if kind == "several":
        return _several(source, path, context["found"])
    if kind == "missing":
        what, remedy = _missing(known.owners.get(id(value_at(data, path))), path, str(loc[-1]))
        return [(path, source.mistake(path, what, remedy))]
    if kind == "extra_forbidden":
        what, remedy = _unknown_key(known.owners.get(id(value_at(data, path[:-1]))), path)
        return [(path, source.mistake(path, what, remedy, key=True))]
    if kind == "wrong":
        return [(path, source.mistake(path, context["what"], context["remedy"], key="[key]" in loc))]
    if kind in _KINDS:
        wanted, remedy = _KINDS[kind]
        return [(path, source.mistake(path, f"{shown(value_at(data, path))} instead of {wanted}", remedy))]
    if kind == "too_short":
        return [(path, source.mistake(path, f"{_about(path)} is empty", "write at least one, or remove it"))]
    return [(path, source.mistake(path, error["msg"], "see docs/scenario.md"))]


def _several(
    source: Source, path: KeyPath, found: Iterable[FieldMistake], *, key: bool = False
) -> list[tuple[KeyPath, Mistake]]:
    result = []
    for one in found:
        inside = (*path, one.key, *one.inside) if one.key else path
        result.append((inside, source.mistake(inside, one.what, one.remedy, key=key and bool(one.key))))
    return result


def _about(path: KeyPath) -> str:
    names = [part for part in path if isinstance(part, str)]
    item = f"item {path[-1] + 1} of " if path and isinstance(path[-1], int) else ""
    return f"{item}'{names[-1]}'" if names else "the scenario"


def _missing(owner: type[Fields] | None, path: KeyPath, key: str) -> tuple[str, str]:
    fields = _fields(owner)
    about = fields.get(key, "").rstrip(".")
    return (
        f"{_about(path)} has no '{key}'",
        f"add `{key}:` ({about[:1].lower()}{about[1:]})" if about else f"add `{key}:`",
    )


def _unknown_key(owner: type[Fields] | None, path: KeyPath) -> tuple[str, str]:
    around = f" in {_about(path[:-1])}" if len(path) > 1 else ""
    return f"unknown key '{path[-1]}'{around}", remedy_for(str(path[-1]), _fields(owner))


def _fields(owner: type[Fields] | None) -> dict[str, str]:
    """Key as written → description."""
    if owner is None:
        return {}
    return {field.alias or name: field.description or "" for name, field in owner.model_fields.items()}
