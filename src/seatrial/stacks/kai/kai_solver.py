"""Whom KAI moves or evicts for a PodGroup: the solver of its actions (pkg/scheduler/actions/common/solvers, v0.12.0).

It solves for one pod of the group, then for two, and so on. Each time it takes one more possible victim, evicts all victims that
have pods on one node of the newest, and places everybody again in the order of turns, on room that is being released: victims that
fit elsewhere are moved. What comes out must satisfy the action's own rule. Only the solution for all pods is carried out.

A search that cannot succeed is not made: if what is idle, being released and held by possible victims is less than the group asks
for, KAI's search ends without a solution too, after trying every victim. What it would have tried is counted, because that is what
a cycle with waiting groups takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

import numpy as np

from seatrial.stacks.kai.job_lines import line_up, victims
from seatrial.stacks.kai.kai_session import HOLDS, PENDING, RELEASING, KaiJob, KaiSession, KaiTask, Mask
from seatrial.stacks.kai.queue_turns import QueueTurns

Victims = dict[KaiJob, list[KaiTask]]
Rule = Callable[[Victims], bool]


class KaiSolver:
    """For one PodGroup. `valid(victims)`: the action's rule; `possible()`: who may be a victim, as turns in reverse."""

    def __init__(
        self, session: KaiSession, job: KaiJob, possible: Callable[[], Sequence[KaiJob]], valid: Rule, random: Random
    ) -> None:
        self._session, self._job, self._possible, self._valid, self._random = session, job, possible, valid, random
        self.scenarios = 0  # in which everybody was placed again

    def solve(self, moves: bool) -> bool:
        """Whether there is a solution; it is then in the session, to be committed. `moves`: victims get other places."""
        session, job = self._session, self._job
        tasks, possible = job.to_allocate(False), self._possible()
        if not tasks:
            return False
        if not self._could_fit(tasks, () if moves else possible):
            self._search_in_vain(len(tasks), possible, moves)
            return False
        least, all_tasks, active = job.least, job.tasks, job.active
        recorded: list[KaiTask] = []
        solved = False
        for count in range(1, len(tasks) + 1):
            # getPartialJobRepresentative (job_solver.go:119): the group, as if it had only these pods to place
            job.tasks = [task for task in all_tasks if task.status != PENDING or task in tasks[:count]]
            job.least = active + count
            found = self._solve_part(recorded, possible, self._feasible())
            solved = found is not None
            if found is not None:
                recorded = found
                if count < len(tasks):
                    session.roll_back()
        job.tasks, job.least = all_tasks, least
        if solved and job.active < least:
            session.roll_back()
            solved = False
        return solved

    def _feasible(self) -> Mask:
        """FeasibleNodesForJob (actions/common/feasible_nodes.go:11): for GPUs, nodes with some that are free."""
        session = self._session
        gpus = session.nodes.placed_by(self._job.shape)
        if not self._job.amounts[2]:
            return session.everywhere.copy()
        feasible: Mask = session.left[gpus] > 0
        return feasible

    def _search_in_vain(self, pods: int, possible: Sequence[KaiJob], moves: bool) -> None:
        """What solving for one pod more each time tries. While nodes have room for the part, the first victim is moved, and that is
        kept; from then on every part fails, with what is kept and then with every other victim, once for each node it is on. Where
        victims are not moved, so few of them do not suffice that each part ends after the first."""
        session = self._session
        places = [len({task.node for task in victim.tasks if task.status in HOLDS}) for victim in possible]
        if not places:
            return
        mask, needs = session.nodes.needs(self._job.shape)
        fit = np.minimum.reduce([session.left[row] // amount for row, amount in needs])
        room = min(int(fit[mask].sum()), pods - 1)
        others = 0 if not moves else sum(places[:-1]) if room else sum(places)
        self.scenarios += room + (pods - room) * (others + (room > 0 or not moves))
        evicted = sum(places) / len(places)
        session.looked += int(self.scenarios * (evicted + 1)) * len(session.nodes.order)

    def _could_fit(self, tasks: Sequence[KaiTask], possible: Iterable[KaiJob]) -> bool:
        session = self._session
        mask, needs = session.nodes.needs(self._job.shape)
        held: dict[int, int] = {}
        for victim in possible:
            for row, amount in session.nodes.needs(victim.shape)[1]:
                held[row] = held.get(row, 0) + amount * victim.active
        return all(
            int(session.left[row][mask].sum()) + held.get(row, 0) >= amount * len(tasks) for row, amount in needs
        )

    def _solve_part(self, recorded: list[KaiTask], possible: Sequence[KaiJob], feasible: Mask) -> list[KaiTask] | None:
        """solvePartialJob (job_solver.go:90): the victims of the first scenario that works, or None."""
        for task in recorded:
            feasible[task.node] = True
        turns = QueueTurns(self._session.tree, victims(possible), self._random)
        known = set(recorded)
        newest: list[KaiTask] = []
        by_job: Victims = {}
        while True:
            found = self._try(recorded, by_job, newest, feasible)
            if found is not None:
                return found
            newest = []
            while turns and not newest:
                newest = [task for task in turns.pop().to_evict() if task not in known]
            if not newest:
                return None
            by_job.setdefault(newest[0].job, []).extend(newest)

    def _try(
        self, recorded: list[KaiTask], by_job: Victims, newest: Sequence[KaiTask], feasible: Mask
    ) -> list[KaiTask] | None:
        """byPodSolver.solve (by_pod_solver.go:62): once for every node of the newest victim."""
        session = self._session
        start = len(session.log)
        for task in recorded:
            session.evict(task)
        if not newest:
            if recorded:
                found = self._simulate(recorded, by_job, recorded, feasible)
                if found is not None:
                    return found
            session.roll_back(start)
            return None
        mark = len(session.log)
        for node in dict.fromkeys(task.node for task in newest[0].job.tasks if task.status in HOLDS):
            here = [task for tasks in by_job.values() if any(one.node == node for one in tasks) for task in tasks]
            more = feasible.copy()
            for task in here:
                more[task.node] = True
                session.evict(task)
            found = self._simulate([*recorded, *here], by_job, recorded, more)
            if found is not None:
                return found
            session.roll_back(mark)
        session.roll_back(start)
        return None

    def _simulate(
        self, victims: Sequence[KaiTask], by_job: Victims, recorded: Sequence[KaiTask], feasible: Mask
    ) -> list[KaiTask] | None:
        """TryToVirtuallyAllocatePreemptorAndGetVictims (actions/common/action.go:72), and the action's rule."""
        self.scenarios += 1
        session, job = self._session, self._job
        owners = dict.fromkeys(task.job for task in victims)
        turns = QueueTurns(session.tree, line_up([*owners, job]), self._random)
        placed = False
        while turns:
            turn = turns.pop()
            fits = session.place_job(turn, feasible, pipeline_only=True)
            if turn is job:
                if not fits:
                    return None
                placed = True
        if not placed:
            return None
        everybody: Victims = {owner: list(tasks) for owner, tasks in by_job.items()}
        for task in recorded:
            everybody.setdefault(task.job, []).append(task)
        if not self._valid(everybody):
            return None
        return [task for task in victims if task in session.evictions or task.status == RELEASING]


def all_moved(victims: Victims) -> bool:
    """Consolidation: everybody has a place again (actions/consolidation/consolidation.go:117)."""
    return all(task.status != RELEASING for tasks in victims.values() for task in tasks)
