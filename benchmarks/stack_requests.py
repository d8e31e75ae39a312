"""What a stack and the Job controller send in a scenario, by kind and in windows, on `sim` and on `local`.

    python benchmarks/stack_requests.py kueue scenarios/kueue-baseline.yaml --set percent=10 --set cohorts=1,queues=3
    python benchmarks/stack_requests.py kai scheduler-throughput --set jobs=10000,percent=3,fleet=100,qps=50 --window 1
    python benchmarks/stack_requests.py kueue livelock.yaml --on sim

The audit log of the trial on `local` gets the requests of the users in question, and is read before the cluster is taken down. On
`sim` every request passes `ApiServer`, and what sent it tells its kind. docs/verified.md has what was found with it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
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

CONTROLLER = "system:kube-controller-manager"
QUEUE_STATUS, WORKLOADS, EVENTS, PODS = "status of queues", "write workloads", "events", "write pods"
GROUPS = "write podgroups"


@dataclass(frozen=True)
class Stack:
    """How the requests of a stack's programs are called. `sent`: client, or client and the innermost generator or callback that
    waits for the answer, on `sim`. `logged`: resources of the log of which all writes but those in `apart` are one kind."""

    users: Mapping[str, str]  # user in the log → program
    clients: Mapping[str, str]  # client on `sim` → program
    sent: Mapping[str, str]
    logged: Mapping[str, str]
    apart: tuple[str, ...] = ()


STACKS = {
    "kueue": Stack(
        {"kueue": "kueue"},
        {"kueue": "kueue"},
        {
            "create_workload": "create workloads", "workload": WORKLOADS, "workloads": WORKLOADS, "job": "patch jobs",
            "job_status": "patch jobs/status", "_write": QUEUE_STATUS, "pods": "patch pods",
        },
        {
            "clusterqueues/status": QUEUE_STATUS, "localqueues/status": QUEUE_STATUS,
            "workloads": WORKLOADS, "workloads/status": WORKLOADS,
        },
        ("create workloads",),
    ),
    "kai": Stack(
        {"kai-scheduler": "kai-scheduler", "kai-binder": "kai-binder"},
        {
            "kai": "kai-scheduler", "kai-core": "kai-scheduler", "kai-binder-pods": "kai-binder",
            "kai-manager-pods": "kai-binder", "kai-manager-requests": "kai-binder",
        },
        {
            "kai._carry_out": "create bindrequests", "kai._write_status": GROUPS, "kai-core._write_status": PODS,
            "kai-core._evict": PODS, "kai-binder-pods._bind": PODS, "kai-manager-pods._bind": PODS,
            "kai-manager-requests._bind": "patch bindrequests/status",
        },
        {"podgroups": GROUPS, "podgroups/status": GROUPS, "pods": PODS, "pods/status": PODS, "pods/binding": PODS},
    ),
    "volcano": Stack(
        {"volcano-scheduler": "volcano"},
        {"volcano": "volcano", "volcano-events": "volcano", "volcano-groups": "volcano"},
        {
            "volcano.is_bound": "create pods/binding", "volcano._work": PODS, "volcano._deleted": PODS,
            "volcano-groups._work": GROUPS, "volcano-groups.write": QUEUE_STATUS,
        },
        {"podgroups": GROUPS, "queues/status": QUEUE_STATUS, "pods": PODS, "pods/status": PODS},
    ),
}  # fmt: skip
OF_JOBS = {
    "_pod_created": "create pods", "_call_pod_webhooks": "create pods", "_finalizer_off": "patch pods",
    "_pod_deleted": "delete pods", "_written": "update jobs/status", "_suspended_written": "update jobs/status",
    "_complete": "update jobs/status", "_count_finished": "update jobs/status", "_send": EVENTS,
}  # fmt: skip
JOB_CONTROLLER = "job-controller"

Counts = dict[str, dict[str, Counter[int]]]  # program → kind → window → requests


def counts() -> Counts:
    return defaultdict(lambda: defaultdict(Counter))


def kind_of(line: Mapping[str, Any], stack: Stack, program: str) -> str:
    ref = line.get("objectRef", {})
    resource = f"{ref.get('resource', '?')}{'/' if 'subresource' in ref else ''}{ref.get('subresource', '')}"
    refused = line.get("responseStatus", {}).get("code", 200)
    code = f" ({refused})" if refused >= 400 else ""
    if resource.startswith("events"):
        return EVENTS + code
    kind = f"{line['verb']} {resource}"
    if program != JOB_CONTROLLER and kind not in stack.apart:
        kind = stack.logged.get(resource, kind)
    return kind + code


def of_log(log: Path, stack: Stack, window: float) -> Counts:
    """Since the first Job was created."""
    found, begun = counts(), 0.0
    users = {**stack.users, CONTROLLER: JOB_CONTROLLER}
    for raw in log.read_bytes().splitlines():
        line = msgspec.json.decode(raw)
        at = datetime.fromisoformat(line["requestReceivedTimestamp"]).timestamp()
        program, ref = users.get(line["user"]["username"]), line.get("objectRef", {})
        if not begun and line["verb"] == "create" and ref.get("resource") == "jobs":
            begun = at
        mine = program and (program != JOB_CONTROLLER or JOB_CONTROLLER in line.get("userAgent", ""))
        if begun and mine and line["verb"] not in ("get", "list", "watch"):
            found[str(program)][kind_of(line, stack, str(program))][int((at - begun) // window)] += 1
    return found


def on_local(arguments: list[str], stack: Stack, window: float) -> Counts:
    found: list[Counts] = []
    policy, read = audit.policy, AuditTrail.read

    def wider(*asked: Any, **more: Any) -> Mapping[str, Any]:
        made = dict(policy(*asked, **more))
        users = [*stack.users, CONTROLLER]
        extra = {"level": "Metadata", "users": users, "verbs": ["create", "update", "patch", "delete"]}
        return made | {"rules": [*made["rules"][:-1], extra, made["rules"][-1]]}

    def counted(trail: AuditTrail, log: Path, into: RequestLog | None) -> None:
        found.append(of_log(log, stack, window))
        read(trail, log, into)

    with patch.object(audit, "policy", wider), patch.object(AuditTrail, "read", counted):
        run([*arguments, "--on", "local"])
    return found[0]


def on_sim(arguments: list[str], stack: Stack, window: float) -> Counts:
    found = counts()
    call, together, turns = ApiServer.call, ApiServer.call_together, ApiServer.call_in_turn
    clients = {**stack.clients, JOB_CONTROLLER: JOB_CONTROLLER}

    def note(api: Any, client: ApiClient, name: str, count: int) -> None:
        program = clients.get(client.name)
        if program:
            sent = OF_JOBS if program == JOB_CONTROLLER else stack.sent
            kind = sent.get(f"{client.name}.{name}") or sent.get(name) or (EVENTS if name == "_send" else name)
            found[program][kind][int(api._kernel.now / 1e9 // window)] += count

    def inner(then: Any, arg: Any) -> str:
        if then.__name__ != "_step":
            return str(then.__name__)
        while getattr(arg, "gi_yieldfrom", None) is not None:
            arg = arg.gi_yieldfrom
        return str(arg.gi_code.co_name)

    def called(api: ApiServer, client: ApiClient, verb: int, then: Any, arg: Any = None) -> None:
        name, rest = (arg[3], arg[4]) if then.__name__ == "_call_next" else (then, arg)  # one of several in turn
        note(api, client, inner(name, rest), 1)
        call(api, client, verb, then, arg)

    def called_together(api: ApiServer, client: ApiClient, verb: int, count: int, then: Any, arg: Any = None) -> None:
        note(api, client, inner(then, arg), count)
        together(api, client, verb, count, then, arg)

    def called_in_turn(api: ApiServer, client: ApiClient, verb: int, count: int, then: Any, arg: Any = None) -> None:
        if not client.limited:  # else they pass `call` one by one
            note(api, client, inner(then, arg), count)
        turns(api, client, verb, count, then, arg)

    with (
        patch.object(ApiServer, "call", called),
        patch.object(ApiServer, "call_together", called_together),
        patch.object(ApiServer, "call_in_turn", called_in_turn),
    ):
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
    for program, kinds in sorted(found.items()):
        last = max(max(windows) for windows in kinds.values())
        for kind, windows in [*sorted(kinds.items()), ("all", sum(kinds.values(), Counter()))]:
            cells = " ".join(f"{windows[window]:4d}" for window in range(last + 1))
            print(f"stack_requests {cluster} {program} {kind}: {windows.total()}: {cells}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("stack", choices=sorted(STACKS))
    parser.add_argument("scenario")
    parser.add_argument("--set", action="append", default=[], dest="params", metavar="K=V")
    parser.add_argument("--on", choices=("sim", "local"), action="append")
    parser.add_argument("--window", type=float, default=10, metavar="SECONDS")
    asked = parser.parse_args()
    more = ["--stack", asked.stack, *(part for param in asked.params for part in ("--set", param))]
    with tempfile.TemporaryDirectory() as folder:
        for cluster in asked.on or ("sim", "local"):
            arguments = [asked.scenario, *more, "-o", f"{folder}/{cluster}"]
            count = on_sim if cluster == "sim" else on_local
            show(cluster, count(arguments, STACKS[asked.stack], asked.window))
    return 0


if __name__ == "__main__":
    sys.exit(main())
