"""The `settings` of a scenario, checked against the settings of the control plane and the stacks, and resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import PydanticCustomError

from seatrial.model import settings as table
from seatrial.model.errors import Mistake
from seatrial.model.plan import Scalar
from seatrial.model.settings import CONTROL_PLANE, OWN, Setting
from seatrial.scenario import field_types
from seatrial.scenario.fields import shown, wrong
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.setups import SettingsFields
from seatrial.scenario.source import KeyPath, Source

Stacks = Mapping[str, Sequence[Setting]]


def check(source: Source, data: Mapping[str, Any], stacks: Stacks) -> list[Mistake]:
    """Unknown components, unknown settings and impossible values.

    Settings of the scenario may be of any stack (they apply to the set-ups that have it), those of a set-up only of its own.
    """
    everything = [*CONTROL_PLANE, *OWN, *(setting for settings in stacks.values() for setting in settings)]
    found = check_mapping(source, data.get("settings"), ("settings",), everything, "")
    setups = data.get("setups")
    for name, setup in setups.items() if isinstance(setups, dict) else []:
        if isinstance(setup, dict):
            stack = str(setup.get("stack"))
            own = [*CONTROL_PLANE, *OWN, *stacks[stack]] if stack in stacks else everything
            where = f" of stack {stack}" if stack in stacks else ""
            found += check_mapping(source, setup.get("settings"), ("setups", name, "settings"), own, where)
    return found


def check_mapping(
    source: Source, written: Any, path: KeyPath, known: Iterable[Setting], where: str,
    processes: Iterable[str] = table.PROCESSES,
) -> list[Mistake]:  # fmt: skip
    """Mistakes in one mapping of component → setting → value. `processes` take flags beside the known settings."""
    found: list[Mistake] = []
    by_component: dict[str, dict[str, Setting]] = {process: {} for process in processes}
    for setting in known:
        by_component.setdefault(setting.component, {})[setting.name] = setting
    for component, values in written.items() if isinstance(written, dict) else []:
        here = (*path, component)
        if component == "qps":
            continue
        if component not in by_component:
            remedy = remedy_for(component, [*(["qps"] if path else []), *by_component])
            found.append(source.mistake(here, f"unknown component '{component}'{where}", remedy, key=True))
            continue
        for name, value in values.items() if isinstance(values, dict) else []:
            found += _check_value(source, (*here, name), by_component[component], name, value)
    return found


def _check_value(source: Source, path: KeyPath, known: Mapping[str, Setting], name: str, value: Any) -> list[Mistake]:
    component = str(path[-2])
    if table.is_flag(component, name):
        if isinstance(value, str | int | float):
            return []
        return [source.mistake(path, f"{shown(value)} is not a value of a flag", "write text, a number, true or false")]
    if name not in known:
        return [source.mistake(path, f"unknown setting '{name}' of {component}", remedy_for(name, known), key=True)]
    try:
        parsed(known[name], value)
    except PydanticCustomError as error:
        context = error.context or {}
        return [source.mistake(path, context["what"], context["remedy"])]
    return []


def parsed(setting: Setting, value: Any) -> Scalar:
    """The value as models and flags read it: durations in nanoseconds. Raises `fields.wrong`."""
    match setting.kind:
        case "duration":
            return field_types.duration(value)
        case "flag":
            field_types.flag(value)
        case "text":
            field_types.text(value)
            if setting.choices and value not in setting.choices:
                what = f"{setting.component} has no {setting.name} '{value}'"
                raise wrong(what, remedy_for(value, setting.choices))
        case "names":
            field_types.text(value)
            unknown = [name for name in table.words(value) or [""] if name not in setting.choices]
            if unknown:
                what = f"{setting.component}.{setting.name} has no '{unknown[0]}'"
                raise wrong(what, remedy_for(unknown[0], setting.choices))
        case _:
            if isinstance(value, bool) or not isinstance(value, int | float) or value < setting.least:
                what = f"{shown(value)} is not a number of {setting.least} or more"
                raise wrong(what, f"{setting.about}; {spelled_default(setting)}")
    return field_types.scalar(value)


def spelled_default(setting: Setting) -> str:
    """The default in a message."""
    return f"default {setting.default}"


def resolved(
    stack: Sequence[Setting], scenario: SettingsFields | None, setup: SettingsFields | None
) -> dict[str, dict[str, Scalar]]:
    """Every setting of a set-up; its own override the scenario's."""
    known = {(setting.component, setting.name): setting for setting in (*CONTROL_PLANE, *OWN, *stack)}
    qps: str | float = "as shipped"
    given: dict[str, dict[str, Scalar]] = {}
    for fields in filter(None, (scenario, setup)):
        qps = fields.qps if fields.qps is not None else qps
        for component, values in (fields.__pydantic_extra__ or {}).items():
            for name, value in values.items():
                if (component, name) in known:
                    given.setdefault(component, {})[name] = parsed(known[component, name], value)
                elif table.is_flag(component, name):
                    given.setdefault(component, {})[name] = value
    return table.resolve((*CONTROL_PLANE, *stack), qps, given)  # of OWN only what is given
