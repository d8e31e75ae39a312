"""A submission: a study of one trial whose workloads are sent to a cluster that stays, and measured by others.

It may take hours, so it is made to be killed: what it is stands in `study.json` before the first request, a line per workload in
`submitted.jsonl` after the server's answer, and names derive from study, phase and index. Taken up again (`resume`) it sends
what has no line; what the server has already counts as sent.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from seatrial import stacks
from seatrial.clusters.attached.clearing import access_of
from seatrial.clusters.local import kept
from seatrial.clusters.preparing import apply, make_namespace
from seatrial.clusters.submitting import Api, Command, Limit, NoVerdict, Through, command_words, in_rounds, values_of
from seatrial.kube import Access, ApiProblem, Client, Lost, Mark, Patience, Unreachable
from seatrial.kube.errors import read_status
from seatrial.kube.resources import JOBS, NAMESPACES, NEVER, NODES, create
from seatrial.kube.shapes import Node, Object
from seatrial.model.errors import SeatrialError, SetupProblem, UsageProblem
from seatrial.model.interfaces import Manifest, Stack
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import Client as Sender
from seatrial.model.plan import Pace, PodShape, Scalar, Setup, Submit, Target, Trial, Workload, to_json
from seatrial.model.settings import own, resolve
from seatrial.model.units import SECOND, parse_quantity
from seatrial.record.submissions import Submissions, take_up
from seatrial.stacks import jobs
from seatrial.study import directory
from seatrial.study.describing import description, write_json
from seatrial.study.interrupting import interruption

NAME = "submit"
PATIENCE = Patience(seconds=600.0)  # an hour-long load outlives an API server that is away for minutes
CONNECTIONS = 64

T = TypeVar("T")
Told = Callable[[int, int, int], None]  # sent, refused, of


@dataclass(frozen=True, slots=True)
class Submission:
    """All that a process needs to go on with one: it stands in study.json."""

    out: Path
    study: str
    namespace: str
    own_namespace: bool
    submit: Submit
    stack: str
    settings: Mapping[str, Mapping[str, Scalar]]
    target: Target
    epoch_ns: int
    project: str = ""

    @property
    def trial(self) -> Trial:
        on = "local" if self.target.cluster else "kubeconfig"
        setup = Setup(self.stack, self.stack, (), Sender(self.rate), self.settings)
        return Trial(1, NAME, on, setup, {}, 1, 1, ((self.submit,),), target=self.target)

    @property
    def rate(self) -> float | None:
        return float(own(self.settings, "submit", "rate")) or None

    @property
    def directory(self) -> Path:
        return self.out / "trials" / self.trial.name

    @property
    def labels(self) -> dict[str, str]:
        return {STUDY_LABEL: self.study}


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


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for; the workloads' part has become a `Submit` already."""

    submit: Submit
    target: Target
    stack: str
    project: str
    settings: Mapping[str, Mapping[str, Scalar]]
    asked: Mapping[str, Any]
    template: str
    blames: Callable[
        [str, int, str], SeatrialError | None
    ]  # kind, code and words of the server → where in the template


# -- beginning


def begin(out: Path, wish: Wish, told: Told) -> Sent:
    """Everything that can be wrong is said before anything is made, there or here."""
    _refuse_occupied(out)
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
    made = _run(_find_out(made, stack, access, wish))
    with directory.disk_problems(out):
        directory.make(out, force=False)
        directory.write(out, _study_json(made, wish))  # first: from here on it can be taken up again
    return _go_on(made, stack, access, told)


def _refuse_occupied(out: Path) -> None:
    if (out / "study.json").exists() and json.loads((out / "study.json").read_text()).get("name") == NAME:
        raise UsageProblem(
            f"{out} holds a submission already", f"go on with it: seatrial submit -o {out} --resume; or give another -o"
        )


def _access(target: Target) -> Access:
    if not target.cluster and not target.context:
        raise UsageProblem(
            "nobody said where to submit to", "name a kept cluster with --cluster, or a context with --context"
        )
    return access_of(target, target.server)


async def _find_out(made: Submission, stack: Stack, access: Access, wish: Wish) -> Submission:
    async with Client(access) as client:
        await client.probe()
        try:
            await _refuse_stack(client, made, stack)
            made = await _placed(client, made, stack)
            await _try_out(client, made, wish)
        except ApiProblem as problem:
            raise SetupProblem(problem.message, problem.remedy) from problem
    return made


async def _refuse_stack(client: Client, made: Submission, stack: Stack) -> None:
    """Without its stack every workload would wait for ever, or run without it."""
    if not made.target.cluster and stack.name != "default":
        from seatrial.clusters.attached.inspecting import refuse_stacks

        await refuse_stacks(client, {stack.name})


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


