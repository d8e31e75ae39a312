"""Reads the audit log of a trial's own API server: exact times, requests of components and nodes, and a check of our counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from seatrial.clusters.live.request_load import user_of
from seatrial.clusters.live.session import Session
from seatrial.clusters.requests.request_phases import all_identities
from seatrial.model.doubts import COUNTS, RATES, Doubt
from seatrial.model.plan import CLIENT
from seatrial.observe import audit
from seatrial.record import request_log
from seatrial.record.request_log import SERVER, RequestLog
from seatrial.scenario.actions.send_requests import Requests

# Users of the control plane → what they are called.
COMPONENTS = {
    "kwok": "nodes",
    "kubelets": "nodes",
    "system:kube-controller-manager": "kube-controller-manager",
    "system:kube-scheduler": "kube-scheduler",
}

Counts = Counter[tuple[str, str, str, int]]  # identity, verb, resource, code


class AuditTrail:
    """The setting `kube-apiserver.audit` says whose requests are logged: nobody's (`off`), the components', or `all`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        whose = str(session.trial.setup.settings.get("kube-apiserver", {}).get("audit", "components"))
        self.wanted = whose != "off"
        self._all = whose == "all"
        # (user, user agent) as the server sees them → the identity's name
        self._load = {
            (user_of(one, session.namespace) or CLIENT, one.user_agent): one.name
            for one in all_identities(session.trial.phases(Requests))
        }
        session.evidence |= {"watch_against_audit": None, "requests_against_audit": None, "heartbeats": None}

    @property
    def users(self) -> list[str]:
        """Users that the load acts as."""
        return sorted({user for user, _ in self._load})

    def policy(self) -> Mapping[str, Any]:
        """The API server's audit policy."""
        users = [*COMPONENTS, *(self.users if self._all else ())] if self._session.trial.phases(Requests) else ()
        creates = self._session.stack.real.creates
        return audit.policy(creates.group, creates.plural, users=users)

    def read(self, log: Path, into: RequestLog | None) -> None:
        """Reads the log once, after the load, into the observations and into the log of requests, if there is one."""
        session = self._session
        namespaces = {session.namespace, *session.queue_namespaces}
        watched = audit.merge(log, namespaces, session.observer, session.wall_epoch)
        session.watch_error = watched.p99 if watched.count else None
        session.evidence["watch_against_audit"] = watched.as_json()
        if into is None:
            return
        found = read(log, session.wall_epoch, self._load, into)
        session.evidence["heartbeats"] = found.gaps(session.now())
        into.flush()
        if self._all:
            counted = agreement(request_log.requests(session.directory), found.load)
            session.evidence["requests_against_audit"] = counted
            if counted["differences"]:
                why = "the client's counts of requests are not those of the audit log"
                session.doubts.append(Doubt(why, (COUNTS, RATES)))


@dataclass(slots=True)
class AuditedLoad:
    """A load, as the audit log shows it."""

    load: Counts = field(default_factory=Counter)  # the load's own requests, as the server counted them
    beats: dict[str, list[int]] = field(default_factory=dict)  # node → when its lease was renewed, trial's ns

    def gaps(self, end: int) -> dict[str, Any] | None:
        """How far apart the renewals of a node's lease were, the end of the trial included: a lag shows there."""
        if not self.beats:
            return None
        longest = sorted(
            max(later - earlier for earlier, later in pairwise([*times, max(end, times[-1])]))
            for times in map(sorted, self.beats.values())
        )
        return {"nodes": len(longest), "median_s": longest[len(longest) // 2] / 1e9, "worst_s": longest[-1] / 1e9}


def read(log: Path, wall_epoch: int, load: Mapping[tuple[str, str], str], into: RequestLog) -> AuditedLoad:
    """Adds the components' requests since the epoch to the trial's; counts the load's."""
    audited = AuditedLoad()
    names = {user for user, _ in load}
    number = into.number
    server, nothing = number(SERVER), number("")
    for seen in audit.requests(log, lambda user: user in COMPONENTS or user in names):
        if seen.user not in COMPONENTS:
            identity = load.get((seen.user, seen.agent))
            if identity is not None:
                audited.load[identity, seen.verb, seen.resource, seen.code] += 1
            continue
        at = seen.at - wall_epoch
        if at < 0:
            continue
        reason = number(seen.reason) if seen.code >= 400 else nothing
        into.add(
            at, at, seen.took, number(seen.verb), number(seen.resource), number(COMPONENTS[seen.user]), seen.code, reason,
            -1.0, 1, nothing, server,
        )  # fmt: skip
        if seen.resource == "leases" and seen.code == 200 and COMPONENTS[seen.user] == "nodes" and seen.name:
            audited.beats.setdefault(seen.name, []).append(at + seen.took)
    return audited


def agreement(client: pl.DataFrame, counted: Counts) -> dict[str, Any]:
    """Our counts against the server's, by identity, verb, resource and code; requests without an answer are counted apart."""
    mine: Counts = Counter()
    rows = client.filter((pl.col("seen_by") == "client") & (pl.col("code") > 0))
    for *key, count in rows.group_by("identity", "verb", "resource", "code").len().iter_rows():
        mine[tuple(key)] += count
    lost = client.filter((pl.col("seen_by") == "client") & (pl.col("code") == 0)).height
    apart = {key: (mine[key], counted[key]) for key in {*mine, *counted} if mine[key] != counted[key]}
    return {
        "client": mine.total(),
        "server": counted.total(),
        "unanswered": lost,
        "differences": [
            {"identity": i, "verb": v, "resource": r, "code": c, "client": ours, "server": theirs}
            for (i, v, r, c), (ours, theirs) in sorted(apart.items())
        ],
    }
