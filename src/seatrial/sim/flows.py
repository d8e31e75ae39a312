"""Which flow a request belongs to: flow schemas, the priority levels they lead to, and what Kubernetes ships of both.

The objects are given as Kubernetes has them (flowcontrol.apiserver.k8s.io/v1). Non-resource URLs are left out: nothing here asks
for any.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ALL = "*"
SERVICE_ACCOUNT = "system:serviceaccount:"
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
NODES = "system:nodes"


@dataclass(frozen=True, slots=True)
class Identity:
    user: str
    groups: tuple[str, ...] = (AUTHENTICATED,)


def service_account(namespace: str, name: str) -> Identity:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return Identity(f"{SERVICE_ACCOUNT}{namespace}:{name}", groups)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for, as far as flow schemas look at it. `resource` may be `nodes/status`; no namespace: cluster-wide."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Level:
    """A priority level. Without queues it rejects what exceeds its limit; an exempt one has no limit."""

    name: str
    shares: int
    lendable: int = 0  # percent of its limit
    borrowing: int | None = None  # percent of its limit; None: as much as others lend
    queues: int = 0
    hand: int = 0
    length: int = 0  # of a queue
    exempt: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    kind: str  # User, Group or ServiceAccount
    name: str
    namespace: str = ""

    def matches(self, who: Identity) -> bool:
        if self.kind == "User":
            return self.name in (ALL, who.user)
        if self.kind == "Group":
            return self.name == ALL or self.name in who.groups
        prefix = f"{SERVICE_ACCOUNT}{self.namespace}:"
        return who.user.startswith(prefix) if self.name == ALL else who.user == prefix + self.name


@dataclass(frozen=True, slots=True)
class ResourceRule:
    verbs: tuple[str, ...] = (ALL,)
    groups: tuple[str, ...] = (ALL,)
    resources: tuple[str, ...] = (ALL,)
    namespaces: tuple[str, ...] = (ALL,)
    cluster_scope: bool = True

    def matches(self, ask: Ask) -> bool:
        if not (_has(self.verbs, ask.verb) and _has(self.groups, ask.group) and _has(self.resources, ask.resource)):
            return False
        return _has(self.namespaces, ask.namespace) if ask.namespace else self.cluster_scope


@dataclass(frozen=True, slots=True)
class Rule:
    subjects: tuple[Subject, ...]
    resources: tuple[ResourceRule, ...] = (ResourceRule(),)

    def matches(self, who: Identity, ask: Ask) -> bool:
        return any(subject.matches(who) for subject in self.subjects) and any(r.matches(ask) for r in self.resources)


@dataclass(frozen=True, slots=True)
class Schema:
    """A flow schema: the first that matches, by precedence and name, decides. `by` tells the flows of one schema apart."""

    name: str
    level: str
    precedence: int
    by: str  # ByUser, ByNamespace or nothing
    rules: tuple[Rule, ...]

    def matches(self, who: Identity, ask: Ask) -> bool:
        return any(rule.matches(who, ask) for rule in self.rules)

    def distinguisher(self, who: Identity, ask: Ask) -> str:
        return {"ByUser": who.user, "ByNamespace": ask.namespace}.get(self.by, "")


def _has(listed: Sequence[str], one: str) -> bool:
    return one in listed or ALL in listed


def _groups(*names: str) -> tuple[Subject, ...]:
    return tuple(Subject("Group", name) for name in names)


def _users(*names: str) -> tuple[Subject, ...]:
    return tuple(Subject("User", name) for name in names)


_EVERYONE = _groups(UNAUTHENTICATED, AUTHENTICATED)
_KUBE_SYSTEM = (Subject("ServiceAccount", ALL, "kube-system"),)
_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
_LEASES = ResourceRule(groups=("coordination.k8s.io",), resources=("leases",), cluster_scope=False)
_OWN_LEASES = ResourceRule(("get", "create", "update"), _LEASES.groups, _LEASES.resources, cluster_scope=False)
_OWN_NODE = ResourceRule(groups=("",), resources=("nodes", "nodes/status"))

# What a server of Kubernetes 1.36 makes by itself: k8s.io/apiserver v0.36.3, pkg/apis/flowcontrol/bootstrap/default.go.
DEFAULT_LEVELS = (
    Level("exempt", 0, exempt=True),
    Level("catch-all", 5),
    Level("system", 30, 33, None, 64, 6, 50),
    Level("node-high", 40, 25, None, 64, 6, 50),
    Level("leader-election", 10, 0, None, 16, 4, 50),
    Level("workload-high", 40, 50, None, 128, 6, 50),
    Level("workload-low", 100, 90, None, 128, 6, 50),
    Level("global-default", 20, 50, None, 128, 6, 50),
)
DEFAULT_SCHEMAS = (
    Schema("exempt", "exempt", 1, "", (Rule(_groups(MASTERS)),)),
    Schema("system-leader-election", "leader-election", 100, "ByUser",
           (Rule(_users(_MANAGER, _SCHEDULER) + _KUBE_SYSTEM, (_OWN_LEASES,)),)),
    Schema("system-node-high", "node-high", 400, "ByUser", (Rule(_groups(NODES), (_OWN_NODE, _LEASES)),)),
    Schema("system-nodes", "system", 500, "ByUser", (Rule(_groups(NODES)),)),
    Schema("kube-controller-manager", "workload-high", 800, "ByNamespace", (Rule(_users(_MANAGER)),)),
    Schema("kube-scheduler", "workload-high", 800, "ByNamespace", (Rule(_users(_SCHEDULER)),)),
    Schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", (Rule(_KUBE_SYSTEM),)),
    Schema("service-accounts", "workload-low", 9000, "ByUser", (Rule(_groups("system:serviceaccounts")),)),
    Schema("global-default", "global-default", 9900, "ByUser", (Rule(_EVERYONE),)),
    Schema("catch-all", "catch-all", 10000, "ByUser", (Rule(_EVERYONE),)),
)  # fmt: skip
# pkg/apis/flowcontrol/v1/defaults.go: what a priority level or flow schema that does not say gets
_SHARES, _QUEUES, _HAND, _LENGTH, _PRECEDENCE = 30, 64, 8, 50, 1000


def level_of(name: str, spec: Mapping[str, Any]) -> Level:
    """A PriorityLevelConfiguration's spec."""
    if spec.get("type") == "Exempt":
        exempt = spec.get("exempt") or {}
        return Level(name, exempt.get("nominalConcurrencyShares", 0), exempt.get("lendablePercent", 0), exempt=True)
    limited = spec.get("limited") or {}
    level = Level(
        name,
        limited.get("nominalConcurrencyShares", _SHARES),
        limited.get("lendablePercent", 0),
        limited.get("borrowingLimitPercent"),
    )
    response = limited.get("limitResponse") or {}
    if response.get("type") != "Queue":
        return level
    queuing = response.get("queuing") or {}
    queues = (queuing.get("queues", _QUEUES), queuing.get("handSize", _HAND), queuing.get("queueLengthLimit", _LENGTH))
    return Level(name, level.shares, level.lendable, level.borrowing, *queues)