async def _placed(client: Client, made: Submission, stack: Stack) -> Submission:
    """Into the namespace or queue that `--project` names and that must be there, or into a namespace of its own."""
    queue = stack.queue()
    if not made.project:
        return dataclasses.replace(made, namespace=f"seatrial-{made.study}", own_namespace=True)
    if queue is None:
        await _refuse_missing_namespace(client, made.project)
        return dataclasses.replace(made, namespace=made.project)
    kind, label = queue
    namespace, _, name = made.project.rpartition("/")
    listed = await client.list(kind, namespace, shape=Object)
    homes = [found.metadata.namespace for found in listed.items if found.metadata.name == name]
    if len(homes) != 1:
        known = ", ".join(f"{found.metadata.namespace}/{found.metadata.name}" for found in listed.items[:12])
        what = f"there is no {kind.kind} '{made.project}'" if not homes else f"{len(homes)} namespaces have a '{name}'"
        raise SetupProblem(what, f"there are {known}; write NAMESPACE/NAME" if known else f"make a {kind.kind} first")
    overlay = dict(made.submit.overlay or {})
    metadata = dict(overlay.get("metadata") or {})
    overlay["metadata"] = {**metadata, "labels": {**(metadata.get("labels") or {}), label: name}}
    submit = dataclasses.replace(made.submit, overlay=overlay)
    return dataclasses.replace(made, namespace=homes[0], submit=submit)


async def _refuse_missing_namespace(client: Client, namespace: str) -> None:
    try:
        there = await client.find(NAMESPACES, namespace, shape=Object)
    except ApiProblem as problem:
        if problem.code == 403:
            return  # we may not look; the answers to the workloads will show it
        raise
    if there is None:
        raise SetupProblem(
            f"there is no namespace '{namespace}' for --project",
            f"make it (`kubectl create namespace {namespace}`), or leave --project away: the study makes one of its own",
        )


async def _try_out(client: Client, made: Submission, wish: Wish) -> None:
    """The server looks at the first Job without making it: a field that it does not know is a mistake in the template. Its
    other objections may be different for each workload, and are recorded with it."""
    workload = _item(made, 0)
    job = Manifest(JOBS, workload.name, jobs.job(workload, made.labels))
    namespace = "default" if made.own_namespace else made.namespace
    for manifest in (*jobs.claim(workload, made.labels), job):
        request = create(manifest.resource, manifest.body, manifest.name, namespace)
        path = f"{request.path}?dryRun=All&fieldValidation=Strict"
        answer = await client.send(msgspec.structs.replace(request, path=path, again=NEVER))
        if answer.code in (400, 422):
            said = read_status(answer.code, answer.body).message
            if problem := wish.blames(manifest.resource.kind, answer.code, said):
                raise problem


def _trial_json(made: Submission, stack: Stack) -> dict[str, Any]:
    target = {key: value for key, value in to_json(made.target).items() if value}
    own_marks = {
        "study": made.study,
        "namespace": made.namespace,
        "own_namespace": made.own_namespace,
        "removed": False,
    }
    return {
        **description(made.trial, stack),
        "target": {**target, **own_marks},
        "wall_epoch_ns": made.epoch_ns,
        "outcome": "running",
    }


def _study_json(made: Submission, wish: Wish) -> dict[str, Any]:
    recorded = {
        "study": made.study, "namespace": made.namespace, "own_namespace": made.own_namespace, "stack": made.stack,
        "project": made.project, "wall_epoch_ns": made.epoch_ns, "settings": to_json(made.settings),
        "template": wish.template, "submit": to_json(made.submit),
    }  # fmt: skip
    document = directory.describe(NAME, recorded, [made.trial], dict(wish.asked))
    return {**document, "run": _run_of(made, "running")}


def _run_of(made: Submission, state: str) -> dict[str, Any]:
    started = datetime.datetime.fromtimestamp(made.epoch_ns / 1e9, datetime.UTC).isoformat(timespec="seconds")
    wall = {"wall_s": round((time.time_ns() - made.epoch_ns) / 1e9, 3)} if state != "running" else {}
    return {"started": started, **directory.surroundings(), **wall, "state": state}


# -- going on


def resume(
    out: Path, given: Mapping[str, Any], template: str | None, told: Told, again_if_refused: bool = False
) -> Sent:
    """`given` and `template` are what the command line says beside --resume; it may not say anything else than before."""
    document = _recorded(out)
    _refuse_other_options(out, document, given, template)
    made = _submission(out, document)
    stack = stacks.find(made.stack)
    return _go_on(made, stack, _access(made.target), told, True, again_if_refused)


def _recorded(out: Path) -> dict[str, Any]:
    path = out / "study.json"
    if not path.is_file():
        raise UsageProblem(f"{out} holds no study to go on with", "leave --resume away to begin one")
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise SetupProblem(f"{path} is not JSON: {error}", "it was damaged: submit into another OUT") from error
    if document.get("name") != NAME:
        raise UsageProblem(
            f"{out} holds a study of '{document.get('name')}', not one that `seatrial submit` made", "give another -o"
        )
    return document


def _refuse_other_options(
    out: Path, document: Mapping[str, Any], given: Mapping[str, Any], template: str | None
) -> None:
    asked = document["asked"]
    other = [
        f"{name} was {'not given' if asked.get(name) is None else asked[name]}, not {value}"
        for name, value in given.items()
        if value is not None and value != asked.get(name) and name != "--template"
    ]
    if template is not None and template != document["scenario"]["template"]:
        other.append("the template has changed")
    if other:
        raise UsageProblem(
            f"{out} was begun with other options: {'; '.join(other)}",
            f"go on as it was begun: seatrial submit -o {out} --resume; or give another -o",
        )


