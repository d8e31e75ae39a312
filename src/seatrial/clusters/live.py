"""Any real API server as a cluster: submits, changes nodes, watches. `local` and `kubeconfig` add where it comes from.

Everything it makes carries the study's label, in a namespace of its own, so that it can be found and removed by that alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from seatrial import kube
from seatrial.clusters import fakes, priorities, refusals
from seatrial.clusters.application import Applications
from seatrial.clusters.fakes import CONNECTIONS
from seatrial.clusters.lateness import Lateness
from seatrial.clusters.preparing import apply, make_namespace, until
from seatrial.clusters.priority import USUAL, ahead
from seatrial.clusters.requests.asking import Asking
from seatrial.clusters.requests.measuring import Measuring
from seatrial.clusters.requests.permitting import Permits
from seatrial.clusters.roster import Roster
from seatrial.clusters.standing import state_of
from seatrial.clusters.submitting import Api, Command, Limit, NoVerdict, Through, in_rounds, values_of
from seatrial.kube import ApiProblem, Client, Lost, Unreachable, Watching, clock
from seatrial.kube.config import Impersonation
from seatrial.kube.resources import CLUSTER_ROLE_BINDINGS, NAMESPACES, NODES, PODS, STRATEGIC
from seatrial.model.doubts import RATES, TIMES, Doubt
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Stack, Tally
from seatrial.model.labels import STUDY_LABEL, UNREADY_ANNOTATION
from seatrial.model.load import Load, latest
from seatrial.model.plan import Delete, Identity, NodeGroup, Nodes, Requests, Trial, Until, Workload
from seatrial.model.settings import own
from seatrial.model.state import State, WorkloadState
from seatrial.observe import sources
from seatrial.observe.following import follow
from seatrial.observe.observer import Observer, Watch
from seatrial.record.gaps import BEAT, Gaps, Line
from seatrial.record.ledger import Ledger
from seatrial.record.submissions import Submissions

T = TypeVar("T")

EVERY_S = 1.0  # between looks at the server and the machine while a load runs
SYNC_WITHIN_S = 60.0
_NOBODY_ADMITS = "failed calling webhook"  # how the API server begins when it cannot ask a stack's webhook


class LiveCluster:
    """One trial on one API server. Subclasses say how to get a client (`connect`) and how to leave (`leave`)."""

    plays = True  # the applications on its fake nodes; not where somebody else does
    preempts = True  # pods of a higher priority evict others: not where these may be somebody else's

    def __init__(
        self, trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, study: str, directory: Path
    ) -> None:
        self.ledger = ledger
        self.trial, self.stack = trial, stack
        self.observer = Observer(ledger)
        self.namespace = f"seatrial-{study}"
        self.labels = {STUDY_LABEL: study}
        self._gaps = Gaps(ledger.segment.directory, ledger.segment.writer)
        self.deaths: list[str] = []  # of components that we started
        self.mishaps: list[str] = []  # what went wrong when it left
        self.prepared: set[Any] = set()  # kinds of what the stack needs outside our namespace
        self._submissions = submissions
        self._directory = directory
        self._asking: Asking | None = None  # where the trial has requests to send
        self._measuring: Measuring | None = None
        self._problems: list[str] = []  # of what we play
        self._applications: Applications | None = None
        self._watching: list[Watching] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._lateness = Lateness()
        self._priority = USUAL
        self._end: int | None = None
        self._broken: asyncio.Future[str] | None = None
        self._roster: Roster[str] = Roster(self.now)
        self._names: list[list[tuple[Any, str]]] = []  # per workload: what was made for it
        self._workloads: list[Workload] = []
        self._closed: set[str] = set()  # nodes that take no pods: cordoned or not ready
        self._node_groups: dict[str, NodeGroup] = {}  # per node
        self._limit = Limit.of(trial.setup.client.rate)
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

        with ahead() as self._priority, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.get_loop().set_exception_handler(_without_noise)
            return runner.run(main)

    def now(self) -> int:
        if self._end is not None:
            return self._end
        return clock() - self.observer.epoch if self.observer.epoch else 0

    async def up(self) -> None:
        self._broken = asyncio.get_running_loop().create_future()
        self.client = await self.connect()
        await make_namespace(self.client, self.namespace, self.labels)
        await self._make_priority_classes()
        self._through = self._way()
        self._applications = Applications(self.client, self._problems.append) if self.plays else None
        for group in self.trial.setup.nodes:
            await self._add_nodes(group)
        await self._prepare()
        if self.trial.requests():
            self._permits = Permits(self.client, self.namespace, self.labels)
            self._asking = Asking(
                self.trial, self.client, self.acting, self.labels, self.namespace, self._directory, self.break_off,
                self.prepared,
            )  # fmt: skip
            await self.prepare_load()
            await self._asking.prepare()
        await self._watch_all()
        self.wall_epoch, self.observer.epoch = time.time_ns(), clock()
        self.observer.wall_epoch = self.wall_epoch
        if self._asking:
            self._asking.epoch = self.observer.epoch
        self._measuring = self.measuring()
        if self._measuring:
            self._measuring.epoch = self.observer.epoch
            self._tasks.append(asyncio.create_task(self._measuring.run()))
        self._roster.begin()
        self._tasks.append(asyncio.create_task(refusals.listen(self.client, self.observer, self.namespace)))
        self._lateness = Lateness()
        self._tasks.append(asyncio.create_task(self._beat()))

    async def load(self, load: Load) -> Tally:
        phase = self.ledger.phase(load.phase)
        if not load.count:
            return Tally(load.phase, 0, 0, 0)
        if load.due is None:
            sent = await self._rounds(load, phase)
            return Tally(load.phase, load.count, max(sent) - min(sent), max(sent) - min(sent))
        start = clock()
        sent = await self._on_time(load, phase, [start + due for due in load.due.tolist()])
        late = latest(load.due, [at - start for at in sent])
        return Tally(load.phase, load.count, int(load.due[-1]), max(sent) - min(sent), late)

    async def acting(self, identity: Identity, connections: int) -> Client:
        """A client of its own for an identity, which may do everything there."""
        if user := self.user_of(identity):
            namespaces = self.permitted()
            if not namespaces:
                self.prepared.add(CLUSTER_ROLE_BINDINGS)
            await self._permits.give(user, namespaces)
        return await self.client_as(identity, connections)

    def permitted(self) -> Sequence[str]:
        """The namespaces in which identities of a load may do everything; none: the whole cluster, for that is ours."""
        return ()

    def user_of(self, identity: Identity) -> str:
        """Whom the server takes it for; empty where that is whoever we are."""
        account = identity.service_account
        return identity.user or (f"system:serviceaccount:{self.namespace}:{account}" if account else "")

    async def client_as(self, identity: Identity, connections: int) -> Client:
        """Here we impersonate."""
        agent = kube.Identity(identity.name, identity.user_agent)
        if user := self.user_of(identity):
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

    @property
    def load_namespaces(self) -> Sequence[str]:
        return self._asking.namespaces if self._asking else ()

    def sent(self) -> int:
        return self._asking.sent if self._asking else 0

    async def until(self, until: Until, told: Callable[[int], None]) -> None:
        assert self._asking is not None
        await self._asking.until(until, told)

    async def nodes(self, change: Nodes) -> None:
        if change.add:
            await self._add_nodes(change.add)
            await self._prepare()
            return
        for name in self._roster.of(change.group)[: change.count]:
            (self._closed.discard if change.change in ("uncordon", "ready") else self._closed.add)(name)
            if change.change == "remove":
                await self.client.delete(NODES, name)
                self._node_groups.pop(name, None)
                self._roster.remove(change.group, name)
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
        quota = self.stack.quota(self.trial.setup.settings, self._roster.capacity())
        return state_of(self.now(), self.observer, self._workloads, self._node_groups, self._closed, quota, self.dead())

    def unfinished(self) -> tuple[WorkloadState, ...]:
        return self.state().workloads

    def at_rest(self) -> bool:
        return False

    def dead(self) -> list[str]:
        """What should run and does not, as far as that is ours to know."""
        return []

    def target(self) -> dict[str, Any]:
        return {}

    def node_spans(self) -> list[dict[str, Any]]:
        return self._roster.spans()

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
        self._gaps.remove()  # those of a trial that ended in order are part of its validity
        if self._applications:
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
        created = self.ledger.counts[self.ledger.number["created"]]
        sent = len(self.ledger.workload_phase) - sum(self.observer.failures.values())
        gaps = [gap for watching in self._watching for gap in watching.gaps]
        reasons = [Doubt(problem) for problem in self._problems]
        reasons += [Doubt(f"{death}: times include its absence", (TIMES, RATES)) for death in self.deaths]
        reasons += self._lateness.reasons(self._asking.mean_ns() if self._asking else None)
        if any(gap.missed for gap in gaps):
            missed = f"watches missed events in {sum(gap.missed for gap in gaps)} gaps"
            reasons.append(Doubt(missed, (TIMES, RATES)))  # after a gap a list says what is so, if not since when
        if created < sent:
            reasons.append(Doubt(f"{sent} workloads were created and only {created} were seen"))
        refused = self._measuring.refused if self._measuring else {}
        return {
            "reasons": reasons,
            "refused": self._asking.notes() if self._asking else [],
            "not_measured": [f"{name} does not show its metrics ({why})" for name, why in refused.items()],
            "loop_lag_worst_ms": self._lateness.worst / 1e6,
            "loop_lag_mean_ms": round(self._lateness.mean / 1e6, 3),
            "client_cpu": round(self._lateness.cpu, 4),
            "client_priority": self._priority,
            "objects_created": sent,
            "objects_seen": created,
            "not_submitted": self.observer.failures,
            "deaths": [*self.deaths, *self.mishaps],
            "watches": [
                {"resource": w.resource, "events": w.events, "relists": w.relists, "lag_worst_ms": w.lag_worst / 1e6,
                 "gaps": [{"from_s": (g.begin - self.observer.epoch) / 1e9, "to_s": (g.end - self.observer.epoch) / 1e9,
                           "reason": g.reason, "missed": g.missed} for g in w.gaps]}
                for w in self._watching
            ],
        }  # fmt: skip

    # submitting

    def kubeconfig(self) -> str:
        """The file that a command of the user's may submit with; empty: the usual one."""
        return self.trial.target.kubeconfig

    def _way(self) -> Through:
        command = str(own(self.trial.setup.settings, "submit", "command"))
        if not command:
            return Api(self.client, self.namespace)
        return Command(command, self.client, self.namespace, values_of(self.kubeconfig(), self.client.access.context))

    async def _on_time(self, load: Load, phase: int, due: list[int]) -> list[int]:
        """Each item when it is due, answered or not; without due times as fast as the connections allow."""
        slots = asyncio.Semaphore(CONNECTIONS * 4)  # encoded ahead, so that no connection waits for us
        sent: list[int] = []
        async with asyncio.TaskGroup() as group:
            for index in range(load.count):
                await self._limit.turn(due[index])
                await slots.acquire()
                task = group.create_task(self._submit(load.item(index), phase, sent))
                task.add_done_callback(lambda _: slots.release())
        return sent

    async def _rounds(self, load: Load, phase: int) -> list[int]:
        sent: list[int] = []
        send = lambda index: self._submit(load.item(index), phase, sent)  # noqa: E731
        await in_rounds(range(load.count), load.pace, self._limit, send)
        return sent

    async def _submit(self, workload: Workload, phase: int, sent: list[int]) -> None:
        """The workload is known before its request leaves: the watch may be faster than the answer."""
        number = self.ledger.workload(phase, workload.pods)
        self.observer.workloads[workload.name] = number
        self._workloads.append(workload)
        if workload.interactive:
            self.observer.interactive.add(workload.name)
        manifests = self.stack.render(workload, self.labels)
        self._names.append([(manifest.resource, manifest.name) for manifest in manifests])
        now = clock()
        sent.append(now)
        self.observer.workload(workload.name, "submitted", now, sources.CLIENT)
        try:
            why = (await self._through.send(workload, manifests)).refused
        except (Lost, Unreachable, NoVerdict) as error:
            why = error.message
        self._submissions.add(number, workload, now - self.observer.epoch, why)
        self._submissions.flush()
        if why:
            self.observer.failures[why] = self.observer.failures.get(why, 0) + 1
            if _NOBODY_ADMITS in why:  # no fault of the workload's: it is not over, somebody else does not act
                self.observer.trouble(f"workloads are refused: {why}")
            else:
                self.observer.workload(workload.name, "failed", clock(), sources.CLIENT)

    # set-up

    async def _make_priority_classes(self) -> None:
        wanted = priorities.classes(self.trial, self.labels, preempt=self.preempts)
        self.prepared |= {manifest.resource for manifest in wanted}
        await apply(self.client, wanted, self.namespace, self.labels[STUDY_LABEL], self.stack.name)

    async def _prepare(self) -> None:
        """What the stack needs beside its processes."""
        wanted = self.stack.prepare(self.trial.setup.settings, self._roster.capacity(), self.labels, self.namespace)
        self.prepared |= {manifest.resource for manifest in wanted if not manifest.resource.namespaced}
        await apply(self.client, wanted, self.namespace, self.labels[STUDY_LABEL], self.stack.name)

    async def _add_nodes(self, group: NodeGroup) -> None:
        """At full client speed; over when KWOK has taken them on."""
        added = await self._make_nodes(group, len(self._roster.of(group.name)))
        for name in added:
            self.observer.node(name)
            self._node_groups[name] = group
        self._roster.add(group.name, added, group.capacity)
        await until(self._all_leased, "KWOK has not taken on all nodes", "look into its log")

    async def _make_nodes(self, group: NodeGroup, first: int) -> list[str]:
        return await fakes.create(self.client, group, first, self.labels, there=len(self._node_groups))

    async def _all_leased(self) -> bool:
        return await fakes.leased(self.client, self._roster.made())

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
        def pod_seen(stamp: int, event: str, pod: Any) -> None:
            if self._applications:
                self._applications.sees(event, pod)
            if pod is not None:
                self.ledger.stirred = stamp - self.observer.epoch

        also = pod_seen if wanted.resource == PODS else None
        try:
            await follow(
                self.client, wanted, self.observer, state, also=also, namespace=self.namespace, selector=selector
            )
        except (ApiProblem, Lost, Unreachable) as error:
            self.break_off(f"the watch of {wanted.resource.plural} ended: {error}")

    async def _beat(self) -> None:
        """Writes what was seen, and says once a second that we watch: should we be killed, nobody else could."""
        said = 0
        while True:
            self.observer.alive = now = await self._lateness.look()
            self.ledger.flush()
            if now - said >= BEAT and not any(state.silent for state in self._watching):
                said = now
                self._gaps.add(Line(well_ns=now - self.observer.epoch))

    async def remove_all(self) -> None:
        """What this trial made, on a cluster that stays."""
        with contextlib.suppress(ApiProblem):
            await self.client.delete(NAMESPACES, self.namespace)
        if self._asking:
            await self._asking.remove()
        for resource in (NODES, *self.prepared):
            await self.client.delete_collection(resource, labelSelector=f"{STUDY_LABEL}={self.labels[STUDY_LABEL]}")


def _without_noise(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """uvloop complains with a traceback of its own when a connection is given up during its TLS handshake."""
    if not str(context.get("message", "")).startswith("Fatal error on SSL protocol"):
        loop.default_exception_handler(context)
