"""MCAD, the Multi-Cluster App Dispatcher: an AppWrapper holds a Job back until the cluster as a whole has room for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Manifest
from seatrial.model.lifecycle import ADMITTED, PLAIN, QUEUED, RELEASED, Stage
from seatrial.model.plan import Scalar, Trial, Workload
from seatrial.model.settings import Setting
from seatrial.model.units import SECOND
from seatrial.stacks.plain import Plain

HEAD_OF_LINE = Stage("head_of_line", "workload", "it is at the front of the queue: its turn to be looked at")

# Built-in group-versions of Kubernetes 1.27 and 1.36 (22 in both), and the two of MCAD's own resources.
GROUP_VERSIONS = 24
_ONLY_SIM = ("the stack 'mcad' runs only on the simulator so far", "use --on sim, or --stack default")


class Mcad(Plain):
    name = "mcad"
    about = "MCAD in front of kube-scheduler: one FIFO, admission by what the cluster has in all"
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
        return None if trial.on == "sim" else "; ".join(_ONLY_SIM)

    def model(self, sim: Any, settings: Mapping[str, Mapping[str, Scalar]]) -> Callable[[int, Workload], None]:
        from seatrial.stacks.mcad.v132 import Mcad132
        from seatrial.stacks.mcad.v140 import Mcad140

        own = settings["mcad"]
        made = Mcad132(sim, own) if own["version"] == "1.32" else Mcad140(sim, own)
        return made.created

    def amend(self, plane: Any, settings: Mapping[str, Mapping[str, Scalar]]) -> Any:  # noqa: ARG002
        raise SetupProblem(*_ONLY_SIM)

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:  # noqa: ARG002
        raise SetupProblem(*_ONLY_SIM)

    def watches(self) -> Sequence[Any]:
        return ()


stack = Mcad()
