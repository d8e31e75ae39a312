"""The part of a load that one machine sends: every n-th item, so that together they are the load of one machine."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadShare:
    """Items `number`, `number + of` … of a load, for one of `of` machines."""

    number: int = 0
    of: int = 1

    def items(self, count: int | None) -> Iterable[int]:
        """The numbers of the items; without a count they do not end."""
        return itertools.count(self.number, self.of) if count is None else range(self.number, count, self.of)

    def part(self, whole: int) -> int:
        """This machine's part of so many workers or items."""
        return len(range(self.number, whole, self.of))


WHOLE = LoadShare()
