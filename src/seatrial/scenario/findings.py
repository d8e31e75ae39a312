"""What is worth saying before a run although it is no mistake: that a pod fits nowhere is a valid question."""

from __future__ import annotations

from seatrial.model.fit import why_nowhere
from seatrial.model.plan import Trial
from seatrial.model.units import format_quantity


def check_never_fits(trial: Trial) -> list[str]:
    """One line per submit whose pods fit no node, counting nodes that later steps add."""
    found = []
    for submit in trial.submits():
        reason = why_nowhere(trial.node_groups(), submit.shape)
        if reason is not None:
            requests = submit.shape.requests.items()
            asked = ", ".join(f"{resource} {format_quantity(amount, resource)}" for resource, amount in requests)
            found.append(f"{submit.name}: a pod that asks for {asked or 'nothing'} fits no node ({reason})")
    return found
