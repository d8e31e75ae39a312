"""Where a submission goes: asked before anything is made, and made ready before the first workload."""

from __future__ import annotations

import dataclasses

import msgspec

from seatrial.clusters.preparing import apply, make_namespace
from seatrial.kube import Access, ApiProblem, Client
from seatrial.kube.errors import read_status
from seatrial.kube.resources import JOBS, NAMESPACES, NEVER, NODES, create
from seatrial.kube.shapes import Node, Object
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Manifest, Stack
from seatrial.model.units import parse_quantity
from seatrial.stacks import jobs
from seatrial.study.submission import Blames, Submission


async def find_out(made: Submission, stack: Stack, access: Access, blames: Blames) -> Submission:
    """The submission with its namespace; raises for everything that can be wrong on the cluster."""
    async with Client(access) as client:
        await client.probe()
        try:
            await _refuse_stack(client, made, stack)
            made = await _placed(client, made, stack)
            await _try_out(client, made, blames)
        except ApiProblem as problem:
            raise SetupProblem(problem.message, problem.remedy) from problem
    return made


async def _refuse_stack(client: Client, made: Submission, stack: Stack) -> None:
    """Without its stack every workload would wait for ever, or run without it."""
    if not made.target.cluster and stack.name != "default":
        from seatrial.clusters.attached.inspecting import refuse_stacks

        await refuse_stacks(client, {stack.name})


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


async def _try_out(client: Client, made: Submission, blames: Blames) -> None:
    """The server looks at the first Job without making it: a field that it does not know is a mistake in the template. Its
    other objections may be different for each workload, and are recorded with it."""
    workload = made.workload(0)
    job = Manifest(JOBS, workload.name, jobs.job(workload, made.labels))
    namespace = "default" if made.own_namespace else made.namespace
    for manifest in (*jobs.claim(workload, made.labels), job):
        request = create(manifest.resource, manifest.body, manifest.name, namespace)
        path = f"{request.path}?dryRun=All&fieldValidation=Strict"
        answer = await client.send(msgspec.structs.replace(request, path=path, again=NEVER))
        if answer.code in (400, 422):
            said = read_status(answer.code, answer.body).message
            if problem := blames(manifest.resource.kind, answer.code, said):
                raise problem


async def prepare(client: Client, made: Submission, stack: Stack) -> None:
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