def _submission(out: Path, document: Mapping[str, Any]) -> Submission:
    said = document["scenario"]
    fields = {key: value for key, value in said["submit"].items() if key != "action"}
    fields |= {
        "sizes": tuple(fields["sizes"]),
        "shape": PodShape(fields["shape"]["requests"]),
        "pace": Pace(**fields["pace"]),
    }
    return Submission(
        out, said["study"], said["namespace"], said["own_namespace"], Submit(**fields), said["stack"], said["settings"],
        Target(**document["target"]), said["wall_epoch_ns"], said["project"],
    )  # fmt: skip


def _go_on(
    made: Submission, stack: Stack, access: Access, told: Told, resumed: bool = False, again_if_refused: bool = False
) -> Sent:
    with directory.disk_problems(made.out), _Alone(made):
        if not (made.directory / "trial.json").exists():
            write_json(made.directory / "trial.json", _trial_json(made, stack))
        done = take_up(made.directory, again_if_refused)
        sent = Sent(made.submit.count, len(done.indices) - len(done.refused), Counter(), done.torn)
        sent.refused.update(_without_name(why, _item(made, index).name) for index, why in done.refused.items())
        left = [index for index in range(made.submit.count) if index not in done.indices]
        submissions = Submissions(made.directory)
        try:
            if left:
                _run(_submit(made, stack, access, submissions, left, sent, told, resumed))
        except asyncio.CancelledError:
            sent.interrupted = True
        finally:
            submissions.close()
        state = "interrupted" if sent.interrupted else "complete"
        document = json.loads((made.out / "study.json").read_text())
        directory.write(made.out, {**document, "run": _run_of(made, state)})
    return sent


class _Alone:
    """Two at work on the same study would write a line twice. The lock ends with the process, however that ends."""

    def __init__(self, made: Submission) -> None:
        self._made = made

    def __enter__(self) -> None:
        self._made.directory.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._made.directory, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise SetupProblem(
                f"another `seatrial submit` is at work on {self._made.out}", "wait for it, or end it"
            ) from None

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)


async def _submit(
    made: Submission, stack: Stack, access: Access, submissions: Submissions, left: Sequence[int], sent: Sent, told: Told,
    resumed: bool,
) -> None:  # fmt: skip
    connections = max(1, min(CONNECTIONS, made.submit.pace.size))
    mark = Mark(STUDY_LABEL, made.study)
    async with Client(access, connections=connections, mark=mark, patience=PATIENCE) as client:
        await _prepare(client, made, stack)
        through = _through(client, made)

        async def send(index: int) -> None:
            workload = _item(made, index)
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


async def _prepare(client: Client, made: Submission, stack: Stack) -> None:
    """What is there from an earlier process is brought up to date; a project's namespace and queue are left as they are."""
    if not made.own_namespace:
        return
    try:
        await make_namespace(client, made.namespace, made.labels)
        wanted = stack.prepare(made.settings, await _capacity(client, stack), made.labels, made.namespace)
        await apply(client, wanted, made.namespace, made.study, stack.name)
    except ApiProblem as problem:
        raise SetupProblem(
            problem.message, f"{problem.remedy}; or name a namespace that you may write with --project"
        ) from problem


async def _capacity(client: Client, stack: Stack) -> dict[str, int]:
    """What a queue of ours may admit: all that the nodes have which take pods."""
    capacity: dict[str, int] = {}
    if stack.queue() is not None:
        for node in (await client.list(NODES, shape=Node)).items:
            for name, text in node.status.allocatable.items() if not node.spec.unschedulable else ():
                capacity[name] = capacity.get(name, 0) + parse_quantity(text, name)
    return capacity


def _through(client: Client, made: Submission) -> Through:
    command = str(own(made.settings, "submit", "command"))
    if not command:
        return Api(client, made.namespace)
    target = made.target
    kubeconfig = str(kept.find(target.cluster).kubeconfig()) if target.cluster else target.kubeconfig
    values = values_of(kubeconfig, client.access.context, made.project)
    return Command(command, client, made.namespace, values)


def _item(made: Submission, index: int) -> Workload:
    return made.submit.workload(index, made.submit.sizes[0], f"{made.submit.name}-{made.study}")


def _without_name(why: str, name: str) -> str:
    """Alike for workloads that were refused for the same reason."""
    return why.replace(f'"{name}"', "").replace(name, "NAME").replace("  ", " ").strip()


def _nanoseconds(timestamp: str) -> int:
    return int(datetime.datetime.fromisoformat(timestamp).timestamp()) * SECOND


def _run(main: Coroutine[Any, Any, T]) -> T:
    """Ctrl-C cancels it."""
    import uvloop

    async def cancellable() -> T:
        interruption.cancels(asyncio.current_task())
        try:
            return await main
        finally:
            interruption.cancels(None)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(cancellable())
