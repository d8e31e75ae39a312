"""`seatrial submit`: a study of one trial whose workloads are sent to a cluster that stays; `seatrial sample` measures them.

A submission may take hours and be killed at any time. `study.json` is complete before the first request, each workload has a line
in `submitted.jsonl` after the server's answer, and names derive from study, phase and index. `resume` sends the workloads without
a line; a workload that the server has already counts as sent.
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
from seatrial.clusters.access import kept_clusters
from seatrial.clusters.access.submitting import (
    NoVerdict,
    RateLimit,
    SubmitByApi,
    SubmitByCommand,
    SubmitMethod,
    command_values,
    command_words,
    in_rounds,
)
from seatrial.clusters.access.target_access import access_of
from seatrial.kube import Access, Client, Lost, Mark, RetryPolicy, Unreachable
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Manifest, Stack
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import Target
from seatrial.model.settings import own, resolve
from seatrial.model.units import SECOND
from seatrial.record.files import write_json
from seatrial.record.layout import STUDY, TRIAL
from seatrial.record.submissions import Submissions, take_up
from seatrial.stacks import job_objects
from seatrial.study import study_directory
from seatrial.study.interruption import interruption
from seatrial.study.submission import (
    Submission,
    SubmissionRequest,
    recorded,
    refuse_occupied,
    refuse_other_options,
    run_of,
    study_json,
    submission_of,
    trial_json,
)
from seatrial.study.submission_preflight import checked, prepare

RETRY = RetryPolicy(seconds=600.0)  # an hour-long load outlives an API server that is away for minutes
CONNECTIONS = 64

T = TypeVar("T")
ReportProgress = Callable[[int, int, int], None]  # workloads sent, refused, in all


@dataclass(slots=True)
class SubmissionProgress:
    """`sent` counts the workloads that the server has; `refused` those that it rejected, by reason."""

    of: int
    sent: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    torn: bool = False
    interrupted: bool = False

    @property
    def refusals(self) -> int:
        """Workloads that the server rejected."""
        return sum(self.refused.values())


def begin(out: Path, request: SubmissionRequest, report: ReportProgress) -> SubmissionProgress:
    """Submits into a new study. All errors that can be found beforehand are raised before anything is created."""
    refuse_occupied(out)
    request = _with_kept_stack(request)
    stack = stacks.find(request.stack)
    access = _access(request.target)
    if command := str(own(request.settings, "submit", "command")):
        command_words(command)
    settings = resolve(stack.settings, "as shipped", request.settings)  # the cluster has its own
    made = Submission(
        out, os.urandom(4).hex(), "", False, request.submit, request.stack, settings,
        dataclasses.replace(request.target, server=access.server), time.time_ns(), request.project,
    )  # fmt: skip
    if why := stack.refuses(made.trial):
        raise UsageProblem(
            f"the stack '{stack.name}' cannot take these workloads: {why}", "choose another with --stack"
        )
    made = _run(checked(made, stack, access, request.blames))
    with study_directory.disk_problems(out), study_directory.new_study(out, force=False):
        study_directory.write_study(out, study_json(made, request))  # first: from here on `--resume` works
        return _continue(made, stack, access, report)


def _access(target: Target) -> Access:
    if not target.cluster and not target.context:
        raise UsageProblem(
            "no cluster is named to submit to", "name a kept cluster with --cluster, or a context with --context"
        )
    return access_of(target, target.server)


def _with_kept_stack(request: SubmissionRequest) -> SubmissionRequest:
    """With the stack of a kept cluster and the settings that it was started with."""
    if not request.target.cluster:
        return dataclasses.replace(request, stack=request.stack or "default")
    there = kept_clusters.find(request.target.cluster).state
    if request.stack not in ("", there.stack):
        raise UsageProblem(
            f"the kept cluster '{request.target.cluster}' runs the stack '{there.stack}', not '{request.stack}'",
            "omit --stack, or create a cluster with it: seatrial cluster up NAME --stack",
        )
    settings = {**there.settings, **request.settings}
    return dataclasses.replace(request, stack=there.stack, settings=settings)


def resume(
    out: Path, given: Mapping[str, Any], template: str | None, report: ReportProgress, retry_refused: bool = False
) -> SubmissionProgress:
    """Continues a submission. `given` and `template` are the options beside --resume; they must be those of the beginning."""
    document = recorded(out)
    refuse_other_options(out, document, given, template)
    made = submission_of(out, document)
    stack = stacks.find(made.stack)
    with study_directory.disk_problems(out), study_directory.locked(out):
        return _continue(made, stack, _access(made.target), report, True, retry_refused)


def _continue(
    made: Submission,
    stack: Stack,
    access: Access,
    report: ReportProgress,
    resumed: bool = False,
    retry_refused: bool = False,
) -> SubmissionProgress:
    made.directory.mkdir(parents=True, exist_ok=True)
    if not (made.directory / TRIAL).exists():
        write_json(made.directory / TRIAL, trial_json(made, stack))
    done = take_up(made.directory, retry_refused)
    sent = SubmissionProgress(made.submit.count, len(done.indices) - len(done.refused), Counter(), done.torn)
    sent.refused.update(_without_name(why, made.workload(index).name) for index, why in done.refused.items())
    left = [index for index in range(made.submit.count) if index not in done.indices]
    submissions = Submissions(made.directory)
    try:
        if left:
            _run(_submit(made, stack, access, submissions, left, sent, report, resumed))
    except KeyboardInterrupt:
        sent.interrupted = True
    finally:
        submissions.close()
    state = "interrupted" if sent.interrupted else "complete"
    document = json.loads((made.out / STUDY).read_bytes())
    study_directory.write_study(made.out, {**document, "run": run_of(made, state)})
    return sent


async def _submit(
    made: Submission, stack: Stack, access: Access, submissions: Submissions, left: Sequence[int],
    sent: SubmissionProgress, report: ReportProgress, resumed: bool,
) -> None:  # fmt: skip
    connections = max(1, min(CONNECTIONS, made.submit.pace.size))
    mark = Mark(STUDY_LABEL, made.study)
    async with Client(access, connections=connections, mark=mark, retry=RETRY) as client:
        await prepare(client, made, stack)
        through = _through(client, made)

        async def send(index: int) -> None:
            workload = made.workload(index)
            manifests: list[Manifest] = [
                *job_objects.claim(workload, made.labels),
                *stack.real.for_setup(made.trial.setup).render(workload, made.labels),
            ]
            at, error = time.time_ns() - made.epoch_ns, 0
            taken = await through.send(workload, manifests)
            if taken.since and resumed:  # sent by a process that was killed; the server knows the second
                at, error = min(at, _nanoseconds(taken.since) - made.epoch_ns), SECOND
            submissions.add(index, workload, at, taken.refused, error)
            submissions.flush()
            if taken.refused:
                sent.refused[_without_name(taken.refused, workload.name)] += 1
            else:
                sent.sent += 1
            report(sent.sent, sent.refusals, sent.of)

        try:
            await in_rounds(left, made.submit.pace, RateLimit.of(made.rate), send)
        except (Lost, Unreachable, NoVerdict) as problem:
            raise SetupProblem(
                f"{problem.message}; {sent.sent} of {sent.of} workloads were submitted",
                f"{problem.remedy}; then continue: seatrial submit -o {made.out} --resume",
            ) from problem


def _through(client: Client, made: Submission) -> SubmitMethod:
    command = str(own(made.settings, "submit", "command"))
    if not command:
        return SubmitByApi(client, lambda _: made.namespace)
    target = made.target
    kubeconfig = str(kept_clusters.find(target.cluster).kubeconfig()) if target.cluster else target.kubeconfig
    values = command_values(kubeconfig, client.access.context, made.project)
    return SubmitByCommand(command, client, lambda _: made.namespace, values)


def _without_name(why: str, name: str) -> str:
    """The same text for all workloads that were refused for the same reason."""
    return why.replace(f'"{name}"', "").replace(name, "NAME").replace("  ", " ").strip()


def _nanoseconds(timestamp: str) -> int:
    return int(datetime.datetime.fromisoformat(timestamp).timestamp()) * SECOND


def _run(main: Coroutine[Any, Any, T]) -> T:
    """Ctrl-C cancels the coroutine; KeyboardInterrupt is raised afterwards."""
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
