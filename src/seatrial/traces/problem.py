"""A problem of a trace, and the option that it is about."""

from __future__ import annotations

from collections.abc import Iterable

from seatrial.model.errors import UsageProblem


class TraceProblem(UsageProblem):
    """`option`: the field of a submit that the problem is about (`columns.submit`); empty: the file.

    `name` and `known`: a name that is not there, and those that are; who shows the problem suggests the nearest.
    """

    def __init__(
        self, what: str, remedy: str = "", option: str = "", name: str = "", known: Iterable[str] = ()
    ) -> None:
        known = tuple(known)
        super().__init__(what, remedy or f"known: {', '.join(known[:12])}{' …' if len(known) > 12 else ''}")
        self.option, self.name, self.known = option, name, known
