"""Before a submission: is the cluster there, has it the stack and the namespace, does the API server accept the template?"""

from __future__ import annotations

import dataclasses

import msgspec

from seatrial.clusters.access.applying import apply, make_namespace
from seatrial.kube import Access, ApiProblem, Client
from seatrial.kube.api_errors import read_status
from seatrial.kube.resources import JOBS, NAMESPACES, NEVER, NODES, create
from seatrial.kube.shapes import Node, Object
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Manifest, Stack
from seatrial.model.units import parse_quantity
from seatrial.stacks import job_objects
from seatrial.study.submission import Blames, Submission


async def checked(made: Submission, stack: Stack, access: Access, blames: Blames) -> Submission:
    """The submission with its namespace; raises for all that is wrong on the cluster."""
    async with Client(access) as client:
        await client.probe()
        try:
            await _refuse_stack(client, made, stack)
            made = await _placed(client, made, stack)
            await _dry_run(client, made, blames)
        except ApiProblem as problem:
            raise SetupProblem(problem.message, problem.remedy) from problem
    return made


async def _refuse_stack(client: Client, made: Submission, stack: Stack) -> None:
    """Without its stack, workloads would wait for ever, or run unmanaged."""
    if not made.target.cluster:
        from seatrial.clusters.attached.preflight import refuse_stacks

        await refuse_stacks(client, {stack.name: stack.real.signs})


async def _placed(client: Client, made: Submission, stack: Stack) -> Submission:
    """In the existing namespace or queue that `--project` names, or in a namespace of its own."""
    queue = stack.real.queue()
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
        raise SetupProblem(what, f"there are {known}; write NAMESPACE/NAME" if known else f"create a {kind.kind} first")
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
            return  # not allowed to look; the answers to the workloads will tell
        raise
    if there is None:
        raise SetupProblem(
            f"there is no namespace '{namespace}' for --project",
            f"create it (`kubectl create namespace {namespace}`), or omit --project: the study creates its own",
        )


async def _dry_run(client: Client, made: Submission, blames: Blames) -> None:
    """Sends the first Job as a dry run: an unknown field is a mistake in the template. Other objections may differ between
    workloads and are recorded with each."""
    workload = made.workload(0)
    job = Manifest(JOBS, workload.name, job_objects.job(workload, made.labels))
    namespace = "default" if made.own_namespace else made.namespace
    for manifest in (*job_objects.claim(workload, made.labels), job):
        request = create(manifest.resource, manifest.body, manifest.name, namespace)
        path = f"{request.path}?dryRun=All&fieldValidation=Strict"
        answer = await client.send(msgspec.structs.replace(request, path=path, if_lost=NEVER))
        if answer.code in (400, 422):
            said = read_status(answer.code, answer.body).message
            if problem := blames(manifest.resource.kind, answer.code, said):
                raise problem


async def prepare(client: Client, made: Submission, stack: Stack) -> None:
    """Creates or updates the study's own namespace and queue; those of a project are left as they are."""
    if not made.own_namespace:
        return
    try:
        await make_namespace(client, made.namespace, made.labels)
        wanted = stack.real.prepare(made.trial.setup, await _capacity(client, stack), made.labels, made.namespace)
        await apply(client, wanted, made.namespace, made.study, stack.name)
    except ApiProblem as problem:
        raise SetupProblem(
            problem.message, f"{problem.remedy}; or name a namespace that you may write to with --project"
        ) from problem


async def _capacity(client: Client, stack: Stack) -> dict[str, int]:
    """Quota of the study's own queue: the capacity of all schedulable nodes."""
    capacity: dict[str, int] = {}
    if stack.real.queue() is not None:
        for node in (await client.list(NODES, shape=Node)).items:
            for name, text in node.status.allocatable.items() if not node.spec.unschedulable else ():
                capacity[name] = capacity.get(name, 0) + parse_quantity(text, name)
    return capacity
