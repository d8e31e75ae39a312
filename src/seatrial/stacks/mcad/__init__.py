"""MCAD, the Multi-Cluster App Dispatcher: an AppWrapper holds a Job back until the cluster as a whole has room for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.model.interfaces import Manifest
from seatrial.model.lifecycle import ADMITTED, PLAIN, QUEUED, RELEASED, Stage
from seatrial.model.plan import Amounts, Trial, Workload
from seatrial.model.settings import Setting
from seatrial.model.units import SECOND
from seatrial.stacks.plain import Plain, Settings

HEAD_OF_LINE = Stage("head_of_line", "workload", "it is at the front of the queue: its turn to be looked at")

# Built-in group-versions of Kubernetes 1.27 and 1.36 (22 in both), and the two of MCAD's own resources.
GROUP_VERSIONS = 24
SEEN = ("cpu", "memory", "nvidia.com/gpu")  # the resources that MCAD counts
MEMORY_MOST = 2**31 - 1  # MCAD keeps what an AppWrapper's pods use in 32 bits of bytes


class Mcad(Plain):
    name = "mcad"
    about = "MCAD in front of kube-scheduler: one FIFO, admission by what the cluster has in all"
    needs = "MCAD v1.40 and its CRDs (AppWrapper); built from its Go module"
    verified = "the published table (1.32), real MCAD 1.40 beside the model (docs/fidelity.md)"
    model_verified = True
    created_as = ("workload.codeflare.dev", "appwrappers")
    stages = (*PLAIN[:2], QUEUED, HEAD_OF_LINE, ADMITTED, *PLAIN[2:-2], RELEASED, *PLAIN[-2:])
    settings = (
        Setting("mcad", "version", "1.40", "1.32 is that of the published table, 1.40 that of `local`",
                choices=("1.32", "1.40"), kind="text"),
        Setting("mcad", "qps", 100, "client requests per second, per client (hard-coded in MCAD)"),
        Setting("mcad", "burst", 200, "client burst (hard-coded in MCAD)"),
        Setting("mcad", "backoff", 20 * SECOND, "how long it waits when there is no room (--backofftime)", kind="duration"),
        Setting("mcad", "group-versions", GROUP_VERSIONS, "group-versions the API server has: one request each per discovery"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        if trial.on == "sim":
            return None
        if trial.setup.settings["mcad"]["version"] != "1.40":
            return "MCAD 1.32 is modelled only; 1.40 is the version that runs on real clusters"
        for submit in trial.submits():
            asked = submit.declares if submit.declares is not None else submit.shape.requests
            if asked.get("memory", 0) * max(submit.sizes) > MEMORY_MOST:
                return f"{submit.name} asks for 2 GiB of memory or more, which MCAD counts in 32 bits"
        return None

    def model(self, sim: Any, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.mcad.v132 import Mcad132
        from seatrial.stacks.mcad.v140 import Mcad140

        own = settings["mcad"]
        made = Mcad132(sim, own) if own["version"] == "1.32" else Mcad140(sim, own)
        return made.created

    def releases(self, settings: Settings) -> Sequence[int]:
        return (int(settings["mcad"]["backoff"]),)

    def quota(self, settings: Settings, capacity: Amounts) -> Amounts | None:  # noqa: ARG002
        return {name: capacity.get(name, 0) for name in SEEN}

    def programs(self) -> Sequence[Any]:
        from seatrial.stacks.mcad.live import BINARY

        return (BINARY,)

    def amend(self, plane: Any, settings: Settings) -> Any:
        from seatrial.stacks.mcad.live import amend

        return amend(plane, settings["mcad"])

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        from seatrial.stacks.mcad.live import render

        return render(workload, labels)

    def watches(self) -> Sequence[Any]:
        from seatrial.stacks.mcad.live import WATCHES

        return WATCHES


stack = Mcad()
