"""What is fair in a tree of cohorts: quota that nobody needs where it belongs is divided level by level, by weight.

A queue first gets what it wants, up to its own quota. What is left in a cohort, its own quota with it, goes to its queues and the
cohorts below it, by their weights; only what they leave goes up to the cohort's parent, and only what they lack is asked for there.
So do Kueue's cohorts: queues and cohorts compete with their siblings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Branch:
    """A cohort: quota of its own, what it may borrow from its parent and lend there, its queues (rows) and the cohorts below it."""

    queues: tuple[int, ...]
    below: tuple[Branch, ...] = ()
    weight: float = 1.0
    extra: float = 0.0
    borrow: float = np.inf
    lend: float = np.inf


def fair_shares(wanted: Reals, own: Reals, borrow: Reals, lend: Reals, weight: Reals, root: Branch) -> Reals:
    """Queue × moment: first what each wants up to its own quota; then the rest by weight, up to what it wants and may borrow."""
    base = np.minimum(wanted, own[:, None])
    more = np.minimum(wanted, (own + borrow)[:, None]) - base
    spare = np.minimum(own[:, None] - base, lend[:, None])
    fair = base.copy()
    books: _Books = {}
    _add_up(root, more, spare, books)
    _divide(root, np.zeros(wanted.shape[1]), more, weight, books, fair)
    return fair


def filled(wanted: Reals, weight: Reals, there: Reals) -> Reals:
    """Divides what is there at every moment (column): all get the same per weight, but nobody more than it wants."""
    level = wanted / weight[:, None]
    order = np.argsort(level, axis=0, kind="stable")
    sorted_level = np.take_along_axis(level, order, axis=0)
    wants = np.take_along_axis(wanted, order, axis=0)
    weights = weight[order]
    before = np.cumsum(wants, axis=0) - wants  # of those that are content with less
    left = weights[::-1].cumsum(axis=0)[::-1]  # weight of those that are not
    short = before + sorted_level * left >= there  # from this one on nobody gets all that it wants
    first = np.argmax(short, axis=0)
    columns = np.arange(wanted.shape[1])
    reached = np.where(short.any(axis=0), (there - before[first, columns]) / left[first, columns], np.inf)
    return np.minimum(wanted, np.where(np.isinf(reached), np.inf, np.maximum(reached, 0)) * weight[:, None])


_Books = dict[int, tuple[Reals, Reals]]  # id of a branch → what its children lack, and what is left there


def _add_up(branch: Branch, more: Reals, spare: Reals, books: _Books) -> tuple[Reals, Reals]:
    """What a branch asks its parent for, and what it leaves to it."""
    rows = list(branch.queues)
    lacks, leaves = more[rows].sum(axis=0), spare[rows].sum(axis=0) + branch.extra
    for one in branch.below:
        asks, gives = _add_up(one, more, spare, books)
        lacks, leaves = lacks + asks, leaves + gives
    books[id(branch)] = lacks, leaves
    inside = np.minimum(lacks, leaves)
    return np.minimum(lacks - inside, branch.borrow), np.minimum(leaves - inside, branch.lend)


def _divide(branch: Branch, granted: Reals, more: Reals, weight: Reals, books: _Books, fair: Reals) -> None:
    """Gives the queues of a branch what is left there and what its parent granted."""
    if not branch.queues and not branch.below:
        return
    rows = list(branch.queues)
    asks = [_asked(one, books) for one in branch.below]
    wanted = np.concatenate([more[rows], np.array(asks).reshape(len(asks), more.shape[1])])
    weights = np.concatenate([weight[rows], [one.weight for one in branch.below]])
    parts = filled(wanted, weights, books[id(branch)][1] + granted)
    fair[rows] += parts[: len(rows)]
    for one, part in zip(branch.below, parts[len(rows) :], strict=True):
        _divide(one, part, more, weight, books, fair)


def _asked(branch: Branch, books: _Books) -> Reals:
    lacks, leaves = books[id(branch)]
    asked: Reals = np.minimum(np.maximum(lacks - leaves, 0), branch.borrow)
    return asked
