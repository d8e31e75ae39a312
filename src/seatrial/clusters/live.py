"""Any real API server as a cluster: submits, changes nodes, watches. `local` and `kubeconfig` add where it comes from.

Everything it makes carries the study's label, in a namespace of its own, so that it can be found and removed by that alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from seatrial import kube
from seatrial.clusters import fakes
from seatrial.clusters.application import Applications
from seatrial.clusters.fakes import CONNECTIONS
from seatrial.clusters.requests.asking import Asking
from seatrial.clusters.requests.measuring import Measuring
from seatrial.clusters.standing import state_of
from seatrial.kube import ApiProblem, Client, Lost, Unreachable, Watching, clock, watch
from seatrial.kube.config import Impersonation
from seatrial.kube.errors import read_status
from seatrial.kube.resources import LEASES, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, STRATEGIC, create
from seatrial.kube.shapes import Condition, Object, Shape, condition
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Manifest, Stack, Tally
from seatrial.model.labels import STUDY_LABEL, UNREADY_ANNOTATION
from seatrial.model.load import Load
from seatrial.model.plan import Delete, Identity, NodeGroup, Nodes, Requests, Trial, Until, Workload
from seatrial.model.state import State
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.observe import sources
from seatrial.observe.observer import Observer, Watch
from seatrial.record.ledger import Ledger
from seatrial.record.submissions import Submissions

T = TypeVar("T")

READY_WITHIN_S = 120.0
EVERY_S = 1.0  # between looks at the server and the machine while a load runs
LAG_EVERY_S = 0.05
LAG_MOST = 100 * MILLISECOND  # an event loop that is further behind stamps its own sends too late
LATE_SHARE = 0.01  # of a load of requests, whose times are percentiles; a workload has one submission
SYNC_WITHIN_S = 60.0
_NOBODY_ADMITS = "failed calling webhook"  # how the API server begins when it cannot ask a stack's webhook


@dataclass(slots=True)
class _Pace:
    """A client that sends no faster than its rate: when the next request may leave."""

    interval: int
    free: int = 0

    def slot(self, due: int) -> int:
        at = max(due, self.free)
        self.free = at + self.interval
        return at


class LiveCluster:
    """One trial on one API server. Subclasses say how to get a client (`connect`) and how to leave (`leave`)."""

    def __init__(
        self, trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, study: str, directory: Path
    ) -> None:
        self.ledger = ledger
        self.trial, self.stack = trial, stack
        self.observer = Observer(ledger)
        self.namespace = f"seatrial-{study}"
        self.labels = {STUDY_LABEL: study}
        self.deaths: list[str] = []
        self.prepared: set[Any] = set()  # kinds of what the stack needs outside our namespace
        self._submissions = submissions
        self._directory = directory
        self._asking: Asking | None = None  # where the trial has requests to send
        self._measuring: Measuring | None = None
        self._watching: list[Watching] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._lag_worst = self._lag_looks = self._lag_late = 0
        self._began_cpu = self._began_at = 0.0
        self._end: int | None = None
        self._broken: asyncio.Future[str] | None = None
        self._groups: dict[str, list[str]] = {}
        self._spans: list[dict[str, Any]] = []
        self._names: list[list[tuple[Any, str]]] = []  # per workload: what was made for it
        self._workloads: list[Workload] = []
        self._closed: set[str] = set()  # nodes that take no pods: cordoned or not ready
        self._node_groups: dict[str, NodeGroup] = {}  # per node
        self._pace = _Pace(int(SECOND / trial.setup.client.rate) if trial.setup.client.rate else 0)
        self.client: Client
        self.wall_epoch = 0

    # where it comes from: subclasses

    async def connect(self) -> Client:
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    # the interface

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.get_loop().set_exception_handler(_without_noise)
            return runner.run(main)

    def now(self) -> int:
        if self._end is not None:
            return self._end
        return clock() - self.observer.epoch if self.observer.epoch else 0

    async def up(self) -> None:
        self._broken = asyncio.get_running_loop().create_future()
        self.client = await self.connect()
        await self._make_namespace()
        self._applications = Applications(self.client, self.namespace)
        for group in self.trial.setup.nodes:
            await self._add_nodes(group)
        await self._prepare()
        if self.trial.requests():
            self._asking = Asking(
                self.trial, self.client, self.acting, self.labels, self.namespace, self._directory, self.break_off
            )
            await self.prepare_load()
            await self._asking.prepare()
        await self._watch_all()
        self.wall_epoch, self.observer.epoch = time.time_ns(), clock()
        if self._asking:
            self._asking.epoch = self.observer.epoch
        self._measuring = self.measuring()
        if self._measuring:
            self._measuring.epoch = self.observer.epoch
            self._tasks.append(asyncio.create_task(self._measuring.run()))
        for span in self._spans:
            span["from_ns"] = 0
        self._began_cpu, self._began_at = time.process_time(), time.monotonic()
        self._tasks.append(asyncio.create_task(self._measure_lag()))

    async def load(self, load: Load) -> Tally:
        phase = self.ledger.phase(load.phase)
        if load.due is None:
            first, last = await self._rounds(load, phase)
            wanted = last - first
        else:
            due = load.due.tolist()
            first, last = await self._on_time(load, phase, due)
            wanted = due[-1] if due else 0
        return Tally(load.phase, load.count, wanted, last - first)

    async def acting(self, identity: Identity, connections: int) -> Client:
        """A client of its own for an identity. Here: the user that we are, or whom that one may impersonate."""
        agent = kube.Identity(identity.name, identity.user_agent)
        if identity.user or identity.service_account:
            user = identity.user or f"system:serviceaccount:{self.namespace}:{identity.service_account}"
            agent = msgspec.structs.replace(agent, impersonate=Impersonation(user, groups=identity.groups))
        return Client(self.client.access, connections=connections, identity=agent)

    async def prepare_load(self) -> None:
        """What a set-up asks of the API server before a load; on one that is not ours nothing."""

    def measuring(self) -> Measuring | None:
        """What is looked at beside the requests: the API server's own figures, where it lets us."""
        if not self.trial.requests():
            return None
        server = Client(self.client.access, connections=1)
        return Measuring(self._directory, {"kube-apiserver": server}, dict, EVERY_S, ours=False)

    async def requests(self, phase: Requests) -> Tally:
        assert self._asking is not None
        return await self._asking.run(phase)

    async def until(self, until: Until, told: Callable[[int], None]) -> None:
        assert self._asking is not None
        await self._asking.until(until, told)

    async def nodes(self, change: Nodes) -> None:
        if change.add:
            await self._add_nodes(change.add)
            await self._prepare()
            return
        there = self._groups.get(change.group, [])
        for name in list(there[: change.count]):
            (self._closed.discard if change.change in ("uncordon", "ready") else self._closed.add)(name)
            if change.change == "remove":
                await self.client.delete(NODES, name)
                there.remove(name)
                self._node_groups.pop(name, None)
                self._end_span(change.group)
            elif change.change in ("cordon", "uncordon"):
                await self.client.patch(NODES, {"spec": {"unschedulable": change.change == "cordon"}}, name)
            else:
                await self._make_ready(name, change.change == "ready")
        if change.change == "remove":
            await self._prepare()

    async def _make_ready(self, name: str, ready: bool) -> None:
        """The mark keeps KWOK from setting the node Ready again."""
        mark = {"metadata": {"annotations": {UNREADY_ANNOTATION: None if ready else "true"}}}
        await self.client.patch(NODES, mark, name)
        status = {"status": {"conditions": [fakes.ready_condition(ready, fakes.timestamp())]}}
        await self.client.patch(NODES, status, name, how=STRATEGIC, subresource="status")

    async def delete(self, what: Delete) -> None:
        phases = {self.ledger.phase(name) for name in what.of}
        for number, phase in enumerate(self.ledger.workload_phase):
            if phase in phases:
                for resource, name in self._names[number]:
                    await self.client.delete(resource, name, self.namespace)  # gone already is fine

    def state(self) -> State:
        quota = self.stack.quota(self.trial.setup.settings, self._capacity())
        return state_of(self.now(), self.observer, self._workloads, self._node_groups, self._closed, quota, self.dead())

    def dead(self) -> list[str]:
        """What should run and does not, as far as that is ours to know."""
        return []

    def target(self) -> dict[str, Any]:
        return {}

    def node_spans(self) -> list[dict[str, Any]]:
        return [span for span in self._spans if span["count"]]

    async def broken(self) -> str:
        assert self._broken is not None
        return await self._broken

    def break_off(self, why: str) -> None:
        """The trial cannot go on."""
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(why)

    async def down(self) -> None:
        self._end = self.now()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if hasattr(self, "_applications"):
            await self._applications.stop()
        if self._asking:
            await self._asking.stop()
        if self._measuring:
            await self._measuring.finish()
        try:
            await self.leave()
        finally:
            if self._asking:
                self._asking.close()

    def sources(self) -> list[dict[str, Any]]:
        gaps = [gap.end - gap.begin for watching in self._watching for gap in watching.gaps]
        return sources.table(None, max(gaps, default=0))

    def validity(self) -> dict[str, Any]:
        wall = max(time.monotonic() - self._began_at, 1e-9)
        cpu = (time.process_time() - self._began_cpu) / wall
        created = self.ledger.counts[self.ledger.number["created"]]
        sent = len(self.ledger.workload_phase) - sum(self.observer.failures.values())
        gaps = [gap for watching in self._watching for gap in watching.gaps]
        reasons = [*self._applications.problems] if hasattr(self, "_applications") else []
        late = self._lag_late / max(self._lag_looks, 1)
        if late > (LATE_SHARE if self._asking else 0):
            reasons.append(f"the client's event loop was up to {self._lag_worst / 1e6:.0f} ms late")
        if any(gap.missed for gap in gaps):
            reasons.append(f"watches missed events in {sum(gap.missed for gap in gaps)} gaps")
        if created < sent:
            reasons.append(f"{sent} workloads were created and only {created} were seen")
        if cpu > 0.9:
            reasons.append(f"the client used {cpu:.0%} of a core: it may have been the bottleneck")
        refused = self._measuring.refused if self._measuring else {}
        return {
            "reasons": reasons,
            "refused": self._asking.notes() if self._asking else [],
            "not_measured": [f"{name} does not show its metrics ({why})" for name, why in refused.items()],
            "loop_lag_worst_ms": self._lag_worst / 1e6,
            "client_cpu": round(cpu, 4),
            "objects_created": sent,
            "objects_seen": created,
            "not_submitted": self.observer.failures,
            "deaths": self.deaths,
            "watches": [
                {"resource": w.resource, "events": w.events, "relists": w.relists, "lag_worst_ms": w.lag_worst / 1e6,
                 "gaps": [{"from_s": (g.begin - self.observer.epoch) / 1e9, "to_s": (g.end - self.observer.epoch) / 1e9,
                           "reason": g.reason, "missed": g.missed} for g in w.gaps]}
                for w in self._watching
            ],
        }  # fmt: skip

    # submitting

    async def _on_time(self, load: Load, phase: int, due: list[int]) -> tuple[int, int]:
        """Each item when it is due, answered or not; without due times as fast as the connections allow."""
        start = clock()
        slots = asyncio.Semaphore(CONNECTIONS * 4)  # encoded ahead, so that no connection waits for us
        sent: list[int] = []
        async with asyncio.TaskGroup() as group:
            for index in range(load.count):
                at = self._pace.slot(start + due[index])
                wait = at - clock()
                if wait > 0:
                    await asyncio.sleep(wait / SECOND)
                await slots.acquire()
                task = group.create_task(self._submit(load.item(index), phase, sent))
                task.add_done_callback(lambda _: slots.release())
        return min(sent, default=start), max(sent, default=start)

    async def _rounds(self, load: Load, phase: int) -> tuple[int, int]:
        sent: list[int] = []
        for first in range(0, load.count, load.pace.size):
            began = clock()
            async with asyncio.TaskGroup() as group:
                for index in range(first, min(first + load.pace.size, load.count)):
                    group.create_task(self._submit(load.item(index), phase, sent))
            rest = began + load.pace.every - clock()
            if rest > 0 and first + load.pace.size < load.count:
                await asyncio.sleep(rest / SECOND)
        return min(sent, default=0), max(sent, default=0)

    async def _submit(self, workload: Workload, phase: int, sent: list[int]) -> None:
        """The workload is known before its request leaves: the watch may be faster than the answer."""
        number = self.ledger.workload(phase, workload.pods)
        self.observer.workloads[workload.name] = number
        self._workloads.append(workload)
        if workload.gang:
            self._applications.joins(number, workload)
        manifests = self.stack.render(workload, self.labels)
        self._names.append([(manifest.resource, manifest.name) for manifest in manifests])
        now = clock()
        sent.append(now)
        self.observer.workload(workload.name, "submitted", now, sources.CLIENT)
        why = ""
        for manifest in manifests:
            request = create(manifest.resource, manifest.body, manifest.name, self.namespace, keep=False)
            try:
                answer = await self.client.send(request)
            except (Lost, Unreachable) as error:
                why = error.message
                break
            if not answer.ok:
                why = read_status(answer.code, answer.body).message or answer.reason
                break
        self._submissions.add(number, workload, now - self.observer.epoch)
        self._submissions.flush()
        if why:
            self.observer.failures[why] = self.observer.failures.get(why, 0) + 1
            if _NOBODY_ADMITS in why:  # no fault of the workload's: it is not over, somebody else does not act
                self.observer.trouble(f"workloads are refused: {why}")
            else:
                self.observer.workload(workload.name, "failed", clock(), sources.CLIENT)

    # set-up

    async def _make_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": self.labels}}
        await self.client.create(NAMESPACES, body, self.namespace)
        await self._until(self._has_service_account, "the namespace got no default service account",
                          "is the controller manager running?")  # fmt: skip

    async def _has_service_account(self) -> bool:
        return await self.client.find(SERVICE_ACCOUNTS, "default", self.namespace, shape=Object) is not None

    async def _prepare(self) -> None:
        """What the stack needs beside its processes: created, or brought up to date where it is there already. Its
        controller may need a moment before its webhooks answer."""
        for manifest in self.stack.prepare(self.trial.setup.settings, self._capacity(), self.labels, self.namespace):
            await self._apply(manifest)
            if manifest.until:
                await self._until(partial(self._holds, manifest), f"{manifest.name} is not {manifest.until}",
                                  f"look into the log of the stack '{self.stack.name}'")  # fmt: skip

    async def _holds(self, manifest: Manifest) -> bool:
        namespace = self.namespace if manifest.resource.namespaced else ""
        found = await self.client.find(manifest.resource, manifest.name, namespace, shape=_Conditioned)
        said = condition(found.status.conditions, manifest.until) if found else None
        return said is not None and said.status == "True"

    def _capacity(self) -> dict[str, int]:
        """What the nodes that are there have in all."""
        capacity: dict[str, int] = {}
        for span in self._spans:
            for resource, amount in span["capacity"].items() if span["until_ns"] is None else ():
                capacity[resource] = capacity.get(resource, 0) + amount * span["count"]
        return capacity

    async def _apply(self, manifest: Manifest) -> None:
        resource = manifest.resource
        namespace = self.namespace if resource.namespaced else ""
        if not resource.namespaced:
            self.prepared.add(resource)
        until = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                # A create of what we have made before would count as done: it carries our mark.
                there = await self.client.find(resource, manifest.name, namespace, shape=Object)
                if there and there.metadata.labels.get(STUDY_LABEL) != self.labels[STUDY_LABEL]:
                    raise SetupProblem(
                        f"there is a {resource.kind} {manifest.name} that is not ours",
                        "Remove it, or choose another cluster.",
                    )
                if there:
                    await self.client.patch(resource, {"spec": manifest.body.get("spec")}, manifest.name, namespace)
                else:
                    await self.client.create(resource, manifest.body, manifest.name, namespace)
                return
            except ApiProblem as problem:
                if problem.code < 500 or time.monotonic() > until:  # 500: a webhook that nobody answers
                    raise SetupProblem(
                        f"{resource.kind} {manifest.name} could not be made: {problem.message}",
                        f"Is the controller of the stack '{self.stack.name}' well? Its log says more.",
                    ) from problem
            await asyncio.sleep(0.1)

    async def _add_nodes(self, group: NodeGroup) -> None:
        """At full client speed; over when KWOK has taken them on."""
        names = self._groups.setdefault(group.name, [])
        added = await fakes.create(self.client, group, len(names), self.labels)
        for name in added:
            self.observer.node(name)
            self._node_groups[name] = group
        names += added
        capacity = dict(group.capacity)
        self._spans.append(
            {"group": group.name, "count": group.count, "capacity": capacity, "from_ns": self.now(), "until_ns": None}
        )
        await self._until(self._all_leased, "KWOK has not taken on all nodes", "look into its log")

    async def _all_leased(self) -> bool:
        """KWOK plays only nodes whose lease it holds."""
        leases = await self.client.list(LEASES, "kube-node-lease", shape=_Lease, resourceVersion="0")
        held = {lease.metadata.name for lease in leases.items if lease.spec.holder_identity}
        return all(name in held for names in self._groups.values() for name in names)

    async def _until(self, holds: Any, what: str, remedy: str) -> None:
        until = time.monotonic() + READY_WITHIN_S
        while not await holds():
            if time.monotonic() > until:
                raise SetupProblem(f"{what} within {READY_WITHIN_S:.0f} s", remedy)
            await asyncio.sleep(0.05)

    def _end_span(self, group: str) -> None:
        span = next(s for s in self._spans if s["group"] == group and s["until_ns"] is None and s["count"])
        span["count"] -= 1
        self._spans.append({**span, "count": 1, "until_ns": self.now()})

    # watching

    async def _watch_all(self) -> None:
        selector = ",".join(f"{key}={value}" for key, value in self.labels.items())
        for wanted in self.stack.watches():
            state = Watching(wanted.resource.plural)
            self._watching.append(state)
            self._tasks.append(asyncio.create_task(self._watch(wanted, state, selector)))
        until = time.monotonic() + SYNC_WITHIN_S
        while not all(state.since for state in self._watching):
            failed = [task for task in self._tasks if task.done()]
            if failed or time.monotonic() > until:
                raise SetupProblem("the watches did not begin", "is the API server overloaded?")
            await asyncio.sleep(0.005)

    async def _watch(self, wanted: Watch, state: Watching, selector: str) -> None:
        pods = wanted.resource == PODS

        def handle(stamp: int, event: str, thing: Any) -> None:
            if thing is not None:
                wanted.handle(self.observer, stamp, event, thing)
                if pods:
                    self.ledger.stirred = stamp - self.observer.epoch
                    self._applications.sees(event, thing)

        try:
            await watch(
                self.client, wanted.resource, wanted.shape, handle, state=state,
                namespace=self.namespace if wanted.resource.namespaced else "",
                labelSelector=selector if wanted.labelled else "",
            )  # fmt: skip
        except (ApiProblem, Lost, Unreachable) as error:
            self.break_off(f"the watch of {wanted.resource.plural} ended: {error}")

    async def _measure_lag(self) -> None:
        while True:
            due = clock() + int(LAG_EVERY_S * SECOND)
            await asyncio.sleep(LAG_EVERY_S)
            lag = clock() - due
            self._lag_worst = max(self._lag_worst, lag)
            self._lag_looks += 1
            self._lag_late += lag > LAG_MOST
            self.ledger.flush()

    async def remove_all(self) -> None:
        """What this trial made, on a cluster that stays."""
        with contextlib.suppress(ApiProblem):
            await self.client.delete(NAMESPACES, self.namespace)
        for names in self._groups.values():
            for name in names:
                await self.client.delete(NODES, name)
        if self._asking:
            await self._asking.remove()
        for resource in self.prepared:
            await self.client.delete_collection(resource, labelSelector=f"{STUDY_LABEL}={self.labels[STUDY_LABEL]}")


def _without_noise(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """uvloop complains with a traceback of its own when a connection is given up during its TLS handshake."""
    if not str(context.get("message", "")).startswith("Fatal error on SSL protocol"):
        loop.default_exception_handler(context)


class _Conditions(Shape):
    conditions: list[Condition] = msgspec.field(default_factory=list)


class _Conditioned(Object):
    status: _Conditions = msgspec.field(default_factory=_Conditions)


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str = ""


class _Lease(Object):
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)
