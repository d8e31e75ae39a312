"""Random cases for Kueue's scheduler as JSON, and what our functions decide about them.

benchmarks/go/kueue-decisions reads the same cases and answers in the same form with Kueue's own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from seatrial.model.fleet import ANY, LOWER, LOWER_OR_NEWER, NEVER, Cohort, FlavorQuota, Fleet, Preemption, Queue
from seatrial.stacks.kueue.admission_cycle import ADMITTED, PREEMPTS, decide
from seatrial.stacks.kueue.flavor_assignment import FIT, NO_FIT, PREEMPT, assign, targets
from seatrial.stacks.kueue.quota_tree import QuotaClaim, QuotaTree, ResourceGroup

Case = dict[str, Any]
POLICIES = {"Never": NEVER, "Any": ANY, "LowerPriority": LOWER, "LowerOrNewerEqualPriority": LOWER_OR_NEWER}
MODES = {NO_FIT: "NoFit", PREEMPT: "Preempt", FIT: "Fit"}


# making cases


def make_case(random: Random) -> Case:
    """Few flavors, small amounts: so that queues meet each other and limits matter."""
    groups = _groups(random)
    cohorts = _cohorts(random, groups)
    queues = [_queue(random, number, cohorts, groups) for number in range(random.randint(1, 6))]
    case: Case = {"fair": random.random() < 0.5, "cohorts": cohorts, "queues": queues, "admitted": [], "pending": []}
    _admit(random, case)
    times = random.sample(range(100), len(queues))
    first = random.randrange(len(queues))  # the scheduler waits where there is no head at all
    for number, queue in enumerate(queues):
        if number == first or random.random() < 0.85:
            case["pending"].append(_job(random, f"p{number}", queue, times[number], most=8))
    return case


def _groups(random: Random) -> list[dict[str, Any]]:
    """Flavors and resources of each resource group, the same for all queues."""
    if random.random() < 0.2:
        return [{"flavors": ["a"], "resources": ["cpu"]}, {"flavors": ["b", "c"], "resources": ["gpu"]}]
    flavors = ["a", "b", "c"][: random.choice((1, 1, 2, 3))]
    return [{"flavors": flavors, "resources": ["cpu", "gpu"][: random.choice((1, 1, 2))]}]


def _quotas(random: Random, groups: list[dict[str, Any]], most: int, limits: bool) -> list[dict[str, Any]]:
    quotas = []
    for group in groups:
        for flavor in group["flavors"]:
            for resource in group["resources"]:
                nominal = random.randint(0, most)
                borrow = random.randint(0, 8) if limits and random.random() < 0.4 else None
                lend = random.randint(0, nominal) if limits and random.random() < 0.4 else None
                quotas.append(
                    {"flavor": flavor, "resource": resource, "nominal": nominal, "borrow": borrow, "lend": lend}
                )
    return quotas


def _cohorts(random: Random, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    cohorts: list[dict[str, Any]] = []
    for number in range(random.choice((0, 1, 1, 2, 3, 4))):
        parent = random.choice(cohorts)["name"] if cohorts and random.random() < 0.7 else ""
        quotas = _quotas(random, groups, 6, bool(parent)) if random.random() < 0.4 else []
        cohorts.append({"name": f"c{number}", "parent": parent, "weight": _weight(random), "quotas": quotas})
    return cohorts


def _weight(random: Random) -> str:
    return random.choice(("1", "1", "1", "2", "3", "500m", "0"))


def _queue(random: Random, number: int, cohorts: list[dict[str, Any]], groups: list[dict[str, Any]]) -> dict[str, Any]:
    cohort = random.choice(cohorts)["name"] if cohorts and random.random() < 0.9 else ""
    reclaim = random.choice(("Never", "LowerPriority", "Any", "Any"))
    borrowing = random.choice(("Never", "LowerPriority")) if reclaim != "Never" else "Never"
    return {
        "name": f"q{number}",
        "cohort": cohort,
        "weight": _weight(random),
        "groups": [group["flavors"] for group in groups],
        "quotas": _quotas(random, groups, 10, bool(cohort)),
        "borrows_first": random.random() < 0.6,
        "preempts_first": random.random() < 0.5,
        "within": random.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
        "reclaim": reclaim,
        "borrowing": borrowing,
        "threshold": random.randint(0, 3) if borrowing != "Never" and random.random() < 0.5 else None,
        "strict": random.random() < 0.2,
    }


def _job(random: Random, name: str, queue: Case, created: int, most: int) -> dict[str, Any]:
    resources = sorted({quota["resource"] for quota in queue["quotas"]})
    asked = resources if random.random() < 0.8 else resources[:1]
    requests = {resource: random.randint(1, most) for resource in asked}
    return {"name": name, "queue": queue["name"], "priority": random.randint(0, 3), "created": created,
            "uid": f"{random.randrange(10**6):06d}", "requests": requests}  # fmt: skip


def _admit(random: Random, case: Case) -> None:
    """Mostly what fits; now and then more, as after a quota was made smaller."""
    tree = tree_of(case)
    for number in range(random.randint(0, 16)):
        queue = random.choice(case["queues"])
        job = _job(random, f"w{number}", queue, random.randrange(100), most=5)
        job["flavors"] = {}
        for flavors in queue["groups"]:
            flavor = random.choice(flavors)
            covered = {quota["resource"] for quota in queue["quotas"] if quota["flavor"] == flavor}
            job["flavors"] |= {resource: flavor for resource in job["requests"] if resource in covered}
        job |= {"reserved": random.randrange(10), "evicted": random.random() < 0.1}
        claim = claim_of(tree, job, number)
        available = claim.queue.available
        if all(available(cell) >= amount for cell, amount in claim.usage.items()) or random.random() < 0.05:
            claim.queue.hold(claim)
            case["admitted"].append(job)


# our answers


def tree_of(case: Case) -> QuotaTree:
    """The quotas of a case, without usage."""
    cohorts = tuple(
        Cohort(c["name"], c["parent"], _of_json(c["quotas"]), _number(c["weight"])) for c in case["cohorts"]
    )
    queues, rules = [], {}
    for q in case["queues"]:
        queues.append(
            Queue(q["name"], _of_json(q["quotas"]), q["cohort"], _number(q["weight"]), q["borrows_first"], q["preempts_first"])
        )  # fmt: skip
        rules[q["name"]] = Preemption(
            POLICIES[q["within"]], POLICIES[q["reclaim"]], POLICIES[q["borrowing"]], q["threshold"], case["fair"]
        )
    fleet = Fleet(tuple(queues), cohorts, preemption=Preemption(fair_sharing=case["fair"]))
    tree = QuotaTree(fleet, rules)
    for q in case["queues"]:
        covered = {quota["flavor"]: {quota["resource"]} for quota in q["quotas"]}
        for quota in q["quotas"]:
            covered[quota["flavor"]].add(quota["resource"])
        groups = (ResourceGroup(frozenset(covered[flavors[0]]), tuple(flavors)) for flavors in q["groups"])
        tree.queues[q["name"]].groups = tuple(groups)
    return tree


def _of_json(quotas: list[dict[str, Any]]) -> tuple[FlavorQuota, ...]:
    flavors = dict.fromkeys(quota["flavor"] for quota in quotas)
    return tuple(
        FlavorQuota(flavor, *(
            {quota["resource"]: quota[key] for quota in quotas if quota["flavor"] == flavor and quota[key] is not None}
            for key in ("nominal", "borrow", "lend")
        ))
        for flavor in flavors
    )  # fmt: skip


def _number(weight: str) -> float:
    return int(weight[:-1]) / 1000 if weight.endswith("m") else float(weight)


def claim_of(tree: QuotaTree, job: Mapping[str, Any], number: int) -> QuotaClaim:
    """A workload of a case; one with flavors is not yet held."""
    flavors = job.get("flavors") or {}
    return QuotaClaim(
        number, tree.queues[job["queue"]], job["priority"], job["created"], job["requests"], float(job["uid"]),
        {tree.number[flavor, name]: job["requests"][name] for name, flavor in flavors.items()},
        flavors, job.get("reserved", -1), job.get("evicted", False),
    )  # fmt: skip


class Decided:
    """A case on our side: the tree with its usage, and the claims by name."""

    def __init__(self, case: Case) -> None:
        self.tree = tree_of(case)
        self.names = [job["name"] for job in (*case["admitted"], *case["pending"])]
        claims = [claim_of(self.tree, job, n) for n, job in enumerate((*case["admitted"], *case["pending"]))]
        self.pending = claims[len(case["admitted"]) :]
        for claim in claims[: len(case["admitted"])]:
            claim.queue.hold(claim)
        self._strict = {queue["name"] for queue in case["queues"] if queue["strict"]}

    def nomination(self, claim: QuotaClaim) -> dict[str, Any]:
        """For one pending workload: flavors, mode, victims."""
        made = assign(self.tree, claim)
        victims = targets(self.tree, claim, made) if made.mode == PREEMPT else []
        return {
            "mode": MODES[made.mode],
            "borrowing": made.borrowing,
            "flavors": made.flavors,
            "targets": sorted(
                ({"workload": self.names[victim.claim.number], "reason": victim.reason} for victim in victims),
                key=lambda target: target["workload"],
            ),
            "pending": made.has_pending_flavors,
        }

    def cycle(self) -> dict[str, Any]:
        """One cycle with all of them."""
        admitted: dict[str, dict[str, str]] = {}
        evicted: list[dict[str, str]] = []
        heap: list[str] = []
        aside: list[str] = []
        for head in decide(self.tree, self.pending):
            name = self.names[head.claim.number]
            if head.outcome == ADMITTED:
                admitted[name] = head.assignment.flavors
                continue
            if head.outcome == PREEMPTS:
                evicted += [
                    {"workload": self.names[victim.claim.number], "by": name, "reason": victim.reason}
                    for victim in head.victims
                    if not victim.claim.evicted
                ]
            at_once = head.is_requeued_at_once or head.claim.queue.name in self._strict
            (heap if at_once else aside).append(name)
        evicted.sort(key=lambda eviction: eviction["workload"])
        return {"admitted": admitted, "evicted": evicted, "heap": sorted(heap), "inadmissible": sorted(aside)}


def differences(case: Case, answer: Mapping[str, Any]) -> list[str]:
    """Where our decisions are none of Kueue's; it may have several, where Go's order of maps decides."""
    ours = Decided(case)
    usage = {name: list(queue.usage) for name, queue in ours.tree.queues.items()}
    found = []
    for claim in ours.pending:
        name = ours.names[claim.number]
        mine = ours.nomination(claim)
        if mine not in answer["nominations"][name]:
            found.append(f"{name}: ours {mine}, Kueue's {answer['nominations'][name]}")
    mine = ours.cycle()
    if mine not in answer["cycles"]:
        found.append(f"cycle: ours {mine}, Kueue's {answer['cycles']}")
    if usage != {name: list(queue.usage) for name, queue in ours.tree.queues.items()}:
        found.append("our decisions left usage behind")
    return found
