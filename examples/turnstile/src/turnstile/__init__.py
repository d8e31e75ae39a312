"""Identity of the stack: name, stages, settings. The model and the real side are imported when they are used.

A turnstile lets the oldest suspended Jobs go, a fixed number of them at a time. That is all it does: it is an example of a stack
that comes from another package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import ADMITTED, lifecycle_with
from seatrial.model.plan import Workload
from seatrial.model.settings import Setting, Settings
from seatrial.stacks.base import StackBase

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from turnstile.real import TurnstileReal


class TurnstileStack(StackBase):
    """What `seatrial stacks` shows."""

    name = "turnstile"
    about = "a turnstile in front of kube-scheduler: so many Jobs at a time, the oldest first"
    needs = "the Deployment turnstile-controller"
    verified = "the same scenario with its controller on local"
    stages = lifecycle_with(ADMITTED)
    settings = (Setting("turnstile", "places", 10, "Jobs that run at the same time (--places)", least=1),)

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from turnstile.model import TurnstileModel

        return TurnstileModel(sim, int(settings["turnstile"]["places"])).created

    @property
    def real(self) -> TurnstileReal:
        from turnstile.real import TurnstileReal

        return TurnstileReal()


stack = TurnstileStack()
