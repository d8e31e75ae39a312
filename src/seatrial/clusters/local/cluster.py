"""A trial on a real control plane of this machine: fresh for the trial, gone after it.

A fresh one costs seconds, and leftovers of an earlier trial change results. What the components measured of themselves is kept
in the trial's directory, and what they logged if one died or work was left; the audit log is read into the observations and goes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import ssl
import urllib.request
import zlib
from pathlib import Path
from typing import Any

import msgspec

from seatrial import kube
from seatrial.clusters import fakes
from seatrial.clusters.fakes import CONNECTIONS
from seatrial.clusters.live import EVERY_S, LiveCluster
from seatrial.clusters.local import kept, told
from seatrial.clusters.local.components import Wish, for_fake_nodes
from seatrial.clusters.local.pki import WEBHOOKS
from seatrial.clusters.local.plane import LocalControlPlane
from seatrial.clusters.local.supervisor import Death
from seatrial.clusters.playing import bind_claims
from seatrial.clusters.requests import flows
from seatrial.clusters.requests.asking import all_identities
from seatrial.clusters.requests.holding import Webhook, configuration
from seatrial.clusters.requests.measuring import Measuring
from seatrial.kube import Access, Client, Mark, access_from
from seatrial.kube.resources import SERVICE_ACCOUNTS, create
from seatrial.model import control_plane, plan
from seatrial.model.control_plane import ControlPlane, Override
from seatrial.model.doubts import COUNTS, RATES, Doubt
from seatrial.model.errors import SeatrialError
from seatrial.model.interfaces import Stack
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import NodeGroup, Part, Trial
from seatrial.observe import audit, sources
from seatrial.record import requests
from seatrial.record.ledger import Ledger
from seatrial.record.requests import RequestLog
from seatrial.record.submissions import Submissions

SCRAPED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
SCRAPE_EVERY_S = 15.0
TOKEN_S = 24 * 3600
LAST_LINES = 3  # of a dead component's log in a diagnosis; all of it is kept in the trial's directory
PROFILE_S = 2  # a stretch that is cut off by the end of the trial is lost


class _TokenStatus(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


class LocalCluster(LiveCluster):
    """A control plane of the trial's own."""

    def __init__(self, trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path) -> None:
        super().__init__(trial, stack, ledger, submissions, "trial", directory)
        self._agreement: audit.Agreement | None = None
        self._webhook: Webhook | None = None
        self._counted: dict[str, Any] | None = None
        self._heartbeats: dict[str, Any] | None = None
        self._known: dict[str, Access] = {}  # identities of the load that have a certificate
        whose = str(trial.setup.settings.get("kube-apiserver", {}).get("audit", "components"))
        self._audited = whose == "all"
        self._load = told.users(all_identities(trial.requests()), self.namespace)
        logged = [*told.COMPONENTS, *({user for user, _ in self._load} if self._audited else ())]
        wish = Wish(
            settings=trial.setup.settings,
            stages=fakes.stages(trial.node_groups()),
            audit=whose != "off",
            audit_policy=audit.policy(*stack.created_as, users=logged if trial.requests() else ()),
            overrides={name: _override(part) for name, part in trial.setup.components.items()},
        )
        binaries = Path(trial.target.binaries) if trial.target.binaries else None
        self._plane = LocalControlPlane(wish=wish, amend=self._amend, binaries=binaries, died=self._died)

    def _amend(self, plane: ControlPlane) -> ControlPlane:
        amended: ControlPlane = self.stack.amend(for_fake_nodes(plane), self.trial.setup.settings)
        return amended

    async def connect(self) -> Client:
        await self._plane.up()
        access = access_from(self._plane.kubeconfig())
        client = Client(access, connections=CONNECTIONS, mark=Mark(STUDY_LABEL, self.labels[STUDY_LABEL]))
        self._tasks.append(asyncio.create_task(bind_claims(client, self._problems.append)))
        for component in self.trial.target.profile:
            self._tasks.append(asyncio.create_task(self._profile(component)))
        return client

    def kubeconfig(self) -> str:
        return str(self._plane.kubeconfig())

    async def prepare_load(self) -> None:
        """Flow objects of the set-up, and the webhook that holds its writes."""
        await flows.apply(self.client, self.trial.setup, self.labels)
        delay = self.trial.setup.delay
        if delay is None:
            return
        layout = self._plane.layout
        self._webhook = Webhook(delay.duration, layout.certificate(WEBHOOKS), layout.key(WEBHOOKS))
        await self._webhook.start()
        phases = delay.of or tuple(phase.name for phase in self.trial.requests() if phase.verb == "create")
        users = sorted({user for user, _ in self._load})
        body = configuration(delay, self._webhook.port, layout.ca.read_bytes(), self.labels, phases, users)
        await self.client.create(
            await self.client.resource_of(body["apiVersion"], body["kind"]), body, body["metadata"]["name"]
        )

    async def client_as(self, identity: plan.Identity, connections: int) -> Client:
        """With a certificate of its own, or a token."""
        agent = kube.Identity(identity.name, identity.user_agent)
        access = self.client.access
        if identity.service_account:
            access = access.with_token(await self._token(identity.service_account))
        elif identity.user:
            known = f"load-{zlib.crc32(repr((identity.user, identity.groups)).encode()):08x}"
            if known not in self._known:
                one = control_plane.Identity(known, identity.user, identity.groups)
                self._known[known] = access_from(self._plane.add_identity(one))
            access = self._known[known]
        return Client(access, connections=connections, identity=agent)

    async def _token(self, name: str) -> str:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "labels": self.labels}}
        await self.client.create(SERVICE_ACCOUNTS, account, name, self.namespace)
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                  "spec": {"expirationSeconds": TOKEN_S}}  # fmt: skip
        request = create(SERVICE_ACCOUNTS, wanted, name, self.namespace, subresource="token")
        return (await self.client.ask(request, _TokenRequest)).status.token

    def _died(self, death: Death) -> None:
        self.deaths.append(str(death))
        if not death.restarting:
            self.break_off(str(death))

    def dead(self) -> list[str]:
        """With how it ended and its last words; one that is being restarted counts until it runs."""
        missing = {component.name for component in self._plane.plane.components} - set(self._plane.pids)
        last = {death.component: death for death in self._plane.deaths if death.component in missing}
        return [f"{death}; its last words: {_end_of(death.log_tail)}" for death in last.values()]

    async def leave(self) -> None:
        try:
            if hasattr(self, "client"):
                await self.client.close()
            if self._webhook:
                await self._webhook.stop()
            if self.deaths or self._unfinished():
                await asyncio.to_thread(self._plane.keep_logs, self._directory / "logs")
            if self._plane.audit_log and self.observer.epoch:
                self._agreement = await asyncio.to_thread(
                    audit.merge, self._plane.audit_log, self.namespace, self.observer, self.wall_epoch
                )
                if self._asking:
                    await asyncio.to_thread(self._compare, self._plane.audit_log, self._asking.log)
        except (OSError, SeatrialError) as error:
            self.mishaps.append(f"the audit log could not be read: {error}")
        finally:
            await asyncio.shield(self._plane.down())

    def _compare(self, audit_log: Path, into: RequestLog) -> None:
        found = told.read(audit_log, self.wall_epoch, self._load, into)
        self._heartbeats = found.gaps(self.now())
        into.flush()
        if self._audited:
            self._counted = told.agreement(requests.requests(self._directory), found.load)

    def measuring(self) -> Measuring:
        """Every component of the control plane, and the machine that they share with us."""
        admin = access_from(self._plane.kubeconfig("admin"))
        ports = {name: self._plane.port(name) for name in SCRAPED}
        servers = {
            name: Client(dataclasses.replace(admin, port=port), connections=1) for name, port in ports.items() if port
        }
        every = EVERY_S if self.trial.requests() else SCRAPE_EVERY_S
        return Measuring(self._directory, servers, lambda: self._plane.pids, every)

    def _unfinished(self) -> bool:
        """Then somebody will want to know why: what the components said is kept."""
        number, counts = self.ledger.number, self.ledger.counts
        return counts[number["completed"]] < counts[number["submitted"]]

    def sources(self) -> list[dict[str, Any]]:
        measured = self._agreement.p99 if self._agreement and self._agreement.count else None
        return sources.table(measured, 0)

    def validity(self) -> dict[str, Any]:
        agreement = self._agreement.as_json() if self._agreement else None
        measured = super().validity()
        if self._counted and self._counted["differences"]:
            reason = "the client's counts of requests are not those of the audit log"
            measured["reasons"].append(Doubt(reason, (COUNTS, RATES)))
        return {
            **measured,
            "watch_against_audit": agreement,
            "requests_against_audit": self._counted,
            "heartbeats": self._heartbeats,
        }

    async def _profile(self, component: str) -> None:
        """Where its processor time went, one file per stretch: `profiles/COMPONENT-N.pprof`, for `go tool pprof`."""
        folder = self._directory / "profiles"
        folder.mkdir(exist_ok=True)
        number = 0
        while True:
            port = self._plane.port(component) or 0
            said = await asyncio.to_thread(self._ask, port, f"/debug/pprof/profile?seconds={PROFILE_S}", PROFILE_S + 10)
            if said:
                (folder / f"{component}-{number:04d}.pprof").write_bytes(said)
                number += 1
            else:
                await asyncio.sleep(1)

    def _ask(self, port: int, path: str, patience_s: float) -> bytes:
        """Nothing while the component is being restarted: the next time comes."""
        try:
            layout = self._plane.layout
            context = ssl.create_default_context(cafile=str(layout.ca))
            context.load_cert_chain(layout.certificate("admin"), layout.key("admin"))
            with urllib.request.urlopen(
                f"https://127.0.0.1:{port}{path}", timeout=patience_s, context=context
            ) as answer:
                said: bytes = answer.read()
                return said
        except (OSError, SeatrialError):
            return b""


