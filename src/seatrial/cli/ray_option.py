"""`--ray`: the executor of a study whose trials run on other machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from seatrial.model.errors import UsageProblem
from seatrial.model.plan import Trial

if TYPE_CHECKING:
    from rich.console import Console

    from seatrial.study.executors import Executor


def check_ray(address: str, trials: Sequence[Trial]) -> None:
    """Raises where other machines have nothing to do, or where they are missing."""
    shared = not _start_clusters(trials)
    together = [trial for trial in trials if trial.setup.client.machines > 1]
    if shared and together and not address:
        raise UsageProblem(
            f"the set-up '{together[0].setup.name}' sends its load from {together[0].setup.client.machines} machines",
            "name their Ray: --ray ADDRESS; or omit `client: {machines: N}`",
        )
    if shared and address and not together:
        raise UsageProblem(
            "--ray: trials on a cluster that stays take turns, and their load comes from this machine",
            "omit --ray, or write `client: {machines: N}` for a load from several machines",
        )


@contextmanager
def executor_on(address: str, trials: Sequence[Trial], jobs: int | None, console: Console) -> Iterator[Executor | None]:
    """The executor of `--ray ADDRESS`, connected while the block runs; None without the option."""
    if not address:
        yield None
        return
    from seatrial.study.ray_executor import load_machines, ray_executor

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, markup=False)

    if not _start_clusters(trials):
        with load_machines(address, trials, say):
            yield None
        return
    with ray_executor(address, trials, say, jobs) as executor:
        yield executor


def _start_clusters(trials: Sequence[Trial]) -> bool:
    """Whether each trial has a cluster of its own, simulated or on the machine where it runs."""
    return trials[0].on == "sim" or (trials[0].on == "local" and not trials[0].target.cluster)
