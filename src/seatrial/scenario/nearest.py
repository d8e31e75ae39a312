"""Suggests the name that a user most likely meant: most mistakes in a scenario are a name with one letter wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LISTED = 12  # known names in one line of a message


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name`, if one is close at all."""
    lowered = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def remedy_for(name: str, known: Iterable[str]) -> str:
    """`did you mean 'count'?`, or what there is to choose from."""
    names = list(dict.fromkeys(known))
    close = nearest(name, names)
    if close is not None:
        return f"did you mean '{close}'?"
    if not names:
        return "there are none; remove it"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"known: {', '.join(names[:LISTED])}{more}"