def schema_of(name: str, spec: Mapping[str, Any]) -> Schema:
    """A FlowSchema's spec."""
    by = (spec.get("distinguisherMethod") or {}).get("type", "")
    rules = tuple(
        Rule(
            tuple(map(_subject_of, rule.get("subjects") or ())),
            tuple(map(_resources_of, rule.get("resourceRules") or ())),
        )
        for rule in spec.get("rules") or ()
    )
    level = spec["priorityLevelConfiguration"]["name"]
    return Schema(name, level, spec.get("matchingPrecedence", _PRECEDENCE), by, rules)


def _subject_of(subject: Mapping[str, Any]) -> Subject:
    kind = subject["kind"]
    named = subject[kind[0].lower() + kind[1:]]
    return Subject(kind, named["name"], named.get("namespace", ""))


def _resources_of(rule: Mapping[str, Any]) -> ResourceRule:
    return ResourceRule(
        tuple(rule.get("verbs", ())),
        tuple(rule.get("apiGroups", ())),
        tuple(rule.get("resources", ())),
        tuple(rule.get("namespaces", ())),
        bool(rule.get("clusterScope", False)),
    )


def in_order(schemas: Iterable[Schema]) -> list[Schema]:
    """As they are tried: the lowest precedence first, then by name."""
    return sorted(schemas, key=lambda schema: (schema.precedence, schema.name))


def classify(schemas: Sequence[Schema], who: Identity, ask: Ask) -> Schema:
    """The first match, or the catch-all for those that are in no group at all."""
    for schema in schemas:
        if schema.matches(who, ask):
            return schema
    return next(schema for schema in schemas if schema.name == "catch-all")


def flow_hash(schema: str, distinguisher: str) -> int:
    """apf_controller.go, hashFlowID."""
    digest = hashlib.sha256(f"{schema}\0{distinguisher}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def deal(value: int, queues: int, hand: int) -> tuple[int, ...]:
    """The hand of queues that a flow may use: so many different ones of all, decided by the flow's hash (shufflesharding.go)."""
    remainders: list[int] = []
    for taken in range(hand):
        value, remainder = divmod(value, queues - taken)
        remainders.append(remainder)
    cards = []
    for place, remainder in enumerate(remainders):
        card = remainder
        for before in reversed(remainders[:place]):
            card += card >= before
        cards.append(card)
    return tuple(cards)


def dealable(queues: int, hand: int) -> bool:
    """Whether a hash of 60 bits is enough for such hands; the server refuses a level otherwise."""
    return 0 < hand <= queues and math.ceil(math.log2(queues) * hand) <= 60
