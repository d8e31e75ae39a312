"""The nodes of a trial: those that we made, by group, and how many of each group there were from when to when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

Node = TypeVar("Node", int, str)  # a number in the simulator, a name on a real cluster


class Roster(Generic[Node]):
    """`now` is the trial's clock."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._groups: dict[str, list[Node]] = {}
        self._spans: list[dict[str, Any]] = []

    def add(self, group: str, nodes: Sequence[Node], capacity: Mapping[str, int]) -> None:
        """Adds nodes that we made; a group may grow."""
        self._groups.setdefault(group, []).extend(nodes)
        self.note(group, len(nodes), capacity)

    def note(self, group: str, count: int, capacity: Mapping[str, int]) -> None:
        """Nodes that count but that we did not make."""
        self._spans.append(
            {"group": group, "count": count, "capacity": dict(capacity), "from_ns": self._now(), "until_ns": None}
        )

    def remove(self, group: str, node: Node) -> None:
        """Removes a node; its span is split off its group's."""
        self._groups[group].remove(node)
        span = next(s for s in self._spans if s["group"] == group and s["until_ns"] is None and s["count"])
        span["count"] -= 1
        self._spans.append({**span, "count": 1, "until_ns": self._now()})

    def begin(self) -> None:
        """The trial's time begins: nodes that are there were there from its first moment."""
        for span in self._spans:
            span["from_ns"] = 0

    def of(self, group: str) -> Sequence[Node]:
        """Nodes of the group that we made."""
        return tuple(self._groups.get(group, ()))

    def made(self) -> set[Node]:
        """All nodes that we created."""
        return {node for nodes in self._groups.values() for node in nodes}

    def capacity(self) -> dict[str, int]:
        """Total of the nodes that there are now."""
        capacity: dict[str, int] = {}
        for span in self._spans:
            for resource, amount in span["capacity"].items() if span["until_ns"] is None else ():
                capacity[resource] = capacity.get(resource, 0) + amount * span["count"]
        return capacity

    def spans(self) -> list[dict[str, Any]]:
        """Lifetimes of nodes, for trial.json."""
        return [span for span in self._spans if span["count"]]
