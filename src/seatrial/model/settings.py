"""Settings of components, one table: rendered to flags on a real control plane, read as constants by the simulator's models.

`as shipped` leaves every component at its own default; `equal` gives all controllers and schedulers the same client QPS;
what a scenario names for one component wins over both. A QPS of 0 is no limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seatrial.model.plan import Scalar
from seatrial.model.units import MICROSECOND, MILLISECOND, MINUTE, SECOND, format_duration

Settings = Mapping[str, Mapping[str, Scalar]]  # component → name → value

# How much an `equal` QPS may burst: client-go's own defaults (50/100, 20/30, 100/200) are at or below this ratio.
EQUAL_BURST_RATIO = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a component: what it is called, its default, and what it does."""

    component: str
    name: str
    default: Scalar
    about: str
    choices: tuple[str, ...] = ()  # for text settings: allowed values; for names: each of the list
    kind: str = "count"  # count, duration (ns once parsed), text, names (a list in a text) or flag
    least: int = 0  # of a count
    per_trial: bool = False  # a setting of objects that a trial creates, not of processes

    @property
    def of_processes(self) -> bool:
        """Whether processes are started with it: on a kept cluster all trials share it."""
        return not self.per_trial and not self.about.startswith("model: ")


CONTROL_PLANE: tuple[Setting, ...] = (
    Setting(
        "kube-apiserver",
        "fairness",
        "on",
        "Priority & Fairness (--enable-priority-and-fairness)",
        ("on", "off"),
        "text",
    ),
    Setting(
        "kube-apiserver",
        "max-requests-inflight",
        400,
        "reading requests at the same time; with fairness the sum of both is shared out (--max-requests-inflight)",
        least=1,
    ),
    Setting(
        "kube-apiserver",
        "max-mutating-requests-inflight",
        200,
        "writing requests at the same time (--max-mutating-requests-inflight)",
        least=1,
    ),
    Setting(
        "kube-apiserver", "cores", 2, "model: cores that requests share with the work of server and clients", least=1
    ),
    Setting(
        "kube-apiserver",
        "audit",
        "components",
        "requests in the audit log of `local`: those of the control "
        "plane's components and nodes, of the load as well (`all`), or none (`off`)",
        ("components", "all", "off"),
        "text",
    ),
    Setting("kube-scheduler", "qps", 50, "client requests per second (clientConnection.qps)"),
    Setting("kube-scheduler", "burst", 100, "client burst (clientConnection.burst)"),
    Setting("kube-scheduler", "cycle", 450 * MICROSECOND, "model: cycle time per pod", kind="duration"),
    Setting(
        "kube-scheduler", "cycle-per-node", 2 * MICROSECOND, "model: cycle time per node examined", kind="duration"
    ),
    Setting("kube-controller-manager", "qps", 20, "client requests per second, per controller (--kube-api-qps)"),
    Setting("kube-controller-manager", "burst", 30, "client burst, per controller (--kube-api-burst)"),
    Setting("kube-controller-manager", "job-syncs", 5, "Jobs synced in parallel (--concurrent-job-syncs)"),
    # KWOK's own default is 4. It plays the kubelets, of which a cluster has one per node, and is not what is measured: with
    # 4, the last of 5,000 pods ran 15 s after the last was bound, with 16 after 10 s, with 64 after 5 s (two cores).
    Setting("kwok", "parallelism", 64, "stages played in parallel (podPlayStageParallelism)"),
    Setting(
        "pod",
        "image",
        "busybox",
        "on existing nodes: an image with `sleep`, which runs as long as a pod should",
        kind="text",
    ),
    # The simulator's kubelet, and the played containers of real ones; docs/simulator.md says how the figures were found.
    Setting(
        "kubelet",
        "start-latency",
        8 * SECOND,
        "model: a container's start on an idle node, beside the work",
        kind="duration",
    ),
    Setting("kubelet", "start-work", 1150 * MILLISECOND, "model: core-seconds to start one pod", kind="duration"),
    Setting(
        "kubelet", "machine-cores", 0, "model: cores of one machine that all nodes share; 0: each node has its own"
    ),
)


# Settings of submission and measurement, in a scenario's `settings` or `seatrial.toml`. Only given values are recorded.
OWN: tuple[Setting, ...] = (
    Setting("clog", "patience", 10 * MINUTE, "a stall that lasts longer than this counts as a clog", kind="duration"),
    Setting("measure", "resolution", 0, "times are rounded down to this; 0s: not rounded", kind="duration"),
    Setting("measure", "stages", "all", "stages drawn beside the general ones, `queued,admitted`, or `all`", kind="text"),
    Setting("submit", "command", "", "a command that submits one workload, instead of the API", kind="text"),
    Setting("submit", "rate", 0, "workloads per second at most, whatever the pace; 0: no limit"),
)  # fmt: skip


def own(settings: Settings, component: str, name: str) -> Scalar:
    """The value of one of our own settings, or its default."""
    default = next(setting.default for setting in OWN if (setting.component, setting.name) == (component, name))
    return settings.get(component, {}).get(name, default)


# The processes of a real control plane. Beside the table they take any flag by its name, `args` and `feature-gates`.
PROCESSES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def is_flag(component: str, name: str) -> bool:
    """Whether the setting is a flag of a real process, which models ignore."""
    return component in PROCESSES and (name.startswith("--") or name in ("args", "feature-gates"))


def words(written: Scalar) -> list[str]:
    """The names in a list with commas or semicolons."""
    return [word for word in re.split(r"[\s,;]+", str(written)) if word]


def shown(setting: Setting) -> str:
    """The default as a scenario writes it."""
    return format_duration(int(setting.default)) if setting.kind == "duration" else str(setting.default)


def resolve(table: Iterable[Setting], qps: str | float, given: Settings) -> dict[str, dict[str, Scalar]]:
    """Every setting's value. `qps` is `as shipped`, `unlimited`, or a number that all clients get."""
    values: dict[str, dict[str, Scalar]] = {}
    for setting in table:
        value = setting.default
        if setting.name == "qps" and qps != "as shipped":
            value = 0 if qps == "unlimited" else qps
        elif setting.name == "burst" and not isinstance(qps, str):
            value = int(qps * EQUAL_BURST_RATIO)
        values.setdefault(setting.component, {})[setting.name] = value
    for component, settings in given.items():
        values.setdefault(component, {}).update(settings)
    return values
