"""Trials as tasks of a Ray: on the cores of many machines, into the directory of the caller, with the bytes of one process.

Ray places the tasks and notices what dies. What has to happen then is decided here: a trial counts when its packed directory has
arrived, and until then it runs again, on whatever machine is there.
"""

from __future__ import annotations

import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.machines.connection import Machine, connected, imported_ray, machines
from seatrial.machines.passport import passport
from seatrial.model.errors import SeatrialError, SetupProblem
from seatrial.model.plan import Trial
from seatrial.record.layout import TRIALS
from seatrial.scenario.actions.send_requests import Requests
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.study.executors import POLL, Listener
from seatrial.study.interruption import interruption
from seatrial.study.packed_trials import unpack
from seatrial.study.ray_worker import Board, inspected, refuse_other_program, run_packed
from seatrial.study.trials import Outcome

MOST_LOSSES = 5  # of workers under one trial: then the trial is the cause
AHEAD = 2  # trials per core that Ray knows of: enough that no core waits for us, and that an autoscaler sees what is asked for
MACHINES_EVERY_S = 2.0
NEWS_EVERY_S = (
    0.5  # asked ten times per second the board cost as much processor time as the raylets of three idle machines
)
INSPECTION_S = 120.0  # a worker starts in 2 s; Ray unpacks our code there first
END_S = 30.0  # for running trials to end after Ctrl-C

MIB = 2**20
# Memory that a simulated trial takes at most: what it reserves of a machine that runs several of them.
# docs/verified.md, sim_scale: 0.35 GiB for 100,000 one-pod Jobs, 1.82 GiB for a million; the slope is 1.7 KiB, taken double because
# stacks with queues keep more. The base is a worker with its imports: 0.18 GiB with 10,000 Jobs.
BASE, PER_POD, PER_NODE = 256 * MIB, 3500, 20_000
PER_REQUEST = 500

Say = Callable[[str], None]


@contextmanager
def ray_executor(address: str, trials: Sequence[Trial], say: Say, jobs: int | None = None) -> Iterator[RayExecutor]:
    """An executor on the Ray at `address`, all of whose machines can run these trials; raises where one cannot."""
    with _joined(address, trials, trials[0].on, say) as found:
        _refuse_unfit(found, trials)
        yield RayExecutor(say, jobs)


@contextmanager
def load_machines(address: str, trials: Sequence[Trial], say: Say) -> Iterator[None]:
    """A Ray whose machines send the load of trials that run here, on a cluster that stays."""
    with _joined(address, trials, "kubeconfig", say) as found:
        needed = max(trial.setup.client.machines for trial in trials)
        if len(found) < needed:
            raise SetupProblem(
                f"the load comes from {needed} machines, and the Ray has {len(found)} with a core for it",
                "add machines, or write fewer into `client: {machines: N}`",
            )
        yield


@contextmanager
def _joined(address: str, trials: Sequence[Trial], on: str, say: Say) -> Iterator[list[Machine]]:
    stacks = {trial.setup.stack for trial in trials}
    with connected(address, sorted(stacks), len(os.sched_getaffinity(0))):
        interruption.listen()  # Ray has put its own handler of SIGTERM in place
        found = machines()
        _inspect(found, on)
        cores = sum(int(one.cores) for one in found)
        say(f"on a Ray of {len(found)} machine{'s' * (len(found) != 1)} with {cores} core{'s' * (cores != 1)}")
        yield found


@dataclass(frozen=True)
class RayExecutor:
    """Trials on the machines of a Ray: simulated ones a core each, those that start a control plane a machine each."""

    say: Say
    jobs: int | None = None

    def run(self, trials: Sequence[Trial], out: Path, listener: Listener) -> Iterator[Outcome]:
        (out / TRIALS).mkdir(parents=True, exist_ok=True)
        return _Dispatch(trials, out, listener, self.say, self.jobs).outcomes()


@dataclass
class _Task:
    """A trial that Ray has."""

    trial: Trial
    node: str = ""  # the machine that it has for itself


