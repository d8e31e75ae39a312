"""The extension points of kube-scheduler's framework that batch schedulers use, so that a gang scheduler is a plugin here too.

A profile is a list of plugins. The first plugin with a sort key decides the order; every other point calls all plugins that
override it. A rejected pod waits for the events that the rejecting plugin has registered for (EventsToRegister). Events are bits,
so that a set of events is one integer.
"""

from __future__ import annotations

from typing import Any

ALLOW, REJECT = 0, -1

POD_GONE = 1  # a pod gave its node back: finished, deleted, or rejected after its node was assumed
NODE = 2  # a node was added, or is schedulable again
POD_BOUND = 4  # a pod was bound
GROUP = 8  # an object of a plugin, such as a PodGroup, was created or changed
EVENTS = (POD_GONE, NODE, POD_BOUND, GROUP)
ANY = sum(EVENTS)
ROOM = POD_GONE | NODE  # what NodeResourcesFit registers for


class SchedulerPlugin:
    """A plugin that does nothing; plugins override the extension points they use."""

    helped_by = ANY  # events after which a pod that this plugin rejected is retried
    keys_change = False  # whether `sort_key` of a waiting pod may change

    def added(self, pod: int) -> None:
        """The pod is new."""

    def reason(self, pod: int) -> str:  # noqa: ARG002
        """Why `pre_filter` rejected the pod; the pod's condition is written again only when the reason changes."""
        return type(self).__name__

    def sort_key(self, pod: int, queued_at: int) -> tuple[Any, ...]:
        """Place in the active queue (smaller first). Without an override: kube-scheduler's own, priority, then time."""
        raise NotImplementedError  # never called: see Profile

    def pre_filter(self, pod: int) -> bool:  # noqa: ARG002
        """False: the pod is unschedulable on every node."""
        return True

    def post_filter(self, pod: int) -> None:
        """No node was found."""

    def reserve(self, pod: int, node: int) -> None:
        """The node is assumed for the pod."""

    def unreserve(self, pod: int) -> None:
        """The pod gives its node back before it was bound."""

    def held_up(self, delay: int) -> None:
        """The loop waits this long (ns, more than a second) because the client's bucket is empty."""

    def permit(self, pod: int) -> int:  # noqa: ARG002
        """ALLOW, REJECT, or how long (ns) the pod may hold its node and wait for `Scheduler.allow`."""
        return ALLOW

    def bound(self, pod: int) -> None:
        """The pod is bound."""

    def gone(self, pod: int) -> None:
        """The pod finished or was deleted."""


class Profile:
    """The plugins of a scheduler, per extension point only those that override it: calling all took a tenth of the time of
    a simulation."""

    def __init__(self, *plugins: SchedulerPlugin) -> None:
        self.plugins = plugins
        self.keys_change = any(plugin.keys_change for plugin in plugins)
        self.hears_bound = any(plugin.helped_by & POD_BOUND for plugin in plugins)
        self.pre_filtering = [plugin for plugin in plugins if _acts(plugin, "pre_filter")]
        self.permitting = [plugin for plugin in plugins if _acts(plugin, "permit")]
        self.added = [plugin.added for plugin in plugins if _acts(plugin, "added")]
        self.sort_key = next((plugin.sort_key for plugin in plugins if _acts(plugin, "sort_key")), None)
        self.post_filter = [plugin.post_filter for plugin in plugins if _acts(plugin, "post_filter")]
        self.reserve = [plugin.reserve for plugin in plugins if _acts(plugin, "reserve")]
        self.unreserve = [plugin.unreserve for plugin in plugins if _acts(plugin, "unreserve")]
        self.held_up = [plugin.held_up for plugin in plugins if _acts(plugin, "held_up")]
        self.bound = [plugin.bound for plugin in plugins if _acts(plugin, "bound")]
        self.gone = [plugin.gone for plugin in plugins if _acts(plugin, "gone")]


def _acts(plugin: SchedulerPlugin, point: str) -> bool:
    return getattr(type(plugin), point) is not getattr(SchedulerPlugin, point)
