"""Manifests in a scenario, as Kubernetes has them: overlays of our Jobs, or objects of request phases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from seatrial.model.units import NotWhole, parse_quantity
from seatrial.scenario.fields import FieldMistake, several, shown, wrong

# Fields of a Job that an overlay may not set, and what to write instead.
_OURS: dict[tuple[str, ...], str] = {
    ("metadata", "name"): "name the submit: workloads are called NAME-0, NAME-1",
    ("metadata", "namespace"): "remove it: a trial has a namespace of its own",
    ("spec", "parallelism"): "write `pods` or `sizes` in the submit",
    ("spec", "completions"): "write `pods` or `sizes` in the submit",
}
_MARKED = (("metadata",), ("spec", "template", "metadata"))  # where our labels and annotations are
_MARK = "seatrial.dev/"


def overlay(value: Any) -> dict[str, Any]:
    """Fields of a Job's manifest that override ours."""
    remedy = "write it like {spec: {template: {spec: {priorityClassName: high}}}}"
    if not isinstance(value, dict):
        raise wrong(f"{shown(value)} is not part of a Job's manifest", remedy)
    found = [
        FieldMistake(key, f"'{key}' of a Job cannot be overlaid", "an overlay takes metadata and spec")
        for key in value
        if key not in ("metadata", "spec")
    ]
    found += [
        FieldMistake(key, f"{shown(value[key])} instead of a mapping", remedy)
        for key in ("metadata", "spec")
        if key in value and not isinstance(value[key], dict)
    ]
    found += [
        FieldMistake(place[0], f"'{'.'.join(place)}' of a Job cannot be overlaid", instead, place[1:])
        for place, instead in _OURS.items()
        if _at(value, place) is not None
    ]
    for place in _MARKED:
        for kind in ("labels", "annotations"):
            marks = _at(value, (*place, kind))
            found += [
                FieldMistake(
                    place[0],
                    f"'{mark}' is reserved for seatrial",
                    "remove it",
                    (*place[1:], kind, mark),
                )
                for mark in (marks if isinstance(marks, dict) else ())
                if mark.startswith(_MARK)
            ]
    found += _fractions(value)
    if found:
        raise several(found)
    return value


def manifest(value: Any) -> dict[str, Any]:
    """An object of a request: at least its apiVersion and kind."""
    if not isinstance(value, dict):
        raise wrong(
            f"{shown(value)} is not a manifest", "write it like {apiVersion: v1, kind: Secret, metadata: {name: a}}"
        )
    found = [
        FieldMistake("", f"a manifest without {key}", f"add it, like {key}: {example}")
        for key, example in (("apiVersion", "v1"), ("kind", "Secret"))
        if not isinstance(value.get(key), str)
    ]
    metadata = value.get("metadata", {})
    if not isinstance(metadata, dict):
        found.append(FieldMistake("metadata", f"{shown(metadata)} instead of a mapping", "write it like {name: a}"))
    elif "namespace" in metadata:
        what = "a manifest cannot name its namespace"
        found.append(FieldMistake("metadata", what, "remove it: `namespaces` says where", ("namespace",)))
    found += _fractions(value)
    if found:
        raise several(found)
    return value


def _fractions(manifest: Mapping[str, Any]) -> list[FieldMistake]:
    """Fractional amounts that Kubernetes rejects. Other texts, like those with `${i}`, are left to the API server."""
    found = []
    for way, resource, value in _amounts_inside(manifest, ()):
        try:
            parse_quantity(value, resource)
        except NotWhole as error:
            found.append(FieldMistake(str(way[0]), error.what, error.remedy, way[1:]))
        except ValueError:
            continue
    return found


_Way = tuple[str | int, ...]


def _amounts_inside(value: Any, way: _Way) -> Iterator[tuple[_Way, str, Any]]:
    """Amounts in `resources: {requests: …, limits: …}` at any depth: path, resource, amount."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from _amounts_inside(one, (*way, number))
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _amounts_inside(one, (*way, key))
            if way[-1:] == ("resources",) and key in ("requests", "limits") and isinstance(one, dict):
                yield from (((*way, key, name), name, amount) for name, amount in one.items())


def _at(value: Any, place: Sequence[str]) -> Any:
    for key in place:
        value = value.get(key) if isinstance(value, dict) else None
    return value


_OVERLAY = {
    "type": "object",
    "properties": {"metadata": {"type": "object"}, "spec": {"type": "object"}},
    "additionalProperties": False,
    "examples": [{"spec": {"template": {"spec": {"priorityClassName": "high"}}}}],
}
_MANIFEST = {
    "type": "object",
    "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}},
    "required": ["apiVersion", "kind"],
    "examples": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s-${i}"}}],
}
ManifestMap = Annotated[dict[str, Any], BeforeValidator(manifest), WithJsonSchema(_MANIFEST)]
OverlayMap = Annotated[dict[str, Any], BeforeValidator(overlay), WithJsonSchema(_OVERLAY)]
