"""What the tests of the language share: a small sound scenario, to be made wrong in one way each, and some stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from seatrial.model.errors import ScenarioProblem
from seatrial.model.plan import Trial
from seatrial.model.settings import Setting
from seatrial.scenario.document import from_text
from seatrial.scenario.expansion import expand

STACKS: Mapping[str, Sequence[Setting]] = {
    "default": (),
    "kueue": (Setting("kueue", "qps", 20, "client QPS"), Setting("kueue", "backoff", 0, "wait", kind="duration")),
    "mcad": (
        Setting("mcad", "version", "1.40", "which", ("1.32", "1.40"), kind="text"),
        Setting("mcad", "actions", "enqueue", "which, in order", ("enqueue", "allocate"), "names"),
        Setting("mcad", "preempt", False, "whether", kind="flag"),
    ),
}

NODES = "nodes: [{name: fake, count: 2, capacity: {cpu: 4, memory: 8Gi}}]\n"
STEPS = "steps: [{submit: {name: short, count: 3, duration: 10s}}, {wait: {for: completed}}]\n"
SMALL = f"name: small\n{NODES}stacks: [default]\n{STEPS}"


def trials(text: str, **options: Any) -> list[Trial]:
    return expand(from_text(text, "s.yaml"), on="sim", stacks=STACKS, **options)


def mistakes(text: str, **options: Any) -> list[str]:
    """What is wrong with a scenario, a line each."""
    with pytest.raises(ScenarioProblem) as caught:
        trials(text, **options)
    return [str(mistake) for mistake in caught.value.mistakes]


def with_steps(steps: str) -> str:
    """A scenario whose steps begin in line 4: `steps` are the lines of the list."""
    return f"name: small\n{NODES}stacks: [default]\nsteps:\n{steps}\n"


def with_submit(fields: str) -> str:
    """A scenario whose submit stands in line 5, its fields from column 14."""
    return with_steps(f"  - submit: {{{fields}}}")
