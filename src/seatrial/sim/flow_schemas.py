"""Classifies requests into flows: flow schemas, priority levels, and the defaults of Kubernetes.

Specs are those of flowcontrol.apiserver.k8s.io/v1. Non-resource URLs are left out: no model requests them.
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
class UserInfo:
    """Username and groups of a request."""

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)


def service_account(namespace: str, name: str) -> UserInfo:
    """UserInfo of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return UserInfo(f"{SERVICE_ACCOUNT}{namespace}:{name}", groups)


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """Attributes that flow schemas match. `resource` may be `nodes/status`; an empty namespace is cluster scope."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Level:
    """A priority level. Without queues it rejects requests above its limit; an exempt level has no limit."""

    name: str
    shares: int
    lendable: int = 0  # percent of its limit
    borrowing: int | None = None  # percent of its limit; None: all that others lend
    queues: int = 0
    hand: int = 0
    length: int = 0  # of a queue
    exempt: bool = False


@dataclass(frozen=True, slots=True)
class FlowSubject:
    """A subject of a flow schema."""

    kind: str  # User, Group or ServiceAccount
    name: str
    namespace: str = ""

    def matches(self, user: UserInfo) -> bool:
        """Whether the user is this subject."""
        if self.kind == "User":
            return self.name in (ALL, user.name)
        if self.kind == "Group":
            return self.name == ALL or self.name in user.groups
        prefix = f"{SERVICE_ACCOUNT}{self.namespace}:"
        return user.name.startswith(prefix) if self.name == ALL else user.name == prefix + self.name


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """A resource rule of a flow schema."""

    verbs: tuple[str, ...] = (ALL,)
    groups: tuple[str, ...] = (ALL,)
    resources: tuple[str, ...] = (ALL,)
    namespaces: tuple[str, ...] = (ALL,)
    cluster_scope: bool = True

    def matches(self, request: RequestInfo) -> bool:
        """Whether the rule covers the request."""
        return (
            _has(self.verbs, request.verb)
            and _has(self.groups, request.group)
            and _has(self.resources, request.resource)
            and (_has(self.namespaces, request.namespace) if request.namespace else self.cluster_scope)
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """Subjects and resource rules of a flow schema; one of each must match."""

    subjects: tuple[FlowSubject, ...]
    resources: tuple[ResourceRule, ...] = (ResourceRule(),)

    def matches(self, user: UserInfo, request: RequestInfo) -> bool:
        """Whether the rule covers this request of this user."""
        return any(s.matches(user) for s in self.subjects) and any(r.matches(request) for r in self.resources)


@dataclass(frozen=True, slots=True)
class Schema:
    """A flow schema: the first match by precedence and name decides. `by` is the distinguisher method."""

    name: str
    level: str
    precedence: int
    by: str  # ByUser, ByNamespace or empty
    rules: tuple[Rule, ...]

    def matches(self, user: UserInfo, request: RequestInfo) -> bool:
        """Whether a rule of the schema covers this request of this user."""
        return any(rule.matches(user, request) for rule in self.rules)

    def distinguisher(self, user: UserInfo, request: RequestInfo) -> str:
        """The flow distinguisher: user, namespace, or empty."""
        return {"ByUser": user.name, "ByNamespace": request.namespace}.get(self.by, "")


def _has(listed: Sequence[str], one: str) -> bool:
    return one in listed or ALL in listed


def _groups(*names: str) -> tuple[FlowSubject, ...]:
    return tuple(FlowSubject("Group", name) for name in names)


def _users(*names: str) -> tuple[FlowSubject, ...]:
    return tuple(FlowSubject("User", name) for name in names)


_EVERYONE = _groups(UNAUTHENTICATED, AUTHENTICATED)
_KUBE_SYSTEM = (FlowSubject("ServiceAccount", ALL, "kube-system"),)
_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
_LEASES = ResourceRule(groups=("coordination.k8s.io",), resources=("leases",), cluster_scope=False)
_OWN_LEASES = ResourceRule(("get", "create", "update"), _LEASES.groups, _LEASES.resources, cluster_scope=False)
_OWN_NODE = ResourceRule(groups=("",), resources=("nodes", "nodes/status"))

# Created by a server of Kubernetes 1.36 itself: k8s.io/apiserver v0.36.3, pkg/apis/flowcontrol/bootstrap/default.go.
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
# Defaults of omitted fields: pkg/apis/flowcontrol/v1/defaults.go
_SHARES, _QUEUES, _HAND, _LENGTH, _PRECEDENCE = 30, 64, 8, 50, 1000


def level_of(name: str, spec: Mapping[str, Any]) -> Level:
    """The level of a PriorityLevelConfiguration's spec."""
    if spec.get("type") == "Exempt":
        exempt = spec.get("exempt") or {}
        return Level(name, exempt.get("nominalConcurrencyShares", 0), exempt.get("lendablePercent", 0), exempt=True)
    limited = spec.get("limited") or {}
    response = limited.get("limitResponse") or {}
    queues = (0, 0, 0)
    if response.get("type") == "Queue":
        given = response.get("queuing") or {}
        queues = (given.get("queues", _QUEUES), given.get("handSize", _HAND), given.get("queueLengthLimit", _LENGTH))
    return Level(
        name,
        limited.get("nominalConcurrencyShares", _SHARES),
        limited.get("lendablePercent", 0),
        limited.get("borrowingLimitPercent"),
        *queues,
    )


def schema_of(name: str, spec: Mapping[str, Any]) -> Schema:
    """The schema of a FlowSchema's spec."""
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


def _subject_of(subject: Mapping[str, Any]) -> FlowSubject:
    kind = subject["kind"]
    named = subject[kind[0].lower() + kind[1:]]
    return FlowSubject(kind, named["name"], named.get("namespace", ""))


def _resources_of(rule: Mapping[str, Any]) -> ResourceRule:
    return ResourceRule(
        tuple(rule.get("verbs", ())),
        tuple(rule.get("apiGroups", ())),
        tuple(rule.get("resources", ())),
        tuple(rule.get("namespaces", ())),
        bool(rule.get("clusterScope", False)),
    )


def in_order(schemas: Iterable[Schema]) -> list[Schema]:
    """In the order of matching: by precedence, then by name."""
    return sorted(schemas, key=lambda schema: (schema.precedence, schema.name))


def classify(schemas: Sequence[Schema], user: UserInfo, request: RequestInfo) -> Schema:
    """The first match; the catch-all for a user without groups."""
    for schema in schemas:
        if schema.matches(user, request):
            return schema
    return next(schema for schema in schemas if schema.name == "catch-all")


def flow_hash(schema: str, distinguisher: str) -> int:
    """Hash of a flow (hashFlowID in apf_controller.go)."""
    digest = hashlib.sha256(f"{schema}\0{distinguisher}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def deal(value: int, queues: int, hand: int) -> tuple[int, ...]:
    """The `hand` different queues that a flow with this hash may use (shufflesharding.go)."""
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
    """Whether a hash of 60 bits is enough for these hands; the server rejects the level otherwise."""
    return 0 < hand <= queues and math.ceil(math.log2(queues) * hand) <= 60
