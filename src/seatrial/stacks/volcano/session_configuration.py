"""The actions and plugins of a session of Volcano, from the settings and a fleet's rules.

What a user writes is kept. The shipped configuration is that of a cluster without queues, so with `queues` it is changed: `reclaim`
and `preempt` are added in the order of the chart's volcano-scheduler-ci.conf, and for fair sharing `proportion` takes the place
of `capacity`.
"""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.model.fleet import NEVER, Fleet
from seatrial.model.plan import Scalar, Trial
from seatrial.model.settings import words

ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle")
# pkg/scheduler/plugins/factory.go, v1.10.0
PLUGINS = (
    "binpack", "capacity", "cdp", "conformance", "deviceshare", "drf", "extender", "gang", "nodegroup", "nodeorder", "numaaware",
    "overcommit", "pdb", "predicates", "priority", "proportion", "rescheduling", "resourcequota", "sla", "task-topology", "tdm",
    "usage",
)  # fmt: skip
# Those that the model for `sim` has.
MODELLED = (
    "binpack", "capacity", "conformance", "drf", "gang", "nodeorder", "overcommit", "predicates", "priority", "proportion",
)  # fmt: skip
DIVIDING = ("capacity", "proportion")  # plugins that divide the nodes among queues
# installer/volcano-development.yaml, v1.10.0
SHIPPED_ACTIONS = "enqueue, allocate, backfill"
SHIPPED_PLUGINS = "priority, gang, conformance; overcommit, drf, predicates, capacity, nodeorder, binpack"


def actions_of(fleet: Fleet, written: Scalar) -> list[str]:
    """The actions of a session, in order."""
    named = words(written)
    if not fleet.queues or written != SHIPPED_ACTIONS:
        return named
    rules = fleet.preemption
    wanted = {"reclaim": rules.reclaim != NEVER, "preempt": rules.within_queue != NEVER}
    return [*named, *(action for action, asked in wanted.items() if asked)]


def tiers_of(fleet: Fleet, written: Scalar) -> list[list[str]]:
    """The plugins, tier by tier."""
    named = [tier for tier in map(words, str(written).split(";")) if tier]
    if not fleet.queues or written != SHIPPED_PLUGINS:
        return named
    instead = {"capacity": "proportion"} if fleet.preemption.fair_sharing else {}
    return [[instead.get(name, name) for name in tier] for tier in named]


def sharing_of(tiers: list[list[str]]) -> str:
    """The plugin that divides the nodes among queues, or empty."""
    return next((plugin for tier in tiers for plugin in tier if plugin in DIVIDING), "")


def unknown(trial: Trial, actions: Scalar, plugins: Scalar) -> Iterator[str]:
    """Actions and plugins that Volcano, or its model, does not have."""
    for kind, written, known in (("action", actions, ACTIONS), ("plugin", plugins, PLUGINS)):
        for name in words(written) or ("",):
            if name not in known:
                yield f"volcano has no {kind} '{name}'; it has {', '.join(known)}"
    if set(DIVIDING) <= set(words(plugins)):
        yield "volcano.plugins has capacity and proportion, which both divide the nodes: take one of them"
    if trial.on == "sim":
        for name in (*words(actions), *words(plugins)):
            if name not in (*MODELLED, *ACTIONS[:-1]):
                yield f"the model of volcano does not have '{name}': it runs on local and kubeconfig"