class _Dispatch:
    """The trials of one study on their way to machines and back."""

    def __init__(self, trials: Sequence[Trial], out: Path, listener: Listener, say: Say, jobs: int | None) -> None:
        ray = self._ray = imported_ray()
        self._waiting = deque(trials)
        self._running: dict[Any, _Task] = {}
        self._losses: dict[str, int] = {}
        self._begun: set[str] = set()
        self._out, self._listener, self._say, self._jobs = out, listener, say, jobs
        self._machines: list[Machine] = []
        self._looked = -MACHINES_EVERY_S
        self._stopped = 0.0
        # On the head: if that is gone, so is the Ray.
        actor = ray.remote(Board).options(num_cpus=0, resources={"node:__internal_head__": 0.001}, max_restarts=-1)
        self._board: Any = actor.remote()
        self._news: Any = None  # asked for and not answered yet
        self._asked = 0.0
        self._run_packed: Any = ray.remote(run_packed)

    def outcomes(self) -> Iterator[Outcome]:
        """Outcomes as they arrive; ends early once the user has interrupted."""
        while self._running or self._waiting:
            if interruption.wanted:
                self._stop()
            else:
                self._submit()
            self._pass_on()
            for reference in self._ended():
                task = self._running.pop(reference)
                outcome = self._arrived(reference, task)
                if outcome:
                    self._listener.ended(outcome.trial, outcome.outcome, outcome.figures)
                    yield outcome

    def _submit(self) -> None:
        if time.monotonic() > self._looked + MACHINES_EVERY_S:
            self._look()
        cores = sum(int(one.cores) for one in self._machines)
        most = min(self._jobs or AHEAD * cores, AHEAD * cores)
        while self._waiting and len(self._running) < most:
            trial = self._waiting[0]
            options, node = self._placed(trial)
            if options is None:
                return
            self._waiting.popleft()
            packed = pickle.dumps(trial)
            # Ray's own retries would begin a trial again unseen, as often as it kills its worker.
            task = self._run_packed.options(name=trial.name, max_retries=0, **options)
            self._running[task.remote(packed, passport(), self._board)] = _Task(trial, node)

    def _look(self) -> None:
        self._looked = time.monotonic()
        before, self._machines = self._machines, machines()
        for gone in before:
            if gone.node not in {one.node for one in self._machines}:
                self._say(f"{gone} has left the Ray; its trials run again elsewhere")
        if not self._machines and before:
            self._say("no machine of the Ray has a core left; waiting for one")

    def _placed(self, trial: Trial) -> tuple[dict[str, Any] | None, str]:
        """Ray's options for the task. A control plane takes a machine for itself, whatever its size: None while all are taken."""
        if trial.on == "sim":
            return {"num_cpus": 1, "memory": _memory_estimate(trial)}, ""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        by_node = {one.node: one for one in self._machines}
        taken = {by_node[task.node].address for task in self._running.values() if task.node in by_node}
        for one in self._machines:
            if one.address not in taken:  # two nodes with one address are on one machine
                strategy = NodeAffinitySchedulingStrategy(one.node, soft=False)
                return {"num_cpus": one.cores, "scheduling_strategy": strategy}, one.node
        return None, ""

    def _ended(self) -> list[Any]:
        if not self._running:
            time.sleep(POLL)
            return []
        references = list(self._running)
        ended, _ = self._ray.wait(references, num_returns=1, timeout=POLL, fetch_local=False)
        if ended:
            ended, _ = self._ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)
        return list(ended)

    def _arrived(self, reference: Any, task: _Task) -> Outcome | None:
        """Unpacks a trial; None if it did not run, or has to run again."""
        errors = self._ray.exceptions
        try:
            result = self._ray.get(reference)
        except errors.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, SeatrialError) else None
            raise (cause or error) from None
        except errors.RuntimeEnvSetupError as error:
            raise _unprepared(error) from None
        except errors.TaskCancelledError:
            return None
        except errors.RayError as error:
            self._lost(task.trial, error)
            return None
        if result is None:
            return None
        outcome, packed = result
        unpack(packed, self._out / TRIALS / task.trial.name)
        return outcome  # type: ignore[no-any-return]

    def _lost(self, trial: Trial, error: Exception) -> None:
        """Its worker, its machine, or the object that it left is gone."""
        losses = self._losses[trial.name] = self._losses.get(trial.name, 0) + 1
        why = type(error).__name__
        if losses == MOST_LOSSES:
            raise SetupProblem(
                f"{trial.name}: {losses} workers died under it ({why}), perhaps for want of memory",
                "run fewer trials side by side (-j), or look into the logs of Ray; then `seatrial run --resume OUT`",
            )
        self._begun.discard(trial.name)
        self._looked = -MACHINES_EVERY_S
        if not interruption.wanted:
            self._say(f"{trial.name}: its worker was lost ({why}); it runs again")
            self._waiting.appendleft(trial)

    def _pass_on(self) -> None:
        """Passes on what the board was told."""
        errors = self._ray.exceptions
        try:
            if self._news is None:
                if time.monotonic() > self._asked + NEWS_EVERY_S:
                    self._asked, self._news = time.monotonic(), self._board.news.remote()
            elif self._ray.wait([self._news], timeout=0)[0]:
                news, self._news = self._news, None
                self._heard(self._ray.get(news))
        except errors.RayActorError:
            self._news = None

    def _heard(self, told: Sequence[tuple[Any, ...]]) -> None:
        running = {task.trial.name for task in self._running.values()}  # news of a trial may come after the trial
        for message in told:
            if message[0] not in running:
                continue
            if len(message) == 1:
                self._begun.add(message[0])
                self._listener.started(message[0])
            else:
                self._listener.update(*message)

    def _stop(self) -> None:
        """Nothing begins any more. A trial that the board has not heard of will hear that: nobody waits for it."""
        self._waiting.clear()
        if self._stopped:
            if time.monotonic() > self._stopped + END_S:
                self._running.clear()
            return
        self._stopped = time.monotonic()
        with suppress(self._ray.exceptions.RayError):
            if self._news is not None:
                self._heard(self._ray.get(self._news))
            self._heard(self._ray.get(self._board.stop.remote()))
        for reference, task in list(self._running.items()):
            if task.trial.name not in self._begun:
                del self._running[reference]
                self._ray.cancel(reference)


