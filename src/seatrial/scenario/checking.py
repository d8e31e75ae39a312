"""Holds a filled-in document against the schema and says what is wrong in the user's words, with the place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from seatrial.model.errors import Mistake
from seatrial.model.plan import CLIENT, COMPONENT_IDENTITIES, Scalar
from seatrial.scenario.expressions import FIGURES, OF_IDENTITIES, OF_PHASES, of_phase
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.notation import Found, Known, shown
from seatrial.scenario.params import fill
from seatrial.scenario.part import Part
from seatrial.scenario.places import Path, Source, real_path, value_at
from seatrial.scenario.requests import VERBS
from seatrial.scenario.schema import ACTIONS, CONDITIONS, STAGES, ScenarioPart, phase_name

_KINDS = {
    "list_type": ("a list", "write it as [a, b] or as lines that begin with `- `"),
    "dict_type": ("a mapping", "write it as {key: value} or as indented `key: value` lines"),
    "model_type": ("a mapping", "write it as {key: value} or as indented `key: value` lines"),
    "model_attributes_type": ("a mapping", "write it as {key: value} or as indented `key: value` lines"),
}


def check(
    source: Source, values: Mapping[str, Scalar], stacks: Iterable[str], stages: Iterable[str] = ()
) -> tuple[ScenarioPart | None, dict[str, Any], list[Mistake]]:
    """The scenario with these params: validated (None if it is not valid), as filled-in data, and what is wrong."""
    data, wrong = fill(source, values)
    known = Known({**_names(data, values, stacks), "stage": dict.fromkeys([*STAGES, *CONDITIONS, *stages])})
    part: ScenarioPart | None = None
    found: list[tuple[Path, Mistake]] = []
    try:
        part = ScenarioPart.model_validate(data, context=known)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            found += _translate(source, data, known, one)
    found += _contradictions(source, data, known, ())
    found += _same_names(source, data)
    mistakes = [mistake for mistake in wrong.values() if mistake]
    mistakes += [mistake for path, mistake in found if not any(path[: len(bad)] == bad for bad in wrong)]
    return (None if wrong or mistakes else part), data, mistakes


def _contradictions(source: Source, data: Any, known: Known, path: Path) -> list[tuple[Path, Mistake]]:
    """What does not go together, in every mapping that was read as a part of the schema."""
    found: list[tuple[Path, Mistake]] = []
    if isinstance(data, dict):
        owner = known.owners.get(id(data))
        found += _several(source, path, owner.contradictions(data), key=True) if owner else []
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, child in children:
        found += _contradictions(source, child, known, (*path, key))
    return found


def _names(data: dict[str, Any], values: Mapping[str, Scalar], stacks: Iterable[str]) -> dict[str, list[str]]:
    """What may be referred to, gathered from a document that may be wrong in any way."""
    nodes = data.get("nodes")
    entries = nodes if isinstance(nodes, dict) and not isinstance(nodes.get("existing"), str) else {"": nodes}
    groups = [group for entry in entries.values() if isinstance(entry, list) for group in entry]
    submits: list[str] = []
    creates: list[str] = []
    for _, name, action, body in _phases(data.get("steps")):
        if action == "submit":
            submits.append(name)
        if action == "create":
            creates.append(name)
        if action == "nodes" and isinstance(body, dict):
            groups.append(body.get("add"))
    return {
        "stack": list(stacks),
        "node entry": [entry for entry in entries if entry],
        "node group": [group["name"] for group in groups if isinstance(group, dict) and _named(group)],
        "phase": [*submits, *creates],
        "create": creates,
        "figure": [
            *FIGURES,
            *(name for name in values if name not in FIGURES),
            *(f"{figure}({identity})" for figure in OF_IDENTITIES for identity in _identities(data)),
            *(of_phase(figure, phase) for figure in OF_PHASES for phase in submits),
        ],
        "setup": [*(data["setups"] if isinstance(data.get("setups"), dict) else ()), *stacks],
        "param": list(data["params"]) if isinstance(data.get("params"), dict) else [],
    }


def _identities(data: dict[str, Any]) -> list[str]:
    """Who sends requests: what the request phases say, and the components."""
    found = [CLIENT, *COMPONENT_IDENTITIES]
    for _, _, action, body in _phases(data.get("steps")):
        said = body.get("as") if action in VERBS and isinstance(body, dict) else None
        names = [said] if isinstance(said, str) else []
        if isinstance(said, dict):
            names = [said[key] for key in ("user", "service-account", "user-agent") if isinstance(said.get(key), str)][
                :1
            ]
        found += names
    return list(dict.fromkeys(found))


def _phases(steps: Any) -> Iterator[tuple[Path, str, str, Any]]:
    """Path, name, action and content of every phase of a document that may be wrong in any way."""
    number = 0
    for position, step in enumerate(steps if isinstance(steps, list) else []):
        for beside, phase in enumerate(step if isinstance(step, list) else [step]):
            number += 1
            path: Path = ("steps", position, beside) if isinstance(step, list) else ("steps", position)
            for action, body in phase.items() if isinstance(phase, dict) else ():
                if action in ACTIONS:
                    name = body["name"] if _named(body) else phase_name(action, number)
                    yield (*path, action), name, action, body


def _same_names(source: Source, data: Mapping[str, Any]) -> list[tuple[Path, Mistake]]:
    found: list[tuple[Path, Mistake]] = []
    names: set[str] = set()
    for path, name, _, _ in _phases(data.get("steps")):
        if name in names:
            what = f"two phases are called '{name}'"
            found.append((path, source.mistake((*path, "name"), what, "give each a name of its own")))
        names.add(name)
    return found


def _named(body: Any) -> bool:
    return isinstance(body, dict) and isinstance(body.get("name"), str)


def _translate(source: Source, data: Any, known: Known, error: Any) -> list[tuple[Path, Mistake]]:
    """One error of pydantic as mistakes of ours."""
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
        return [(path, source.mistake(path, f"{shown(value_at(data, path))} where {wanted} belongs", remedy))]
    if kind == "too_short":
        return [(path, source.mistake(path, f"{_about(path)} is empty", "write at least one, or remove it"))]
    return [(path, source.mistake(path, error["msg"], "see docs/scenario.md"))]


def _several(source: Source, path: Path, found: Iterable[Found], *, key: bool = False) -> list[tuple[Path, Mistake]]:
    result = []
    for one in found:
        inside = (*path, one.key, *one.inside) if one.key else path
        result.append((inside, source.mistake(inside, one.what, one.remedy, key=key and bool(one.key))))
    return result


def _about(path: Path) -> str:
    names = [part for part in path if isinstance(part, str)]
    item = f"item {path[-1] + 1} of " if path and isinstance(path[-1], int) else ""
    return f"{item}'{names[-1]}'" if names else "the scenario"


def _missing(owner: type[Part] | None, path: Path, key: str) -> tuple[str, str]:
    fields = _fields(owner)
    about = fields.get(key, "").rstrip(".")
    return (
        f"{_about(path)} has no '{key}'",
        f"add `{key}:` ({about[:1].lower()}{about[1:]})" if about else f"add `{key}:`",
    )


def _unknown_key(owner: type[Part] | None, path: Path) -> tuple[str, str]:
    around = f" in {_about(path[:-1])}" if len(path) > 1 else ""
    return f"unknown key '{path[-1]}'{around}", remedy_for(str(path[-1]), _fields(owner))


def _fields(owner: type[Part] | None) -> dict[str, str]:
    """Key as written → what it is."""
    if owner is None:
        return {}
    return {field.alias or name: field.description or "" for name, field in owner.model_fields.items()}
