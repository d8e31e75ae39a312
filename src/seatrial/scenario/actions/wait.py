"""`wait`: until workloads have reached a stage, or until created objects are in a state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field, WithJsonSchema

from seatrial.model.interfaces import Cluster, RunningTrial
from seatrial.model.lifecycle import STANDARD
from seatrial.model.plan import Phase
from seatrial.model.units import HOUR, SECOND, format_duration
from seatrial.scenario.actions.planning import Kind, Planning, WrittenPhase
from seatrial.scenario.actions.send_requests import Kinds, PhaseNames, Requests, pods_of
from seatrial.scenario.actions.submit_workloads import Submit, submits_named
from seatrial.scenario.field_types import Count, LastingDuration, ObjectName, Text, choice
from seatrial.scenario.fields import Fields, one_of

STAGES = tuple(stage.name for stage in STANDARD)
STATES = ("available", "pods-running", "pods-gone", "gone")  # of what create phases made

# Stacks bring stages of their own, like Kueue's quota_reserved: those are listed by `seatrial stacks`.
StageName = Annotated[Text, one_of("stage"), WithJsonSchema({"enum": [*STAGES, *STATES]})]


class WaitFields(Fields):
    """Wait until workloads have reached a stage, or until created objects are in a state."""

    name: ObjectName | None = Field(None, description="Name of the phase.")
    stage: StageName = Field(
        alias="for",
        description="The stage to wait for, maybe of a stack's own; or available, pods-running, pods-gone, gone.",
    )
    of: PhaseNames | None = Field(None, description="Submit or create phases to wait for; default: all so far.")
    kinds: Kinds | None = Field(None, description="For `gone`: only objects of these kinds.")
    count: Count | None = Field(None, description="This many workloads instead of all.")
    timeout: LastingDuration = Field("1h", validate_default=True, description="Timeout (default 1h).")
    otherwise: Annotated[str, choice("choice", ("end", "go-on"))] = Field(
        "end", description="On a timeout or a clog: end the trial, or note it and continue."
    )


@dataclass(frozen=True, slots=True)
class Wait(Phase):
    """Until every workload (of the phases in `of`, or of all so far) has reached `stage`.

    If that does not come about (time is up, the trial clogs), the trial ends, or with `go_on` the next step begins.
    """

    stage: str
    of: tuple[str, ...] = ()
    count: int | None = None  # this many instead of all
    timeout: int = HOUR
    go_on: bool = False
    place: str = field(default="", compare=False)  # file:line:column

    waits = True

    async def act(self, run: RunningTrial, cluster: Cluster) -> None:
        ledger = cluster.ledger
        stage = ledger.number[self.stage]
        submits = [phase for phase in run.trial.begun_with(self) if isinstance(phase, Submit)]
        wanted = [submit for submit in submits if not self.of or submit.name in self.of]
        count = sum(submit.count for submit in wanted) if self.count is None else self.count
        phases = {ledger.phase(submit.name) for submit in wanted} if self.of else None
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # why the wait failed, or empty
        listener = ledger.when(stage, phases, count, lambda: None if done.done() else done.set_result(""))
        if listener is None:
            return
        try:
            with run.waiting(done, self.go_on):
                async with asyncio.timeout(self.timeout / SECOND):
                    why = await done
            if why:
                run.note(f"{self.name}: {why.rstrip('.')}; the run continued")
        except TimeoutError:
            after = format_duration(self.timeout)
            missed = ledger.missed(stage, phases)
            reached = ledger.reached(stage, phases) - missed
            without = f", {missed} ended without" if missed else ""
            why = f"{self.name}: after {after} {reached} of {count} workloads were {self.stage}{without}"
            run.time_is_up(why, go_on=self.go_on, of_workloads=True)
        finally:
            ledger.forget(listener)


@runtime_checkable
class WatchesObjects(Protocol):
    """What a wait for created objects needs of a cluster."""

    async def until(self, until: WaitForObjects, told: Callable[[int], None]) -> None:
        """Returns when the objects are in the state; tells `told` how many are (or are left) meanwhile."""


@dataclass(frozen=True, slots=True)
class WaitForObjects(Phase):
    """Until what create phases made is in a state: `available` (Deployments), `pods-running`, `pods-gone`, `gone`."""

    state: str
    of: tuple[str, ...]
    count: int  # Deployments or pods to wait for; 0 for the states that end in `gone`
    kinds: tuple[str, ...] = ()  # for `gone`: only of these kinds
    timeout: int = HOUR
    go_on: bool = False

    needs = WatchesObjects

    async def act(self, run: RunningTrial, cluster: WatchesObjects) -> None:
        now = 0

        def told(count: int) -> None:
            nonlocal now
            now = count

        try:
            async with asyncio.timeout(self.timeout / SECOND):
                await cluster.until(self, told)
        except TimeoutError:
            gone = self.state.endswith("gone")
            found = f"{now} were not gone" if gone else f"{now} of {self.count} were {self.state}"
            run.time_is_up(f"{self.name}: after {format_duration(self.timeout)} {found}", go_on=self.go_on)


def _plan(planning: Planning, phase: WrittenPhase) -> Phase:
    return (_plan_objects if phase.fields.stage in STATES else _plan_workloads)(planning, phase)


def _plan_workloads(planning: Planning, phase: WrittenPhase) -> Wait:
    fields: WaitFields = phase.fields
    of = submits_named(planning, phase, fields.of)
    submits = planning.planned(Submit)
    total = sum(submits[name].count for name in of or submits)
    if not submits:
        planning.wrong(phase.path, "nothing is submitted before this wait", "put a submit before it")
    elif fields.count is not None and fields.count > total:
        what = f"waits for {fields.count} of {total} workloads"
        planning.wrong((*phase.path, "count"), what, f"write {total} or less")
    place = planning.source.at((*phase.path, "for"))
    return Wait(phase.name, fields.stage, of, fields.count, fields.timeout, fields.otherwise == "go-on", place)


def _plan_objects(planning: Planning, phase: WrittenPhase) -> WaitForObjects:
    fields: WaitFields = phase.fields
    created = {name: one for name, one in planning.planned(Requests).items() if one.verb == "create"}
    phases = [created[name] for name in fields.of or created if name in created]
    for number, name in enumerate(fields.of or ()):
        if name not in created:
            what = f"'{name}' creates nothing before this"
            planning.wrong((*phase.path, "of", number), what, "name a create phase")
    if not phases and not fields.of:
        planning.wrong(phase.path, "nothing is created before this wait", "put a create before it")
    count = 0
    if fields.stage in ("available", "pods-running"):
        deployments = fields.stage == "available"
        for one in phases:
            per_item = sum(
                int(manifest["kind"] == "Deployment") if deployments else pods_of(manifest) for manifest in one.objects
            )
            count += per_item * (one.count or 0)
        if phases and not count and all(one.count for one in phases):
            what = f"there will be no {'Deployments' if deployments else 'pods'} to wait for"
            planning.wrong(phase.path, what, "name another create phase, or another state")
        count = fields.count or count
    return WaitForObjects(
        phase.name, fields.stage, tuple(one.name for one in phases), count, tuple(fields.kinds or ()), fields.timeout,
        fields.otherwise == "go-on",
    )  # fmt: skip


KIND = Kind({"wait": "Wait until workloads have reached a stage."}, WaitFields, _plan)