def _inspect(found: Sequence[Machine], on: str) -> None:
    """Raises with the first machine that would not give our bytes, or lacks what the cluster needs."""
    ray = imported_ray()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = passport()
    task: Any = ray.remote(inspected)
    asked = [
        (
            one,
            task.options(
                num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(one.node, soft=False), max_retries=1
            ).remote(on),
        )
        for one in found
    ]
    for one, reference in asked:
        try:
            there, lacking = ray.get(reference, timeout=INSPECTION_S)
        except ray.exceptions.RuntimeEnvSetupError as error:
            raise _unprepared(error) from None
        except ray.exceptions.GetTimeoutError:
            raise SetupProblem(
                f"the machine {one} started no worker within {INSPECTION_S:.0f} s", "look into the logs of Ray there"
            ) from None
        except (ray.exceptions.NodeDiedError, ray.exceptions.TaskUnschedulableError):
            continue  # it has left meanwhile
        refuse_other_program(str(one), here, there)
        if lacking:
            what, remedy = lacking[0]
            raise SetupProblem(f"the machine {one} lacks {what}", remedy)


def _refuse_unfit(found: Sequence[Machine], trials: Sequence[Trial]) -> None:
    """Raises if a trial could run nowhere: Ray would wait for ever."""
    if not found:
        raise SetupProblem(
            "no machine of the Ray has a core for trials", "add one (`ray start --address=…`, minReplicas on KubeRay)"
        )
    if trials[0].on != "sim":
        return
    largest = max(found, key=lambda one: one.memory)
    needed, trial = max(((_memory_estimate(one), one) for one in trials), key=lambda pair: pair[0])
    if needed > largest.memory:
        raise SetupProblem(
            f"{trial.name} takes about {needed / MIB:,.0f} MiB of memory; the largest machine of the Ray, {largest}, has "
            f"{largest.memory / MIB:,.0f} MiB",
            "add a larger machine (or --memory of `ray start`), or make the trial smaller",
        )


def _memory_estimate(trial: Trial) -> int:
    """Bytes that a simulated trial takes at most."""
    pods = sum(max(submit.pods, submit.count) for submit in trial.phases(Submit))
    requests = sum((phase.count or 0) * max(len(phase.objects), 1) for phase in trial.phases(Requests))
    nodes = sum(group.count for group in trial.node_groups())
    return BASE + PER_POD * pods + PER_NODE * nodes + PER_REQUEST * requests


def _unprepared(error: Exception) -> SetupProblem:
    text = " ".join(str(error).split())
    return SetupProblem(f"Ray could not put our code on a machine: {text[-300:]}", "look into its logs (runtime_env)")
