"""The short search for victims in cohorts of queues alone decides what the search on the tree does."""

from __future__ import annotations

import pkgutil
from random import Random
from typing import Any

import pytest

from seatrial.model.fleet import ANY, LOWER, LOWER_OR_NEWER, NEVER, FlavorQuota, Fleet, Preemption, Queue
from seatrial.stacks.kueue.admission_cycle import decide
from seatrial.stacks.kueue.flat_cohorts import flat_victims
from seatrial.stacks.kueue.quota_preemption import QuotaNeed, classical_victims
from seatrial.stacks.kueue.quota_tree import QuotaClaim, QuotaTree

RULES = (NEVER, LOWER, LOWER_OR_NEWER, ANY)


def _tree(draw: Random) -> QuotaTree:
    names = ("cpu", "memory")[: draw.randint(1, 2)]
    flavors = ("old", "new")[: draw.randint(1, 2)]

    def quota(flavor: str) -> FlavorQuota:
        borrow = {name: draw.randint(0, 6) for name in names if draw.random() < 0.3}
        return FlavorQuota(flavor, {name: draw.randint(0, 6) for name in names}, borrow)

    count = draw.randint(1, 5)
    queues = tuple(Queue(f"q{number}", tuple(map(quota, flavors)), "all") for number in range(count))
    rules = Preemption(
        draw.choice(RULES[:3]), draw.choice(RULES), draw.choice((NEVER, LOWER)), draw.choice((None, 1, 2))
    )
    return QuotaTree(Fleet(queues, preemption=rules))


def _claim(tree: QuotaTree, draw: Random, number: int) -> QuotaClaim:
    queue = tree.queues[f"q{draw.randrange(len(tree.queues))}"]
    claim = QuotaClaim(number, queue, draw.randint(0, 3), draw.randint(0, 3), {}, number + draw.random())
    flavor = draw.choice(tree.cells)[0]
    claim.usage = {cell: draw.randint(0, 4) for cell, (of, _) in enumerate(tree.cells) if of == flavor}
    claim.reserved, claim.evicted = draw.randint(0, 5), draw.random() < 0.2
    return claim


def _need(tree: QuotaTree, claim: QuotaClaim, draw: Random) -> QuotaNeed:
    cells = [cell for cell in claim.usage if draw.random() < 0.8] or list(claim.usage)[:1]
    return QuotaNeed(tree, claim, claim.usage, cells)


@pytest.mark.parametrize("seed", range(20))
def test_both_searches_find_the_same_victims_in_the_same_order_for_the_same_reasons(seed: int) -> None:
    draw, found = Random(seed), 0
    for _ in range(200):
        tree = _tree(draw)
        for number in range(draw.randint(1, 12)):
            held = _claim(tree, draw, number)
            held.queue.hold(held)
        before = {name: list(queue.usage) for name, queue in tree.queues.items()}
        assert all(tree.is_flat(queue) for queue in tree.queues.values())
        tree.listed = {}  # several heads of one cycle
        for number in range(100, 104):
            need = _need(tree, _claim(tree, draw, number), draw)
            flat = [(victim.claim.number, victim.reason) for victim in flat_victims(need)]
            assert flat == [(victim.claim.number, victim.reason) for victim in classical_victims(need)]
            found += bool(flat)
        assert {name: list(queue.usage) for name, queue in tree.queues.items()} == before
    assert found > 50  # not all searches are in vain


def test_a_cohort_with_a_lending_limit_or_a_parent_is_searched_on_the_tree() -> None:
    limited = FlavorQuota("", {"cpu": 4}, lend={"cpu": 1})
    tree = QuotaTree(Fleet((Queue("a", (limited,), "all"), Queue("b", (FlavorQuota("", {"cpu": 4}),), "all"))))
    assert not tree.is_flat(tree.queues["b"])
    assert not QuotaTree(Fleet((Queue("alone", (limited,)),))).is_flat(tree.queues["a"])


@pytest.mark.parametrize(
    ("fair", "looked_at"),
    [(True, "fair_preemption.held_by"), (False, "flat_cohorts.may_borrow_from")],
    ids=["fair sharing", "by priority"],
)
def test_the_heads_of_a_cycle_look_at_the_workloads_of_a_cohort_together_and_not_each_at_all(
    fair: bool, looked_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a thousand queues in a cohort a cycle has a thousand heads, and each went through the workloads of all."""
    looks, path = 0, f"seatrial.stacks.kueue.{looked_at}"
    original = pkgutil.resolve_name(path)

    def counted(*given: Any) -> Any:
        nonlocal looks
        answer = original(*given)
        looks += len(answer) if isinstance(answer, list) else 1
        return answer

    monkeypatch.setattr(path, counted)
    queues = tuple(Queue(f"q{number}", (FlavorQuota("", {"cpu": 4}),), "all") for number in range(40))
    tree = QuotaTree(Fleet(queues, preemption=Preemption(LOWER, ANY, fair_sharing=fair)))
    held: list[QuotaClaim] = []
    heads: list[QuotaClaim] = []
    for place, queue in enumerate(tree.queues.values()):
        for _ in range(6 if place < 20 else 2):  # half of the queues borrow what the others leave
            claim = QuotaClaim(len(held), queue, 0, 0, {}, uid=len(held), usage={0: 1}, reserved=0)
            queue.hold(claim)
            held.append(claim)
        if place < 20:
            heads.append(QuotaClaim(1000 + place, queue, 10, 1, {"cpu": 4}, uid=1000 + place))
    decided = decide(tree, heads)
    assert all(
        len(head.victims) == 4 and {one.claim.queue for one in head.victims} == {head.claim.queue} for head in decided
    )
    assert looks <= 2 * len(held), looks
