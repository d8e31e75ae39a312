"""A submission: a study of one trial whose workloads are sent to a cluster that stays, and measured by others.

It may take hours, so it is made to be killed: what it is stands in `study.json` before the first request, a line per workload in
`submitted.jsonl` after the server's answer, and names derive from study, phase and index. Taken up again (`resume`) it sends
what has no line; what the server has already counts as sent.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from seatrial import stacks
from seatrial.clusters.attached.clearing import access_of
from seatrial.clusters.local import kept
from seatrial.clusters.submitting import Api, Command, Limit, NoVerdict, Through, command_words, in_rounds, values_of
from seatrial.kube import Access, Client, Lost, Mark, Patience, Unreachable
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Manifest, Stack
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import Target
from seatrial.model.settings import own, resolve
from seatrial.model.units import SECOND
from seatrial.record.submissions import Submissions, take_up
from seatrial.stacks import jobs
from seatrial.study import directory
from seatrial.study.describing import write_json
from seatrial.study.interrupting import interruption
from seatrial.study.placing import find_out, prepare
from seatrial.study.submission import (
    Submission,
    Wish,
    recorded,
    refuse_occupied,
    refuse_other_options,
    run_of,
    study_json,
    submission_of,
    trial_json,
)

PATIENCE = Patience(seconds=600.0)  # an hour-long load outlives an API server that is away for minutes
CONNECTIONS = 64

T = TypeVar("T")
Told = Callable[[int, int, int], None]  # sent, refused, of


@dataclass(slots=True)
class Sent:
    """How it went so far. `sent` counts what the server has, `refused` how many it did not take, by reason."""

    of: int
    sent: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    torn: bool = False
    interrupted: bool = False

    @property
    def refusals(self) -> int:
        return sum(self.refused.values())


def begin(out: Path, wish: Wish, told: Told) -> Sent:
    """Everything that can be wrong is said before anything is made, there or here."""
    refuse_occupied(out)
    wish = _of_the_kept(wish)
    stack = stacks.find(wish.stack)
    access = _access(wish.target)
    if command := str(own(wish.settings, "submit", "command")):
        command_words(command)
    settings = resolve(stack.settings, "as shipped", wish.settings)  # those of the cluster are its own
    made = Submission(
        out, os.urandom(4).hex(), "", False, wish.submit, wish.stack, settings,
        dataclasses.replace(wish.target, server=access.server), time.time_ns(), wish.project,
    )  # fmt: skip
    if why := stack.refuses(made.trial):
        raise UsageProblem(
            f"the stack '{stack.name}' cannot take these workloads: {why}", "choose another with --stack"
        )
    made = _run(find_out(made, stack, access, wish.blames))
    with directory.disk_problems(out), directory.made(out, force=False):
        directory.write(out, study_json(made, wish))  # first: from here on it can be taken up again
        return _go_on(made, stack, access, told)


def _access(target: Target) -> Access:
    if not target.cluster and not target.context:
        raise UsageProblem(
            "nobody said where to submit to", "name a kept cluster with --cluster, or a context with --context"
        )
    return access_of(target, target.server)


def _of_the_kept(wish: Wish) -> Wish:
    """A kept cluster knows its stack, and with which settings that was started."""
    if not wish.target.cluster:
        return dataclasses.replace(wish, stack=wish.stack or "default")
    there = kept.find(wish.target.cluster).state
    if wish.stack not in ("", there.stack):
        raise UsageProblem(
            f"the kept cluster '{wish.target.cluster}' runs the stack '{there.stack}', not '{wish.stack}'",
            "leave --stack away, or make a cluster with it: seatrial cluster up NAME --stack",
        )
    settings = {**there.settings, **wish.settings}
    return dataclasses.replace(wish, stack=there.stack, settings=settings)


def resume(
    out: Path, given: Mapping[str, Any], template: str | None, told: Told, again_if_refused: bool = False
) -> Sent:
    """`given` and `template` are what the command line says beside --resume; it may not say anything else than before."""
    document = recorded(out)
    refuse_other_options(out, document, given, template)
    made = submission_of(out, document)
    stack = stacks.find(made.stack)
    with directory.disk_problems(out), directory.alone(out):
        return _go_on(made, stack, _access(made.target), told, True, again_if_refused)


def _go_on(
    made: Submission, stack: Stack, access: Access, told: Told, resumed: bool = False, again_if_refused: bool = False
) -> Sent:
    made.directory.mkdir(parents=True, exist_ok=True)
    if not (made.directory / "trial.json").exists():
        write_json(made.directory / "trial.json", trial_json(made, stack))
    done = take_up(made.directory, again_if_refused)
    sent = Sent(made.submit.count, len(done.indices) - len(done.refused), Counter(), done.torn)
    sent.refused.update(_without_name(why, made.workload(index).name) for index, why in done.refused.items())
    left = [index for index in range(made.submit.count) if index not in done.indices]
    submissions = Submissions(made.directory)
    try:
        if left:
            _run(_submit(made, stack, access, submissions, left, sent, told, resumed))
    except KeyboardInterrupt:
        sent.interrupted = True
    finally:
        submissions.close()
    state = "interrupted" if sent.interrupted else "complete"
    document = json.loads((made.out / "study.json").read_text())
    directory.write(made.out, {**document, "run": run_of(made, state)})
    return sent


async def _submit(
    made: Submission, stack: Stack, access: Access, submissions: Submissions, left: Sequence[int], sent: Sent, told: Told,
    resumed: bool,
) -> None:  # fmt: skip
    connections = max(1, min(CONNECTIONS, made.submit.pace.size))
    mark = Mark(STUDY_LABEL, made.study)
    async with Client(access, connections=connections, mark=mark, patience=PATIENCE) as client:
        await prepare(client, made, stack)
        through = _through(client, made)

        async def send(index: int) -> None:
            workload = made.workload(index)
            manifests: list[Manifest] = [*jobs.claim(workload, made.labels), *stack.render(workload, made.labels)]
            at, error = time.time_ns() - made.epoch_ns, 0
            taken = await through.send(workload, manifests)
            if taken.since and resumed:  # a process that was killed sent it; of that the server knows the second
                at, error = min(at, _nanoseconds(taken.since) - made.epoch_ns), SECOND
            submissions.add(index, workload, at, taken.refused, error)
            submissions.flush()
            if taken.refused:
                sent.refused[_without_name(taken.refused, workload.name)] += 1
            else:
                sent.sent += 1
            told(sent.sent, sent.refusals, sent.of)

        try:
            await in_rounds(left, made.submit.pace, Limit.of(made.rate), send)
        except (Lost, Unreachable, NoVerdict) as problem:
            raise SetupProblem(
                f"{problem.message}; {sent.sent} of {sent.of} workloads were submitted",
                f"{problem.remedy}; then go on: seatrial submit -o {made.out} --resume",
            ) from problem


def _through(client: Client, made: Submission) -> Through:
    command = str(own(made.settings, "submit", "command"))
    if not command:
        return Api(client, made.namespace)
    target = made.target
    kubeconfig = str(kept.find(target.cluster).kubeconfig()) if target.cluster else target.kubeconfig
    values = values_of(kubeconfig, client.access.context, made.project)
    return Command(command, client, made.namespace, values)


def _without_name(why: str, name: str) -> str:
    """Alike for workloads that were refused for the same reason."""
    return why.replace(f'"{name}"', "").replace(name, "NAME").replace("  ", " ").strip()


def _nanoseconds(timestamp: str) -> int:
    return int(datetime.datetime.fromisoformat(timestamp).timestamp()) * SECOND


def _run(main: Coroutine[Any, Any, T]) -> T:
    """Ctrl-C cancels it, and is raised when that is done."""
    import uvloop

    async def cancellable() -> T:
        interruption.cancels(asyncio.current_task())
        try:
            return await main
        finally:
            interruption.cancels(None)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(cancellable())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
