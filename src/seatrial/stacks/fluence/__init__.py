"""Fluence: kube-scheduler with Flux's graph scheduler inside, which allocates the nodes of a whole group at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seatrial.model.fit import admits
from seatrial.model.plan import NodeGroup, Trial, Workload
from seatrial.model.settings import Setting, Settings
from seatrial.model.units import SECOND
from seatrial.stacks.base import StackBase, submits

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from seatrial.stacks.fluence.real import FluenceReal

NONE, EARLY_FREE, LEAK, SHARED_NODE, SLOW_SORT, ALL = "none", "early-free", "leak", "shared-node", "slow-sort", "all"


class Fluence(StackBase):
    """Identity: settings of Fluence, and the faults that its model can have."""

    name = "fluence"
    about = "Fluence: Flux matches a whole group to nodes, lowest ids first, whole cores; no reservations, no backfill"
    needs = "Fluence, installed as the scheduler 'fluence' with its controller and webhook"
    runs_on = ("sim", "kubeconfig")
    verified = "only by its source: no Fluence runs here"
    model_verified = False
    settings = (
        Setting("fluence", "permit-wait", 300 * SECOND, "how long a pod holds its node and waits for its group", kind="duration"),
        Setting("fluence", "faults", NONE, "model: which of Fluence's known faults to include",
                choices=(NONE, EARLY_FREE, LEAK, SHARED_NODE, SLOW_SORT, ALL), kind="text"),
        Setting("fluence", "qps", 20, "client requests per second of its controller, which creates the PodGroups"),
        Setting("fluence", "burst", 30, "client burst of its controller"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        if trial.on == "local":
            return (
                "Fluence is not a Go module: it is copied over scheduler-plugins and needs the C++ libraries of flux-sched, "
                "so it cannot be built here; it runs on sim, and on kubeconfig where it is installed"
            )
        for submit in submits(trial):
            if any(shape.selector or shape.affinity or shape.terms for shape in submit.shapes):
                return f"{submit.name} selects nodes by label, which Fluence ignores"
            for group in trial.node_groups():
                if not admits(group, submit.shape):
                    return (
                        f"{submit.name} does not tolerate the taints of {group.name} ({_written(group)}), and Fluence would "
                        f"place it there all the same: its chart disables TaintToleration. Give {submit.name} tolerations, "
                        f"or omit {group.name}"
                    )
        return super().refuses(trial)

    def releases(self, settings: Settings) -> Sequence[int]:
        return (int(settings["fluence"]["permit-wait"]),)

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.fluence.model import put_into

        return put_into(sim, settings)

    @property
    def real(self) -> FluenceReal:
        from seatrial.stacks.fluence.real import FluenceReal

        return FluenceReal()


def _written(group: NodeGroup) -> str:
    return ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in group.taints)


stack = Fluence()
