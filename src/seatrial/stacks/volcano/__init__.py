"""Volcano: a batch scheduler that decides once a second, for whole PodGroups, queue by queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import PODS_CREATED, Stage, lifecycle_with
from seatrial.model.plan import Scalar, Trial, Workload
from seatrial.model.settings import Setting, Settings
from seatrial.model.units import SECOND
from seatrial.stacks.base import StackBase

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from seatrial.stacks.volcano.real import VolcanoReal

INQUEUE = Stage(
    "inqueue", "workload", "its PodGroup is Inqueue: Volcano may place its pods",
    spent_on="waiting for its queue", after=PODS_CREATED,
)  # fmt: skip
ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle")
# pkg/scheduler/plugins/factory.go, v1.10.0
PLUGINS = (
    "binpack", "capacity", "cdp", "conformance", "deviceshare", "drf", "extender", "gang", "nodegroup", "nodeorder", "numaaware",
    "overcommit", "pdb", "predicates", "priority", "proportion", "rescheduling", "resourcequota", "sla", "task-topology", "tdm",
    "usage",
)  # fmt: skip
# Those that the model for `sim` has.
MODELLED = (
    "binpack",
    "capacity",
    "conformance",
    "drf",
    "gang",
    "nodeorder",
    "overcommit",
    "predicates",
    "priority",
    "proportion",
)


class Volcano(StackBase):
    """Identity: the settings of its scheduler, as its chart ships them."""

    name = "volcano"
    about = "Volcano's scheduler: PodGroups placed whole, in sessions of one second"
    stages = lifecycle_with(INQUEUE)
    needs = "Volcano v1.10: its scheduler under the name `volcano`, the CRDs PodGroup and Queue"
    verified = "the rules of v1.10.0, with file and line in the code"
    settings = (
        Setting("volcano", "qps", 2000, "client requests per second (--kube-api-qps)"),
        Setting("volcano", "burst", 2000, "client burst (--kube-api-burst)"),
        Setting("volcano", "period", 1 * SECOND, "time between sessions (--schedule-period)", kind="duration"),
        Setting("volcano", "actions", "enqueue, allocate, backfill", "the actions of a session, in order", kind="text"),
        Setting("volcano", "plugins", "priority, gang, conformance; overcommit, drf, predicates, capacity, nodeorder, binpack",
                "plugins; tiers are separated by a semicolon", kind="text"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        own = trial.setup.settings["volcano"]
        return next(_unknown(trial, own["actions"], own["plugins"]), None) or super().refuses(trial)

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.volcano.model import volcano_model

        return volcano_model(sim, settings["volcano"], str(settings["volcano"]["actions"]))

    @property
    def real(self) -> VolcanoReal:
        from seatrial.stacks.volcano.real import VolcanoReal

        return VolcanoReal()


def _unknown(trial: Trial, actions: Scalar, plugins: Scalar) -> Iterator[str]:
    """Actions and plugins that Volcano, or its model, does not have."""
    for kind, written, known in (("action", actions, ACTIONS), ("plugin", plugins, PLUGINS)):
        for name in words(written) or ("",):
            if name not in known:
                yield f"volcano has no {kind} '{name}'; it has {', '.join(known)}"
    if {"capacity", "proportion"} <= set(words(plugins)):
        yield "volcano.plugins has capacity and proportion, which both divide the nodes: take one of them"
    if trial.on == "sim":
        for name in (*words(actions), *words(plugins)):
            if name not in (*MODELLED, *ACTIONS[:-1]):
                yield f"the model of volcano does not have '{name}': it runs on local and kubeconfig"


def words(written: Scalar) -> list[str]:
    """The names in a list with commas or semicolons."""
    return [word for word in re.split(r"[\s,;]+", str(written)) if word]


def tiers_of(plugins: Scalar) -> list[list[str]]:
    """The plugins, tier by tier."""
    return [tier for tier in map(words, str(plugins).split(";")) if tier]


stack = Volcano()
