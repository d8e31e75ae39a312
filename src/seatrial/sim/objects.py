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
from seatrial.model.plan import Requests

_KNOWN = {(one.api_version, one.kind): one for one in vars(resources).values() if isinstance(one, resources.Resource)}
_MANAGED_FIELDS = 350  # bytes of metadata that the server adds: uid, times, versions, managed fields


def plural(manifest: Mapping[str, Any]) -> tuple[str, str, bool]:
    """API group, plural, and whether it has namespaces. Kinds that we do not know are spelled by the usual rule."""
    version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
    known = _KNOWN.get((version, kind))
    if known:
        return known.group, known.plural, known.namespaced
    name = kind.lower()
    ending = "es" if name.endswith(("s", "x", "ch")) else "s"
    return (
        version.partition("/")[0] if "/" in version else "",
        f"{name[:-1]}ies" if name.endswith("y") else name + ending,
        True,
    )


@dataclass(frozen=True, slots=True)
class Row:
    """The objects of one manifest of a create phase."""

    phase: str
    place: int  # of the manifest among the phase's
    kind: str
    resource: str
    size: int  # bytes of each
    there: bytearray  # by number


class Objects:
    """`namespaces` of the trial, at least one."""

    def __init__(self, phases: Sequence[Requests]) -> None:
        self._created = {phase.name: phase for phase in phases if phase.verb == "create"}
        self.rows: dict[tuple[str, int], Row] = {}
        for phase in self._created.values():
            for place, manifest in enumerate(phase.objects):
                size = len(json.dumps(dict(manifest))) + phase.payload + _MANAGED_FIELDS
                row = Row(
                    phase.name, place, str(manifest["kind"]), plural(manifest)[1], size, bytearray(phase.count or 0)
                )
                self.rows[phase.name, place] = row
        self.left: Counter[tuple[str, str]] = Counter()  # phase, kind
        self._of_kind: Counter[tuple[str, int]] = Counter()  # resource, namespace; −1: in all

    def row_for(self, phase: Requests, manifest: Mapping[str, Any]) -> Row | None:
        """Where the objects stand that this phase asks for, if a create phase makes them."""
        sources = [phase.of or phase.name] if (phase.of or phase.name) in self._created else list(self._created)
        name = (manifest.get("metadata") or {}).get("name")
        for source in sources:
            for place, made in enumerate(self._created[source].objects):
                if made["kind"] == manifest["kind"] and (made.get("metadata") or {}).get("name") == name:
                    return self.rows[source, place]
        return None

    def make(self, row: Row, number: int, namespace: int) -> bool:
        """False: there is one of that name."""
        there = row.there
        if number >= len(there):
            there.extend(bytes(number + 1 - len(there)))
        if there[number]:
            return False
        there[number] = 1
        self._count(row, namespace, 1)
        return True

    def has(self, row: Row, number: int) -> bool:
        return number < len(row.there) and bool(row.there[number])

    def remove(self, row: Row, number: int, namespace: int) -> bool:
        """False: there is none."""
        if not self.has(row, number):
            return False
        row.there[number] = 0
        self._count(row, namespace, -1)
        return True

    def count(self, resource: str, namespace: int) -> int:
        return self._of_kind[resource, namespace]

    def all_of(self, resource: str, namespace: int) -> Iterator[tuple[Row, int]]:
        """Every object of a kind in a namespace, as they are now."""
        for row in self.rows.values():
            if row.resource == resource:
                place = self._created[row.phase].place
                numbers = [number for number, there in enumerate(row.there) if there and place(number)[1] == namespace]
                for number in numbers:
                    yield row, number

    def _count(self, row: Row, namespace: int, change: int) -> None:
        self.left[row.phase, row.kind] += change
        self._of_kind[row.resource, namespace] += change
        self._of_kind[row.resource, -1] += change
