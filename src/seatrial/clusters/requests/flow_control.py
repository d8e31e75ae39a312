"""Creates the priority levels and flow schemas of a set-up, and waits until the server applies them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from seatrial.kube import ApiProblem, Client
from seatrial.kube.resources import Resource
from seatrial.kube.shapes import Conditioned, Object, condition
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import FlowObject, Setup

LEVELS = Resource(
    "flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False
)
SCHEMAS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False)
UPKEEP = "apf.kubernetes.io/autoupdate-spec"  # otherwise the server restores its own objects
READY_S = 30.0


async def apply(client: Client, setup: Setup, labels: Mapping[str, str]) -> None:
    """Creates levels first: a schema without its level is dangling."""
    for level in setup.priority_levels:
        await _put(client, LEVELS, level, labels)
    for schema in setup.flow_schemas:
        await _put(client, SCHEMAS, schema, labels)
    if str(setup.settings.get("kube-apiserver", {}).get("fairness", "on")) == "on":
        for schema in setup.flow_schemas:
            await _applied(client, schema)


async def _put(client: Client, resource: Resource, wanted: FlowObject, labels: Mapping[str, str]) -> None:
    metadata = {"name": wanted.name, "labels": dict(labels), "annotations": {UPKEEP: "false"}}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": dict(wanted.spec)}
    try:
        there = await client.find(resource, wanted.name, shape=Object)
        if there is None:
            await client.create(resource, body, wanted.name)
        else:
            metadata["resourceVersion"] = there.metadata.resource_version
            await client.replace(resource, body, wanted.name)
    except ApiProblem as problem:
        raise SetupProblem(
            f"{resource.kind} '{wanted.name}' could not be created: {problem.status.message or problem.message}",
            "correct it in the scenario; its fields are those of flowcontrol.apiserver.k8s.io/v1",
        ) from problem


async def _applied(client: Client, schema: FlowObject) -> None:
    until = time.monotonic() + READY_S
    while True:
        found = await client.get(SCHEMAS, schema.name, shape=Conditioned)
        said = condition(found.status.conditions, "Dangling")
        if said is not None and said.status == "False":
            return
        if time.monotonic() > until:
            why = said.message if said else "the server has not set its condition yet"
            raise SetupProblem(
                f"the server does not apply the flow schema '{schema.name}' after {READY_S:.0f} s: {why}",
                "does its priorityLevelConfiguration exist?",
            )
        await asyncio.sleep(0.1)
