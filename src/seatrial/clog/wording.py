"""Names, numbers, amounts and what components leave undone, in words: short, and never a list of a thousand names."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from seatrial.clog.diagnosis import LISTED
from seatrial.model.plan import Amounts
from seatrial.model.state import WorkloadState
from seatrial.model.units import format_quantity

# Which component acts next on a workload, in the order of its lifecycle.
QUEUE, PODS, SCHEDULER, NODES, END, COMPLETION = "queue", "pods", "scheduler", "nodes", "end", "completion"
REFUSED = "pods refused"  # the Job controller says why it creates none
_NOT_DONE = {
    QUEUE: "would fit, and the queue does not admit {it}",
    PODS: "may run, and the Job controller does not create {its} pods",
    REFUSED: "may run, and {its} pods cannot be created",
    SCHEDULER: "{has} pods that would fit, and the scheduler does not place them",
    NODES: "{has} bound pods that the nodes do not start",
    END: "{has} run for {its} duration, and {its} pods do not end",
    COMPLETION: "{has} finished all {its} pods, and the Job controller does not complete {it}",
}
WORDS_SAID = 2  # quotations in a summary; the diagnosis carries them all
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


def not_done(actor: str, one: bool) -> str:
    """What the component that should act does not do, for one workload or for several."""
    words = {"it": "it", "its": "its", "has": "has"} if one else {"it": "them", "its": "their", "has": "have"}
    return _NOT_DONE[actor].format(**words)


def said_of(workloads: Sequence[WorkloadState]) -> tuple[str, ...]:
    """What components say of these workloads."""
    return tuple(dict.fromkeys(workload.said for workload in workloads if workload.said))[:LISTED]


def messages(words: Sequence[str]) -> str:
    """Messages of components as the end of a summary."""
    return f" Messages: {'; '.join(quoted(text) for text in words[:WORDS_SAID])}." if words else ""
