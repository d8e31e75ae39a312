"""`delete`: deletes the workloads of submit phases, finished or not; objects of create phases are deleted by requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from seatrial.model.interfaces import RunningTrial
from seatrial.model.plan import Phase
from seatrial.scenario.actions import send_requests
from seatrial.scenario.actions.planning import Kind, Planning, WrittenPhase
from seatrial.scenario.actions.send_requests import RequestsFields
from seatrial.scenario.actions.submit_workloads import submits_named


@runtime_checkable
class DeletesWorkloads(Protocol):
    """What `delete` needs of a cluster."""

    async def delete(self, what: DeleteWorkloads) -> None:
        """Deletes their remaining workloads."""


@dataclass(frozen=True, slots=True)
class DeleteWorkloads(Phase):
    """Deletes the workloads of the submit phases in `of`."""

    of: tuple[str, ...]

    needs = DeletesWorkloads

    async def act(self, run: RunningTrial, cluster: DeletesWorkloads) -> None:  # noqa: ARG002
        await cluster.delete(self)


def _plan(planning: Planning, phase: WrittenPhase) -> Phase:
    fields: RequestsFields = phase.fields
    if all(name in planning.named("create") for name in fields.of or ()):
        return send_requests.plan(planning, phase)
    return DeleteWorkloads(phase.name, submits_named(planning, phase, fields.of))


KIND = Kind(
    {"delete": "Delete workloads or objects."},
    RequestsFields,
    _plan,
    send_requests.names,
    send_requests.contradictions,
)
