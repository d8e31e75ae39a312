"""What is to be run, resolved: no `${param}`, no text that still needs parsing, no defaults left to fill in.

`scenario` makes these from the file; `study`, `steps` and the clusters only read them. All of it is frozen, picklable (a
trial may run in another process) and turns into JSON with `to_json` (it is written into the study directory).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seatrial.model.selectors import Term
from seatrial.model.units import HOUR

Amounts = Mapping[str, int]  # resource name → integer amount, see `units`
Scalar = str | int | float | bool
CLIENT = "seatrial"  # the user whom the client is without `as`
# What the requests of a control plane's own parts are called; `nodes` are the kubelets, or who plays them.
COMPONENT_IDENTITIES = ("nodes", "kube-controller-manager", "kube-scheduler")
LOAD_AGENT = "seatrial-load"  # user agent of a load, so that the audit log can tell it from what the tool does itself
NAME_LENGTH = 200  # of set-up and params in a trial's directory name; file systems end at 255 bytes


@dataclass(frozen=True, slots=True)
class Span:
    """A delay: exactly `least`, or evenly between `least` and `most` where `most` is larger (KWOK's jitter)."""

    least: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"  # NoSchedule, PreferNoSchedule or NoExecute


@dataclass(frozen=True, slots=True)
class Toleration:
    """Kubernetes' own: an empty key with `Exists` tolerates everything, an empty effect every effect."""

    key: str = ""
    operator: str = "Exists"  # Exists or Equal
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes alike, named `NAME-0` …; `kubelet` nodes run containers, the others are fake and follow `create` and `start`.

    With `existing` (a label selector) nothing is made: these nodes are there, and how many and how large is found out there.
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


@dataclass(frozen=True, slots=True)
class PodShape:
    """All that a scheduler looks at; one instance is shared by all pods alike, and compared by identity on hot paths."""

    requests: Amounts
    selector: Mapping[str, str] = field(default_factory=dict)  # node labels that must match
    affinity: tuple[tuple[str, tuple[str, ...]], ...] = ()  # required: label → one of these values
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    spread: bool = False  # preferred anti-affinity by host name among the pods of one workload
    terms: tuple[Term, ...] = ()  # required: labels of existing nodes
    image: str = ""  # what real containers run; fake nodes run none


@dataclass(frozen=True, slots=True)
class Workload:
    """One item of a load: `pods` pods of one shape that each run for `duration`.

    A `gang` runs only while all its pods run. `declares` is what a queue is told per pod, where that is not what the pods ask.
    `overlay` is what the user wants in the Job's manifest beside that. An `interactive` one stays until it is deleted, and has
    completed when it runs. `claim` is the spec of a PersistentVolumeClaim of its own.
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


@dataclass(frozen=True, slots=True)
class Pace:
    """When the items of a submit are sent.

    `at-once`: as fast as the client may. `rate`: evenly, `per_s`. `poisson`: at random, `per_s` on average. `burst`: `size`
    together every `every` ns, answered or not. `rounds`: `size` together, the next round `every` ns after the start of the
    last, but not before all of that were answered.
    """

    kind: str = "at-once"
    per_s: float = 0.0
    size: int = 1
    every: int = 0


@dataclass(frozen=True, slots=True)
class Submit:
    name: str
    count: int  # workloads in all; with `sizes`, len(sizes) * each
    sizes: tuple[int, ...]  # pods of a workload; item i has sizes[i % len] before shuffling
    shuffled: bool
    shape: PodShape
    duration: int
    gang: bool = False
    declares: Amounts | None = None
    pace: Pace = Pace()
    overlay: Mapping[str, Any] | None = None
    interactive: bool = False
    claim: Mapping[str, Any] | None = None

    def workload(self, index: int, pods: int, stem: str = "") -> Workload:
        """Item `index`, called after `stem` or the phase: a name that nothing else in its namespace has."""
        return Workload(
            f"{stem or self.name}-{index}", self.name, index, pods, self.shape, self.duration, self.gang, self.declares,
            self.overlay, self.interactive, self.claim,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wait:
    """Until every workload (of the phases named in `of`, or of all so far) has reached `stage`.

    Where that does not come about (time is up, the trial clogs), the trial ends, or with `go_on` the next step begins.
    """

    name: str
    stage: str
    of: tuple[str, ...] = ()
    count: int | None = None  # this many instead of all
    timeout: int = HOUR
    go_on: bool = False
    place: str = field(default="", compare=False)  # file:line:column


@dataclass(frozen=True, slots=True)
class Pause:
    name: str
    duration: int


@dataclass(frozen=True, slots=True)
class Nodes:
    """`add` the group; do to the first `count` nodes of `group` (all if None) what `change` says."""

    name: str
    change: str  # add, remove, cordon, uncordon, unready, ready
    group: str
    count: int | None = None
    add: NodeGroup | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes the workloads of the phases named, finished or not."""

    name: str
    of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """As whom a phase's requests are sent. Without a user and a service account they are the client's own user's."""

    name: str = CLIENT  # what tables and `expect` call it
    user: str = ""
    groups: tuple[str, ...] = ()
    user_agent: str = LOAD_AGENT
    service_account: str = ""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests for objects. An item is one request for each of `objects`, one after another; items are numbered from 0.

    Names and other texts in `objects` may hold `${i}` (the item's number), `${namespace}` and `${payload}`. Closed loop:
    `workers` send items, each its next when the last is answered. With `per_s` (open loop) items are due at that rate, and
    latency counts from when they were due. After `lasting` nothing more is sent.
    """

    name: str
    verb: str  # as the audit log has it: create, update, patch, get, list, watch, delete, deletecollection
    objects: tuple[Mapping[str, Any], ...]  # list, watch, deletecollection: apiVersion and kind count
    count: int | None  # items in all; None: as many as there is time for
    namespaces: int = 1  # the items stand in the first so many; 0: list and watch ask across all of them
    each: int = 0  # so many one after another in a namespace; 0: the namespaces take turns
    workers: int = 1
    per_s: float = 0.0
    lasting: int = 0
    identity: Identity = Identity()
    retry: bool = True  # a 429 is sent again after what its Retry-After says
    payload: int = 0  # length of `${payload}`
    of: str = ""  # the create phase whose objects these are
    made: int = 0  # of which there are so many items: item i asks for its i % made
    cached: bool = False  # lists come from the server's cache (resourceVersion=0)
    limit: int = 0  # of a page of a list; all pages are fetched
    change: Mapping[str, Any] | None = None  # what an update lays over the manifests, or the patch
    how: str = "merge"  # of a patch: merge, strategic, apply

    def place(self, item: int) -> tuple[int, int]:
        """The number that `${i}` stands for, and that of the namespace."""
        number = item % self.made if self.made else item
        return number, (number // self.each if self.each else number) % max(self.namespaces, 1)


@dataclass(frozen=True, slots=True)
class Until:
    """Until what create phases made is in a state: `available` (Deployments), `pods-running`, `pods-gone`, `gone`."""

    name: str
    state: str
    of: tuple[str, ...]
    count: int  # how many Deployments or pods; for those that go, 0
    kinds: tuple[str, ...] = ()  # for `gone`: of these kinds alone
    timeout: int = HOUR
    go_on: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """Expectations looked at while the run goes on; a false one fails the trial there."""

    name: str
    expect: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True)
class Expectation:
    text: str
    place: str  # file:line:column, for the message when it fails


Phase = Submit | Wait | Pause | Nodes | Delete | Requests | Until | Check
Step = tuple[Phase, ...]  # the phases of a step run side by side


@dataclass(frozen=True, slots=True)
class Client:
    """The submitting client: `rate` caps what it sends per second, whatever the pace asks for; None is no cap."""

    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What a set-up names for one component of the control plane, instead of what is built and configured by default."""

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
    """Every write of the phases in `of` (of all create phases, if empty) is held so long inside the server."""

    duration: int
    of: tuple[str, ...] = ()
    webhook: str = "validating"  # or mutating


@dataclass(frozen=True, slots=True)
class Setup:
    """What a scenario compares. `settings` is component → setting → value, all defaults filled in by `settings.resolve`."""

    name: str
    stack: str
    nodes: tuple[NodeGroup, ...]
    client: Client = Client()
    settings: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    components: Mapping[str, Part] = field(default_factory=dict)  # real control planes only
    priority_levels: tuple[FlowObject, ...] = ()
    flow_schemas: tuple[FlowObject, ...] = ()
    delay: Delay | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where exactly, as the command line says it; empty: what the kind of cluster does by itself. Never a secret."""

    cluster: str = ""  # a kept local one (`seatrial cluster up NAME`)
    binaries: str = ""  # a folder with ready-made programs
    context: str = ""  # of the kubeconfig
    kubeconfig: str = ""  # a file instead of the usual ones
    profile: tuple[str, ...] = ()  # components of a local control plane whose processor use is profiled
    server: str = ""  # found out before the first trial, for the record


@dataclass(frozen=True, slots=True)
class Trial:
    """One execution: one set-up, one set of parameters, one repeat. It is all a worker needs to run it."""

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
    own: tuple[str, ...] = ()  # the params that some set-up of the scenario has values of its own for
    namespaces: int = 0  # made before the steps for what create phases make; 0: the trial's own namespace takes it
    answer: tuple[str, ...] = ()  # the figures that answer the scenario's question

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

    def submits(self) -> list[Submit]:
        return [phase for step in self.steps for phase in step if isinstance(phase, Submit)]

    def requests(self) -> list[Requests]:
        return [phase for step in self.steps for phase in step if isinstance(phase, Requests)]

    def node_groups(self) -> list[NodeGroup]:
        """Those there from the start and those that later steps add."""
        added = [phase.add for step in self.steps for phase in step if isinstance(phase, Nodes) and phase.add]
        return [*self.setup.nodes, *added]


def to_json(value: Any) -> Any:
    """Dataclasses, tuples and mappings as what `json` knows; a phase says in `action` what it is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"action": type(value).__name__.lower(), **fields} if isinstance(value, Phase) else fields
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value
