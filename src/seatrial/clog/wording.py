"""Names, numbers and amounts in words: short, and never a list of a thousand names."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from seatrial.model.plan import Amounts
from seatrial.model.units import format_quantity

NAMED = 2  # names of a long list that are written out; a third one is, too, if it is the last


def listing(names: Sequence[str]) -> str:
    """`gang-3, gang-7 and 11 more`."""
    if len(names) > NAMED + 1:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def doing(names: Sequence[str], one: str, many: str) -> str:
    """`gang-3 waits`, `gang-3, gang-7 and 11 more wait`."""
    return f"{listing(names)} {one if len(names) == 1 else many}"


def some(count: int, thing: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def quantities(amounts: Amounts) -> str:
    """`cpu 2, nvidia.com/gpu 16`; zeros are left out."""
    return (
        ", ".join(f"{name} {format_quantity(amount, name)}" for name, amount in amounts.items() if amount) or "nothing"
    )


def quoted(text: str, most: int = 300) -> str:
    """A message of another program, on one line."""
    line = " ".join(text.split())
    return f'"{line if len(line) <= most else line[: most - 1] + "…"}"'


def only(amounts: Amounts, names: Collection[str]) -> dict[str, int]:
    """The amounts of these resources."""
    return {name: amount for name, amount in amounts.items() if name in names}


def amounts_of(amounts: Amounts, names: Collection[str]) -> str:
    """Like `quantities`, with zeros."""
    return ", ".join(f"{name} 0" if amounts[name] <= 0 else quantities({name: amounts[name]}) for name in sorted(names))
