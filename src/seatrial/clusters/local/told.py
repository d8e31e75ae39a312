"""What the audit log tells of a load: the requests of components and nodes, and whether our own counts are the server's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from seatrial.model.plan import CLIENT, Identity
from seatrial.observe import audit
from seatrial.record.requests import SERVER, RequestLog

# Users of the control plane → what they are called.
COMPONENTS = {
    "kwok": "nodes",
    "system:kube-controller-manager": "kube-controller-manager",
    "system:kube-scheduler": "kube-scheduler",
}

Counts = Counter[tuple[str, str, str, int]]  # identity, verb, resource, code


def users(identities: Iterable[Identity], namespace: str) -> dict[tuple[str, str], str]:
    """(user, user agent) as the server sees them → the identity's name."""
    found = {}
    for one in identities:
        account = f"system:serviceaccount:{namespace}:{one.service_account}" if one.service_account else ""
        found[account or one.user or CLIENT, one.user_agent] = one.name
    return found


@dataclass(slots=True)
class Told:
    """Read once, after the load."""

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


def read(log: Path, wall_epoch: int, load: dict[tuple[str, str], str], into: RequestLog) -> Told:
    """Adds the components' requests since the epoch to the trial's; counts the load's."""
    told = Told()
    names = {user for user, _ in load}
    number = into.number
    server, nothing = number(SERVER), number("")
    for seen in audit.requests(log, lambda user: user in COMPONENTS or user in names):
        if seen.user not in COMPONENTS:
            identity = load.get((seen.user, seen.agent))
            if identity is not None:
                told.load[identity, seen.verb, seen.resource, seen.code] += 1
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
            told.beats.setdefault(seen.name, []).append(at + seen.took)
    return told


def agreement(client: pl.DataFrame, told: Counts) -> dict[str, Any]:
    """Our counts against the server's, by identity, verb, resource and code; requests without an answer are counted apart."""
    mine: Counts = Counter()
    rows = client.filter((pl.col("seen_by") == "client") & (pl.col("code") > 0))
    for *key, count in rows.group_by("identity", "verb", "resource", "code").len().iter_rows():
        mine[tuple(key)] += count
    lost = client.filter((pl.col("seen_by") == "client") & (pl.col("code") == 0)).height
    apart = {key: (mine[key], told[key]) for key in {*mine, *told} if mine[key] != told[key]}
    return {
        "client": mine.total(),
        "server": told.total(),
        "unanswered": lost,
        "differences": [
            {"identity": i, "verb": v, "resource": r, "code": c, "client": ours, "server": theirs}
            for (i, v, r, c), (ours, theirs) in sorted(apart.items())
        ],
    }
