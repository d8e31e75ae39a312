"""MCAD, the Multi-Cluster App Dispatcher: an AppWrapper holds a Job back until the cluster as a whole has room for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import ADMITTED, QUEUED, RELEASED, Stage, lifecycle_with
from seatrial.model.plan import Amounts, Trial, Workload
from seatrial.model.settings import Setting, Settings
from seatrial.model.units import SECOND
from seatrial.stacks.base import StackBase, submits

if TYPE_CHECKING:
    from seatrial.scenario.actions.submit_workloads import Submit
    from seatrial.sim.world import Sim
    from seatrial.stacks.mcad.real import McadReal

HEAD_OF_LINE = Stage(
    "head_of_line", "workload", "it is at the front of the queue", spent_on="waiting in line",
    after=QUEUED,
)  # fmt: skip

# Built-in group-versions of Kubernetes 1.27 and 1.36 (22 in both), and the two of MCAD's own resources.
GROUP_VERSIONS = 24
SEEN = ("cpu", "memory", "nvidia.com/gpu")  # the resources that MCAD counts
MEMORY_MOST = 2**31 - 1  # MCAD counts the bytes that an AppWrapper's pods use in 32 bits


NEAREST = "nearest"  # to the published table


class Mcad(StackBase):
    """Identity: stages and settings of MCAD, two versions of it."""

    name = "mcad"
    about = "MCAD in front of kube-scheduler: one FIFO, admission by the total of the cluster"
    needs = "MCAD v1.40 and its CRDs (AppWrapper); built from its Go module"
    verified = "the published table (1.32), real MCAD 1.40 beside the model (docs/fidelity.md)"
    model_verified = True
    honours = ("declares",)
    stages = lifecycle_with(QUEUED, HEAD_OF_LINE, ADMITTED, RELEASED)
    settings = (
        Setting("mcad", "version", "1.40", "1.32: of the published table; 1.40: of `local`; nearest: 1.32 on `sim`, else 1.40",
                choices=("1.32", "1.40", NEAREST), kind="text"),
        Setting("mcad", "qps", 100, "client requests per second, per client (hard-coded in MCAD)"),
        Setting("mcad", "burst", 200, "client burst (hard-coded in MCAD)"),
        Setting("mcad", "backoff", 20 * SECOND, "backoff when there is no room (--backofftime)", kind="duration"),
        Setting("mcad", "group-versions", GROUP_VERSIONS, "group-versions of the API server: one request each per discovery"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        if trial.on == "sim":
            return super().refuses(trial)
        if trial.setup.settings["mcad"]["version"] == "1.32":
            return "MCAD 1.32 is modelled only; 1.40 runs on real clusters (`version: nearest` takes it there)"
        for submit in submits(trial):
            if any(one.counted.get("memory", 0) * one.largest > MEMORY_MOST for one in submit.demands(trial)):
                return f"{submit.name} requests 2 GiB of memory or more, which MCAD counts in 32 bits"
        return super().refuses(trial)

    def findings(self, trial: Trial) -> Sequence[str]:
        found = super().findings(trial)
        if len({shape.priority for submit in submits(trial) for shape in submit.shapes}) > 1:
            said = (
                f"set-up '{trial.setup.name}': `priority` has no effect on the queue of MCAD: the AppWrappers have none, and are "
                "dispatched first in, first out; kube-scheduler knows the priorities of dispatched pods only"
            )
            found = (*found, said)
        if trial.on == "sim" or trial.setup.settings["mcad"]["version"] != NEAREST:
            return found
        said = f"set-up '{trial.setup.name}' runs MCAD 1.40; the published table is of 1.32, which is modelled only"
        return (*found, said)

    def releases(self, settings: Settings) -> Sequence[int]:
        return (int(settings["mcad"]["backoff"]),)

    def quota(self, settings: Settings, capacity: Amounts) -> Amounts | None:  # noqa: ARG002
        return {name: capacity.get(name, 0) for name in SEEN}

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.mcad.model_132 import Mcad132
        from seatrial.stacks.mcad.model_140 import Mcad140

        own = settings["mcad"]
        made = Mcad140(sim, own) if own["version"] == "1.40" else Mcad132(sim, own)
        return made.created

    @property
    def real(self) -> McadReal:
        from seatrial.stacks.mcad.real import McadReal

        return McadReal()


def counted(work: Submit | Workload) -> Amounts:
    """The amounts that MCAD counts per pod: declared by the AppWrapper, else requested by the pod."""
    return work.declares if work.declares is not None else work.shape.requests


stack = Mcad()
