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


def refuse_useless(address: str, trials: Sequence[Trial]) -> None:
    """Raises where other machines have nothing to do."""
    if address and not _start_clusters(trials):
        raise UsageProblem(
            "--ray: trials on a cluster that stays take turns, and all but the cluster is in this process",
            "omit --ray",
        )


@contextmanager
def executor_on(address: str, trials: Sequence[Trial], jobs: int | None, console: Console) -> Iterator[Executor | None]:
    """The executor of `--ray ADDRESS`, connected while the block runs; None without the option."""
    if not address:
        yield None
        return
    from seatrial.study.ray_executor import ray_executor

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, markup=False)

    with ray_executor(address, trials, say, jobs) as executor:
        yield executor


def _start_clusters(trials: Sequence[Trial]) -> bool:
    """Whether each trial has a cluster of its own, simulated or on the machine where it runs."""
    return trials[0].on == "sim" or (trials[0].on == "local" and not trials[0].target.cluster)
