"""What create phases have made, as far as requests and waits ask: which items of which phase there are, and how many of a kind.

An item is a byte of its phase's row, not an object: a load makes hundreds of thousands.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.kube import resources
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import PodShape, Toleration
from seatrial.model.units import parse_quantity
from seatrial.scenario.actions.send_requests import Requests, pods_of

_KNOWN = {(one.api_version, one.kind): one for one in vars(resources).values() if isinstance(one, resources.Resource)}
_MANAGED_FIELDS = 350  # bytes of metadata that the server adds: uid, times, versions, managed fields


def plural(manifest: Mapping[str, Any]) -> tuple[str, str, bool]:
    """API group, plural, and whether it has namespaces. Kinds that we do not know are spelled by the usual rule."""
    version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
    known = _KNOWN.get((version, kind))
    if known:
        return known.group, known.plural, known.namespaced
    return version.partition("/")[0] if "/" in version else "", resources.plural_of(kind), True


def shape_of(manifest: Mapping[str, Any]) -> PodShape:
    """The pods of a manifest as the scheduler sees them."""
    try:
        return _read_shape(manifest)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"the pods of a {manifest['kind']} cannot be read: {error}"
        raise SetupProblem(what, "write the pod's spec as Kubernetes has it") from error


def _read_shape(manifest: Mapping[str, Any]) -> PodShape:
    """Of required node affinity only `In` of a single term is read."""
    spec = manifest.get("spec") or {}
    if manifest["kind"] != "Pod":
        spec = (spec.get("template") or {}).get("spec") or {}
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    expressions = (terms[0].get("matchExpressions") or []) if len(terms) == 1 else []
    return PodShape(
        _requests(spec),
        spec.get("nodeSelector") or {},
        tuple((one["key"], tuple(one["values"])) for one in expressions if one["operator"] == "In"),
        tuple(
            Toleration(one.get("key", ""), one.get("operator", "Equal"), one.get("value", ""), one.get("effect", ""))
            for one in spec.get("tolerations") or ()
        ),
    )


def _requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """Containers and sidecars together, or an init container if that asks for more; then the pod's overhead."""
    amounts: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    for one in spec.get("containers") or ():
        amounts.update(_amounts(one))
    for one in spec.get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            amounts.update(_amounts(one))
        else:
            largest |= Counter(_amounts(one))
    amounts |= largest
    amounts.update(_quantities(spec.get("overhead") or {}))
    return {name: amount for name, amount in amounts.items() if amount}


def _amounts(container: Mapping[str, Any]) -> dict[str, int]:
    written = container.get("resources") or {}
    return _quantities({**(written.get("limits") or {}), **(written.get("requests") or {})})


def _quantities(written: Mapping[str, Any]) -> dict[str, int]:
    return {name: parse_quantity(text, name) for name, text in written.items()}


@dataclass(frozen=True, slots=True)
class CreatedRow:
    """The objects of one manifest of a create phase."""

    phase: str
    place: int  # of the manifest among the phase's
    kind: str
    resource: str
    size: int  # bytes of each
    shape: PodShape | None  # of the pods that each stands for
    there: bytearray  # by number


class Objects:
    """`namespaces` of the trial, at least one."""

    def __init__(self, phases: Sequence[Requests]) -> None:
        self._created = {phase.name: phase for phase in phases if phase.verb == "create"}
        self.rows: dict[tuple[str, int], CreatedRow] = {}
        for phase in self._created.values():
            for place, manifest in enumerate(phase.objects):
                size = len(json.dumps(dict(manifest))) + phase.payload + _MANAGED_FIELDS
                shape = shape_of(manifest) if pods_of(manifest) else None
                row = CreatedRow(
                    phase.name, place, str(manifest["kind"]), plural(manifest)[1], size, shape, bytearray(phase.count or 0)
                )  # fmt: skip
                self.rows[phase.name, place] = row
        self.left: Counter[tuple[str, str]] = Counter()  # phase, kind
        self._of_kind: Counter[tuple[str, int]] = Counter()  # resource, namespace; −1: in all

    def row_for(self, phase: Requests, manifest: Mapping[str, Any]) -> CreatedRow | None:
        """Where the objects stand that this phase asks for, if a create phase makes them."""
        sources = [phase.of or phase.name] if (phase.of or phase.name) in self._created else list(self._created)
        name = (manifest.get("metadata") or {}).get("name")
        for source in sources:
            for place, made in enumerate(self._created[source].objects):
                if made["kind"] == manifest["kind"] and (made.get("metadata") or {}).get("name") == name:
                    return self.rows[source, place]
        return None

    def make(self, row: CreatedRow, number: int, namespace: int) -> bool:
        """False: there is one of that name."""
        there = row.there
        if number >= len(there):
            there.extend(bytes(number + 1 - len(there)))
        if there[number]:
            return False
        there[number] = 1
        self._count(row, namespace, 1)
        return True

    def has(self, row: CreatedRow, number: int) -> bool:
        """Whether the object exists."""
        return number < len(row.there) and bool(row.there[number])

    def remove(self, row: CreatedRow, number: int, namespace: int) -> bool:
        """False: there is none."""
        if not self.has(row, number):
            return False
        row.there[number] = 0
        self._count(row, namespace, -1)
        return True

    def count(self, resource: str, namespace: int) -> int:
        """Objects of a resource in a namespace; −1: in all."""
        return self._of_kind[resource, namespace]

    def all_of(self, resource: str, namespace: int) -> Iterator[tuple[CreatedRow, int]]:
        """Every object of a kind in a namespace, as they are now."""
        for row in self.rows.values():
            if row.resource == resource:
                place = self._created[row.phase].place
                numbers = [number for number, there in enumerate(row.there) if there and place(number)[1] == namespace]
                for number in numbers:
                    yield row, number

    def _count(self, row: CreatedRow, namespace: int, change: int) -> None:
        self.left[row.phase, row.kind] += change
        self._of_kind[row.resource, namespace] += change
        self._of_kind[row.resource, -1] += change
