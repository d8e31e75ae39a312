"""Volcano: a batch scheduler that decides once a second, for whole PodGroups, queue by queue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import PODS_CREATED, Stage, lifecycle_with
from seatrial.model.plan import Trial
from seatrial.model.settings import Setting
from seatrial.model.units import SECOND
from seatrial.stacks.base import StackBase

if TYPE_CHECKING:
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


class Volcano(StackBase):
    """Identity: the settings of its scheduler, as its chart ships them."""

    name = "volcano"
    about = "Volcano's scheduler: PodGroups placed whole, in sessions of one second"
    stages = lifecycle_with(INQUEUE)
    needs = "Volcano v1.10: its scheduler under the name `volcano`, the CRDs PodGroup and Queue"
    runs_on: Sequence[str] = ("local", "kubeconfig")
    verified = "it is the real one: there is no model for sim yet"
    settings = (
        Setting("volcano", "qps", 2000, "client requests per second (--kube-api-qps)"),
        Setting("volcano", "burst", 2000, "client burst (--kube-api-burst)"),
        Setting("volcano", "period", 1 * SECOND, "time between sessions (--schedule-period)", kind="duration"),
        Setting("volcano", "actions", "enqueue, allocate, backfill", "the actions of a session, in order", kind="text"),
        Setting("volcano", "plugins", "priority, gang, conformance; overcommit, drf, predicates, capacity, nodeorder, binpack",
                "plugins; tiers are separated by a semicolon", kind="text"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        own = trial.setup.settings.get("volcano", {})
        for setting, known in (("actions", ACTIONS), ("plugins", PLUGINS)):
            for name in words(str(own.get(setting, ""))):
                if name not in known:
                    return f"volcano has no {setting[:-1]} '{name}'; it has {', '.join(known)}"
        return super().refuses(trial)

    @property
    def real(self) -> VolcanoReal:
        from seatrial.stacks.volcano.real import VolcanoReal

        return VolcanoReal()


def words(text: str) -> list[str]:
    """The names in a list with commas or semicolons."""
    return [word for word in re.split(r"[\s,;]+", text) if word]


stack = Volcano()
