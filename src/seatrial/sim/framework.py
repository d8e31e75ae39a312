"""The extension points of kube-scheduler's framework that batch schedulers use, so that a gang scheduler is a plugin here too.

A profile is a list of plugins. Sorting comes from the first plugin that has an opinion; every other point asks all of them.

A pod that was turned down waits for something that could help it, and only the plugin that turned it down knows what that is
(EventsToRegister). Events are bits, so that what helps a pod is one integer.
"""

from __future__ import annotations

from typing import Any, Protocol

ALLOW, REJECT = 0, -1

POD_GONE = 1  # a pod gave its node back: it finished, was deleted, or was turned down after it had been assumed
NODE = 2  # a node came, or takes pods again
POD_BOUND = 4  # some pod was bound
GROUP = 8  # an object of a plugin's own, such as a PodGroup, was made or changed
EVENTS = (POD_GONE, NODE, POD_BOUND, GROUP)
ANY = sum(EVENTS)
ROOM = POD_GONE | NODE  # what NodeResourcesFit registers for


class Plugin(Protocol):
    """What a plugin may do; `PluginBase` has the answers of one that does nothing."""

    helped_by: int  # the events after which a pod that it turned down is tried again
    keys_change: bool  # whether what `sort_key` said of a pod may change while the pod waits

    def added(self, pod: int) -> None:
        """The pod is new."""

    def reason(self, pod: int) -> str:
        """What `pre_filter` turned the pod down for; the pod's condition is written again only where this changes."""

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

    def held_up(self, delay: int) -> None:
        """The loop stands still so long (ns, more than a second) because the client's bucket is empty."""

    def permit(self, pod: int) -> int:
        """ALLOW, REJECT, or how long (ns) the pod may hold its node and wait for `Scheduler.allow`."""

    def bound(self, pod: int) -> None:
        """The pod is bound."""

    def gone(self, pod: int) -> None:
        """The pod finished or was deleted."""


class PluginBase:
    helped_by = ANY
    keys_change = False

    def added(self, pod: int) -> None:
        pass

    def reason(self, pod: int) -> str:  # noqa: ARG002
        return type(self).__name__

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

    def held_up(self, delay: int) -> None:
        pass

    def permit(self, pod: int) -> int:  # noqa: ARG002
        return ALLOW

    def bound(self, pod: int) -> None:
        pass

    def gone(self, pod: int) -> None:
        pass
