"""The plan of a trial: params filled in, texts parsed, defaults set.

`scenario` makes it from the file; `study`, `steps` and the clusters only read it. All of it is frozen, picklable (a trial may run
in another process) and becomes JSON with `to_json` (for the study directory).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from seatrial.model.fleet import Fleet
from seatrial.model.selectors import Term

if TYPE_CHECKING:
    from seatrial.model.interfaces import RunningTrial

Amounts = Mapping[str, int]  # resource name → integer amount, see `units`
Scalar = str | int | float | bool
CLIENT = "seatrial"  # username of the client, unless a phase has `as`
# Identities of components in tables of requests; `nodes` are the kubelets, or what plays them.
COMPONENT_IDENTITIES = ("nodes", "kube-controller-manager", "kube-scheduler")
LOAD_AGENT = "seatrial-load"  # user agent of request phases, which marks them in the audit log
NAME_LENGTH = 200  # characters of set-up and params in a directory name; the limit of file systems is 255 bytes


@dataclass(frozen=True, slots=True)
class Span:
    """A random time: `least`, or evenly distributed between `least` and `most` where `most` is larger (KWOK's jitter)."""

    least: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"  # NoSchedule, PreferNoSchedule or NoExecute

    def __str__(self) -> str:
        """As a scenario writes it."""
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """Kubernetes' own: an empty key with `Exists` tolerates everything, an empty effect every effect."""

    key: str = ""
    operator: str = "Exists"  # Exists or Equal
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether a pod with this toleration tolerates the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


@dataclass(frozen=True, slots=True)
class PlayedRuntime:
    """Times of the container runtime of a played node, if the scenario sets them for a node group."""

    sandbox: Span = Span()  # of a pod, with its network
    start: Span = Span()  # of a container
    at_once: int = 0  # sandboxes and containers started at the same time; 0: any number
    image: int = 0  # bytes
    bandwidth: int = 0  # of pulls, bytes per second; 0: images are there at once


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Identical nodes, named `NAME-0` …; `kubelet` nodes run containers, the others are fake and follow `create` and `start`.

    With `existing` (a label selector) nothing is created: number and size of the nodes are those of the cluster.
    """

    name: str
    count: int
    capacity: Amounts  # at least cpu, memory and pods
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    kubelet: bool = False
    create: Span = Span()  # bound → container being created
    start: Span = Span()  # container being created → running
    existing: str = ""
    containers: bool = False  # its kubelets run real containers; without it they are played
    runtime: PlayedRuntime | None = None  # of a kubelet; None: as the settings of `kubelet` say


@dataclass(frozen=True, slots=True)
class PodShape:
    """Everything that a scheduler reads of a pod; identical pods share one instance, which hot paths compare by identity."""

    requests: Amounts
    selector: Mapping[str, str] = field(default_factory=dict)  # node labels that must match
    affinity: tuple[tuple[str, tuple[str, ...]], ...] = ()  # required: label → one of these values
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    spread: bool = False  # preferred anti-affinity by host name among the pods of one workload
    terms: tuple[Term, ...] = ()  # required: labels of existing nodes
    image: str = ""  # image of real containers; fake nodes run none
    name: str = ""  # in trial.json, of one of several shapes of a phase (PHASE#3); empty: the phase has only this one


class Workload(msgspec.Struct, frozen=True, gc=False):
    """One item of a load: `pods` pods of one shape that each run for `duration`. There may be a million of them: a frozen dataclass
    takes twenty times as long to make.

    A `gang` runs only while all its pods run. `declares`: requests per pod that the queue sees (default: its own). `overlay`: more
    fields of the Job's manifest. An `interactive` workload stays until it is deleted, and completes when it runs. `claim`: spec of
    its PersistentVolumeClaim. `queue`: of the fleet, or empty. `class_name`: figures are grouped by it; empty: the phase. After an
    eviction a workload starts again at its last `checkpoint` (the interval of checkpoints; 0: none).
    """

    name: str
    phase: str
    index: int
    pods: int
    shape: PodShape
    duration: int
    gang: bool = False
    declares: Amounts | None = None
    overlay: Mapping[str, Any] | None = None
    interactive: bool = False
    claim: Mapping[str, Any] | None = None
    queue: str = ""
    class_name: str = ""
    checkpoint: int = 0
    trace_wait: int = (
        -1
    )  # of a replayed trace: how long it waited in the recorded system, at the speed of the replay, ns


@dataclass(frozen=True, slots=True)
class Pace:
    """When the items of a submit are sent.

    `at-once`: as fast as the client may. `rate`: evenly, `per_s`. `poisson`: at random, `per_s` on average. `burst`: `size`
    together every `every` ns, answered or not. `rounds`: `size` together, the next round `every` ns after the start of the
    last, but not before all of it are answered.
    """

    kind: str = "at-once"
    per_s: float = 0.0
    size: int = 1
    every: int = 0


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expression that must hold."""

    text: str
    place: str  # file:line:column, for the message when it fails


@dataclass(frozen=True, slots=True)
class Phase:
    """One action of a step. Each kind of phase is a module of `scenario/actions`, with its fields, its plan and its action."""

    name: str

    waits: ClassVar[bool] = False  # only waits for workloads: meanwhile the watchman looks for clogs
    needs: ClassVar[type] = object  # protocol of what the action needs of a cluster beside `Cluster`

    @property
    def added_nodes(self) -> tuple[NodeGroup, ...]:
        """The nodes that this phase adds."""
        return ()

    async def act(self, run: RunningTrial, cluster: Any) -> None:
        """Runs the phase on a cluster that has what it `needs`; returns when the phase is over."""
        raise NotImplementedError


Step = tuple[Phase, ...]  # the phases of a step run side by side
P = TypeVar("P", bound=Phase)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The submitting client: `rate` caps what it sends per second, whatever the pace; None: no cap. `machines`: how many of a Ray's
    send the load together."""

    rate: float | None = None
    machines: int = 1


@dataclass(frozen=True, slots=True)
class ComponentOverride:
    """A set-up's replacement of one component of the control plane."""

    binary: str = ""  # a program of the user's
    version: str = ""  # of the component's Go module, built like ours
    config: str = ""  # a configuration file of the user's
    args: tuple[str, ...] = ()
    place: str = field(default="", compare=False)  # file:line:column


@dataclass(frozen=True, slots=True)
class FlowObject:
    """A priority level or a flow schema: its spec is that of flowcontrol.apiserver.k8s.io/v1."""

    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delay:
    """How long writes of the phases in `of` (all create phases if empty) are held inside the server."""

    duration: int
    of: tuple[str, ...] = ()
    webhook: str = "validating"  # or mutating


@dataclass(frozen=True, slots=True)
class Setup:
    """What a scenario compares. `settings`: component → setting → value, with the defaults (`settings.resolve`)."""

    name: str
    stack: str
    nodes: tuple[NodeGroup, ...]
    client: ClientSettings = ClientSettings()
    settings: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    components: Mapping[str, ComponentOverride] = field(default_factory=dict)  # real control planes only
    priority_levels: tuple[FlowObject, ...] = ()
    flow_schemas: tuple[FlowObject, ...] = ()
    delay: Delay | None = None
    fleet: Fleet = field(default_factory=Fleet)


@dataclass(frozen=True, slots=True)
class Target:
    """Options of the command line on where to run; empty: the default of the kind of cluster. Never a secret."""

    cluster: str = ""  # a kept local one (`seatrial cluster up NAME`)
    binaries: str = ""  # a folder with ready-made programs
    context: str = ""  # of the kubeconfig
    kubeconfig: str = ""  # a file instead of the usual ones
    profile: tuple[str, ...] = ()  # components of a local control plane whose processor use is profiled
    server: str = ""  # its address, recorded before the first trial


@dataclass(frozen=True, slots=True)
class Trial:
    """One execution: one set-up, one combination of params, one repeat. A worker needs nothing else to run it."""

    number: int
    scenario: str
    on: str
    setup: Setup
    params: Mapping[str, Scalar]
    repeat: int
    seed: int
    steps: tuple[Step, ...]
    expect: tuple[Expectation, ...] = ()
    varies: tuple[str, ...] = ()  # the params with more than one value in this study
    target: Target = Target()
    own: tuple[str, ...] = ()  # the params that some set-up sets itself, and those of `--vary`
    namespaces: int = (
        0  # created before the steps for objects of create phases; 0: those go to the trial's own namespace
    )
    answer: tuple[str, ...] = ()  # the figures that answer the scenario's question
    limit: int = 0  # ns of the cluster's clock after which it ends as timed out; 0: none

    @property
    def name(self) -> str:
        """The trial's directory: NNN-SETUP[-k=v…]-rR, with the params that vary; the number alone makes it unique."""
        varying = "".join(f"-{key}={self.params[key]}" for key in self.varies)
        middle = re.sub(r"[^\w.,+=@-]+", "_", f"{self.setup.name}{varying}", flags=re.ASCII)
        return f"{self.number:03d}-{middle[:NAME_LENGTH]}-r{self.repeat}"

    @property
    def drawn_from(self) -> dict[str, Scalar]:
        """The params that random streams derive from: without those of set-ups, so that all set-ups see the same load."""
        return {name: value for name, value in self.params.items() if name not in self.own}

    def phases(self, kind: type[P]) -> list[P]:
        """The phases of one kind, in the order of the steps."""
        return [phase for step in self.steps for phase in step if isinstance(phase, kind)]

    def begun_with(self, phase: Phase) -> list[Phase]:
        """The phases that have begun once this one has: of the steps before it and of its own."""
        number = next(number for number, step in enumerate(self.steps) if any(one is phase for one in step))
        return [one for step in self.steps[: number + 1] for one in step]

    def node_groups(self) -> list[NodeGroup]:
        """The groups of the set-up and those that steps add."""
        return [*self.setup.nodes, *(group for step in self.steps for phase in step for group in phase.added_nodes)]


def to_json(value: Any) -> Any:
    """Dataclasses, tuples and mappings as JSON types; a phase gets its kind as `action`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"action": type(value).__name__.lower(), **fields} if isinstance(value, Phase) else fields
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value