class KeptCluster(LiveCluster):
    """A control plane that was there before and stays (`--cluster NAME`): the trial makes and removes what it needs."""

    plays = False  # its keeper does

    def __init__(self, trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path) -> None:
        super().__init__(trial, stack, ledger, submissions, os.urandom(4).hex(), directory)
        self._removed = False
        self._standing: tuple[NodeGroup, ...] = ()  # nodes of the cluster's own

    def target(self) -> dict[str, Any]:
        study = self.labels[STUDY_LABEL]
        return {"cluster": self.trial.target.cluster, "study": study, "removed": self._removed}

    async def connect(self) -> Client:
        name = self.trial.target.cluster
        there = kept.find(name)
        self._standing = there.nodes
        if not self._standing:
            await asyncio.to_thread(kept.restage, name, fakes.stages(self.trial.node_groups()))
        access = access_from(there.kubeconfig())
        return Client(access, connections=CONNECTIONS, mark=Mark(STUDY_LABEL, self.labels[STUDY_LABEL]))

    def kubeconfig(self) -> str:
        return str(kept.find(self.trial.target.cluster).kubeconfig())

    async def _make_nodes(self, group: NodeGroup, first: int) -> list[str]:
        """Those of the cluster are there, and stay."""
        return fakes.names(group) if group in self._standing else await super()._make_nodes(group, first)

    async def leave(self) -> None:
        if hasattr(self, "client"):
            try:
                await self.remove_all()
                self._removed = True
            finally:
                await self.client.close()


def _end_of(log: str) -> str:
    return "\n".join(log.splitlines()[-LAST_LINES:]) or "none"


def _override(part: Part) -> Override:
    binary, config = (Path(given) if given else None for given in (part.binary, part.config))
    return Override(binary, part.version, config, part.args)
