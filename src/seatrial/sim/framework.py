"""The extension points of kube-scheduler's framework that batch schedulers use, so that a gang scheduler is a plugin here too.

A profile is a list of plugins. Sorting comes from the first plugin that has an opinion; every other point asks all of them.
"""

from __future__ import annotations

from typing import Any, Protocol

ALLOW, REJECT = 0, -1


class Plugin(Protocol):
    """What a plugin may do; `PluginBase` has the answers of one that does nothing."""

    def sort_key(self, pod: int, queued_at: int) -> tuple[Any, ...] | None:
        """Place in the active queue (smaller first), or None for kube-scheduler's own: priority, then time."""

    def pre_filter(self, pod: int) -> bool:
        """False: the pod is unschedulable, whatever the nodes hold."""

    def post_filter(self, pod: int) -> None:
        """No node was found."""

    def reserve(self, pod: int, node: int) -> None:
        """The node is assumed for the pod."""

    def unreserve(self, pod: int) -> None:
        """The node is given back before it was bound."""

    def permit(self, pod: int) -> int:
        """ALLOW, REJECT, or how long (ns) the pod may hold its node and wait for `Scheduler.allow`."""

    def bound(self, pod: int) -> None:
        """The pod is bound."""

    def gone(self, pod: int) -> None:
        """The pod finished or was deleted."""


class PluginBase:
    def sort_key(self, pod: int, queued_at: int) -> tuple[Any, ...] | None:  # noqa: ARG002
        return None

    def pre_filter(self, pod: int) -> bool:  # noqa: ARG002
        return True

    def post_filter(self, pod: int) -> None:
        pass

    def reserve(self, pod: int, node: int) -> None:
        pass

    def unreserve(self, pod: int) -> None:
        pass

    def permit(self, pod: int) -> int:  # noqa: ARG002
        return ALLOW

    def bound(self, pod: int) -> None:
        pass

    def gone(self, pod: int) -> None:
        pass
