"""What Kueue and the Job controller send in a scenario, by kind and in windows of ten seconds, on `sim` and on `local`.

    python benchmarks/kueue_requests.py scenarios/kueue-baseline.yaml --set percent=10 --set cohorts=1,queues=3
    python benchmarks/kueue_requests.py livelock.yaml --on sim

The audit log of the trial on `local` gets the requests of both users, and is read before the cluster is taken down. On `sim` every
request passes `ApiServer.call`, and what sent it tells its kind. docs/verified.md has what was found with it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from seatrial.cli.main import main as seatrial
from seatrial.clusters.local.audit_trail import AuditTrail
from seatrial.observe import audit
from seatrial.record.request_log import RequestLog
from seatrial.sim.apiserver import ApiClient, ApiServer

WINDOW_S = 10
USERS = {"kueue": "kueue", "system:kube-controller-manager": "job-controller"}
QUEUE_STATUS, EVENTS = "status of queues", "events"
# The innermost generator or callback that waits for the answer → what was sent.
SENT = {
    "create_workload": "create workloads", "workload": "write workloads", "workloads": "write workloads", "job": "patch jobs",
    "job_status": "patch jobs/status", "_write": QUEUE_STATUS, "_send": EVENTS, "pods": "patch pods",
    "_pod_created": "create pods", "_call_pod_webhooks": "create pods", "_finalizer_off": "patch pods",
    "_pod_deleted": "delete pods", "_written": "update jobs/status", "_suspended_written": "update jobs/status",
    "_complete": "update jobs/status", "_count_finished": "update jobs/status",
}  # fmt: skip

Counts = dict[str, dict[str, Counter[int]]]  # client → kind → window → requests


def counts() -> Counts:
    return defaultdict(lambda: defaultdict(Counter))


def kind_of(line: Mapping[str, Any]) -> str:
    ref = line.get("objectRef", {})
    resource = f"{ref.get('resource', '?')}{'/' if 'subresource' in ref else ''}{ref.get('subresource', '')}"
    if resource.startswith("events"):
        return EVENTS
    if resource in ("clusterqueues/status", "localqueues/status"):
        return QUEUE_STATUS
    if resource.startswith("workloads") and line["verb"] != "create":
        return "write workloads"
    refused = line.get("responseStatus", {}).get("code", 200)
    return f"{line['verb']} {resource}" + (f" ({refused})" if refused >= 400 else "")


def of_log(log: Path) -> Counts:
    """Since the first Job was created."""
    found, begun = counts(), 0.0
    for raw in log.read_bytes().splitlines():
        line = msgspec.json.decode(raw)
        at = datetime.fromisoformat(line["requestReceivedTimestamp"]).timestamp()
        client, ref = USERS.get(line["user"]["username"]), line.get("objectRef", {})
        if not begun and line["verb"] == "create" and ref.get("resource") == "jobs":
            begun = at
        mine = client == "kueue" or (client and "job-controller" in line.get("userAgent", ""))
        if begun and mine and line["verb"] not in ("get", "list", "watch"):
            found[str(client)][kind_of(line)][int((at - begun) // WINDOW_S)] += 1
    return found


def on_local(arguments: list[str]) -> Counts:
    found: list[Counts] = []
    policy, read = audit.policy, AuditTrail.read

    def wider(*asked: Any, **more: Any) -> Mapping[str, Any]:
        made = dict(policy(*asked, **more))
        extra = {"level": "Metadata", "users": list(USERS), "verbs": ["create", "update", "patch", "delete"]}
        return made | {"rules": [*made["rules"][:-1], extra, made["rules"][-1]]}

    def counted(trail: AuditTrail, log: Path, into: RequestLog | None) -> None:
        found.append(of_log(log))
        read(trail, log, into)

    with patch.object(audit, "policy", wider), patch.object(AuditTrail, "read", counted):
        run([*arguments, "--on", "local"])
    return found[0]


def on_sim(arguments: list[str]) -> Counts:
    found = counts()
    call, together = ApiServer.call, ApiServer.call_together

    def note(api: Any, client: ApiClient, name: str, count: int) -> None:
        if client.name in USERS.values():
            found[client.name][SENT.get(name, name)][api._kernel.now // 10**9 // WINDOW_S] += count

    def called(api: ApiServer, client: ApiClient, verb: int, then: Any, arg: Any = None) -> None:
        if then.__name__ == "_call_next":  # one of several in turn
            note(api, client, arg[4 - 1].__name__ if arg else "?", 1)
        else:
            note(api, client, then.__name__, 1)
        call(api, client, verb, then, arg)

    def called_together(api: ApiServer, client: ApiClient, verb: int, count: int, then: Any, arg: Any = None) -> None:
        inner = arg
        while getattr(inner, "gi_yieldfrom", None) is not None:
            inner = inner.gi_yieldfrom
        note(api, client, inner.gi_code.co_name, count)
        together(api, client, verb, count, then, arg)

    with patch.object(ApiServer, "call", called), patch.object(ApiServer, "call_together", called_together):
        run([*arguments, "--on", "sim"])
    return found


def run(arguments: list[str]) -> None:
    with patch.object(sys, "argv", ["seatrial", "run", *arguments, "--repeat", "1", "--force"]):
        try:
            seatrial()
        except SystemExit as ended:
            if ended.code not in (0, 1, None):
                raise


def show(cluster: str, found: Counts) -> None:
    for client, kinds in sorted(found.items()):
        last = max(max(windows) for windows in kinds.values())
        for kind, windows in [*sorted(kinds.items()), ("all", sum(kinds.values(), Counter()))]:
            cells = " ".join(f"{windows[window]:4d}" for window in range(last + 1))
            print(f"kueue_requests {cluster} {client} {kind}: {windows.total()}: {cells}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("scenario")
    parser.add_argument("--set", action="append", default=[], dest="params", metavar="K=V")
    parser.add_argument("--on", choices=("sim", "local"), action="append")
    asked = parser.parse_args()
    more = [part for param in asked.params for part in ("--set", param)]
    with tempfile.TemporaryDirectory() as folder:
        for cluster in asked.on or ("sim", "local"):
            arguments = [asked.scenario, *more, "-o", f"{folder}/{cluster}"]
            show(cluster, on_sim(arguments) if cluster == "sim" else on_local(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
