"""How fast our client creates objects, and what that costs it, side by side with kube-burner on the same API server.

A load test is only as good as its client is cheap: what the client needs, the server on the same machine does not get,
and what the client cannot send is not tested. 50 workers make 10,000 objects, 100 Secrets and 100 ConfigMaps in each of 50
namespaces, sent and recorded as a `create` phase of a scenario is (the third phase of `priority-and-fairness`, alone); then
kube-burner makes the same with its limits out of the way, in an iteration per namespace, the fastest way that was tried. With
`--configmaps` it is 10,000 ConfigMaps in one namespace by 32 workers, and by kube-burner in an iteration each. Both as an
administrator, whom Priority & Fairness lets through: as anyone else, kube-burner runs into 429s and makes 100 objects a
second. A fresh control plane for each, no audit log; the namespaces are there before; what is there is counted on the server.

    python benchmarks/create_rate.py [--configmaps] [--objects N] [--rounds N] [--alone]

Prints one line per round and ends with status 1 unless we are at least 2.5 times as fast and a request costs at most
120 µs of client CPU (the median of the rounds each), and every object is there exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import uvloop

from seatrial.clusters import programs
from seatrial.clusters.local import kept_planes
from seatrial.clusters.local.components import ADMIN, PlaneOptions
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.clusters.requests.request_templates import filling, template_of
from seatrial.clusters.requests.sending import Sender
from seatrial.kube import Client, ClientIdentity, Mark, access_from
from seatrial.kube.resources import CONFIGMAPS, NAMESPACES, SECRETS
from seatrial.kube.shapes import Object
from seatrial.model.control_plane import GoBinary
from seatrial.model.labels import STUDY_LABEL
from seatrial.record.request_log import RequestLog, requests
from seatrial.scenario.actions.send_requests import Requests

KUBE_BURNER = GoBinary(
    "kube-burner", Path(__file__).parent / "go" / "kube-burner", "github.com/kube-burner/kube-burner/cmd/kube-burner"
)
NAMESPACE = "create-rate"
MARK = Mark(STUDY_LABEL, "create-rate")
REST_S = 5.0

KUBE_BURNER_CONFIG = """\
global: {gc: false}
metricsEndpoints: []
jobs:
- name: create-rate
  jobIterations: ITERATIONS
  qps: 20000
  burst: 20000
  namespace: create-rate
  namespacedIterations: SPREAD
  waitWhenFinished: false
  verifyObjects: false
  preLoadImages: false
  cleanup: false
  objects:
"""
KUBE_BURNER_TEMPLATE = """\
apiVersion: v1
kind: KIND
metadata:
  name: mass-{{.Iteration}}-{{.Replica}}
  labels:
    seatrial.dev/study: create-rate
    seatrial.dev/phase: mass
DATA:
  text: TEXT
"""
TEXT = filling(100).decode()
KINDS = {"Secret": ("stringData", SECRETS), "ConfigMap": ("data", CONFIGMAPS)}
EACH = 100  # of a kind in a namespace, as the third phase has it


class Form(msgspec.Struct, frozen=True):
    """What both make."""

    objects: int
    kinds: tuple[str, ...]
    namespaces: tuple[str, ...]
    workers: int

    @property
    def spread(self) -> bool:
        return len(self.namespaces) > 1


def form(objects: int, configmaps: bool) -> Form:
    if configmaps:
        return Form(objects, ("ConfigMap",), (NAMESPACE,), 32)
    spaces = objects // (EACH * len(KINDS))
    return Form(spaces * EACH * len(KINDS), tuple(KINDS), tuple(f"{NAMESPACE}-{i}" for i in range(spaces)), 50)


class Figures(msgspec.Struct, frozen=True):
    """What one tool did."""

    seconds: float
    cpu_us: float  # per object
    there: int  # objects on the server, each under its own name
    made: int  # creates that the client counts as its own

    @property
    def rate(self) -> float:
        return self.there / self.seconds


async def ours(kubeconfig: Path, what: Form) -> Figures:
    """All objects by a phase's workers in a closed loop, every request recorded; connecting is part of it."""
    manifests = tuple(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "mass-${i}"}, KINDS[kind][0]: {"text": "${payload}"}}
        for kind in what.kinds
    )
    phase = Requests(
        "mass", "create", manifests, what.objects // len(what.kinds), workers=what.workers, payload=100,
        namespaces=len(what.namespaces), each=EACH if what.spread else 0,
    )  # fmt: skip
    access = access_from(kubeconfig)
    async with Client(access, connections=what.workers, identity=ClientIdentity("load"), mark=MARK) as client:
        with tempfile.TemporaryDirectory() as folder:
            log = RequestLog(Path(folder))
            templates = [
                template_of(phase, manifest, KINDS[manifest["kind"]][1], {MARK.key: MARK.value})
                for manifest in phase.objects
            ]
            sender = Sender(phase, templates, client, what.namespaces, log, 0, print)
            cpu, begin = cpu_of(resource.RUSAGE_SELF), time.perf_counter()
            await sender.run()
            log.close()
            seconds, cpu = time.perf_counter() - begin, cpu_of(resource.RUSAGE_SELF) - cpu
            rows = requests(Path(folder))
        made = rows.filter((rows["code"] == 201) & (rows["attempt"] == 1)).height
        return Figures(seconds, cpu / what.objects * 1e6, await count(client, what), made)


async def make_namespaces(kubeconfig: Path, what: Form) -> None:
    async with Client(access_from(kubeconfig), connections=8) as client:
        for name in what.namespaces:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await client.create(NAMESPACES, body, name)


async def count(client: Client, what: Form) -> int:
    names = Counter[tuple[str, str, str]]()
    for kind in what.kinds:
        async for page in client.pages(KINDS[kind][1], shape=Object, labelSelector=f"{MARK.key}={MARK.value}"):
            names.update((kind, one.metadata.namespace, one.metadata.name) for one in page.items)
    return sum(1 for times in names.values() if times == 1)


def theirs(program: Path, kubeconfig: Path, what: Form) -> Figures:
    iterations, replicas = (len(what.namespaces), EACH) if what.spread else (what.objects // len(what.kinds), 1)
    config = KUBE_BURNER_CONFIG.replace("ITERATIONS", str(iterations)).replace("SPREAD", str(what.spread).lower())
    with tempfile.TemporaryDirectory() as folder:
        for kind in what.kinds:
            text = KUBE_BURNER_TEMPLATE.replace("KIND", kind).replace("DATA", KINDS[kind][0]).replace("TEXT", TEXT)
            (Path(folder) / f"{kind}.yml").write_text(text)
            config += f"  - {{objectTemplate: {kind}.yml, replicas: {replicas}}}\n"
        (Path(folder) / "config.yml").write_text(config)
        cpu, begin = cpu_of(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [program, "init", "-c", "config.yml", "--log-level", "fatal"], cwd=folder, timeout=600, check=False,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        seconds, cpu = time.perf_counter() - begin, cpu_of(resource.RUSAGE_CHILDREN) - cpu

    async def counted() -> int:
        async with Client(access_from(kubeconfig)) as client:
            return await count(client, what)

    there = asyncio.run(counted())
    if not there:
        raise SystemExit(f"kube-burner made nothing: {done.stdout[-500:]}")
    return Figures(seconds, cpu / what.objects * 1e6, there, there)


def cpu_of(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def fresh_server(binaries: dict[str, Path], name: str, what: Form) -> Iterator[Path]:
    """Both begin on a server that is done with its own start: ours takes five seconds, and would be half over by then."""
    cluster = kept_planes.up(f"{name}-{os.getpid()}", PlaneOptions(audit=False), binaries)
    try:
        kubeconfig = cluster.kubeconfig(ADMIN.name)
        asyncio.run(make_namespaces(kubeconfig, what))
        time.sleep(REST_S)
        yield kubeconfig
    finally:
        kept_planes.down(cluster.name)


def one_round(binaries: dict[str, Path], what: Form, alone: bool) -> tuple[Figures, Figures | None]:
    with fresh_server(binaries, "ours", what) as kubeconfig:
        us = uvloop.run(ours(kubeconfig, what))
    if alone:
        return us, None
    with fresh_server(binaries, "theirs", what) as kubeconfig:
        return us, theirs(binaries["kube-burner"], kubeconfig, what)


def line(us: Figures, them: Figures | None, objects: int) -> str:
    text = (
        f"create_rate: seatrial {us.rate:.0f} objects/s, {us.cpu_us:.0f} µs client CPU per request, "
        f"{us.there} of {objects} there, {us.made} made"
    )
    if them is not None:
        text += (
            f"; kube-burner 1.14.0 {them.rate:.0f} objects/s, {them.cpu_us:.0f} µs, {them.there} there"
            f"; {us.rate / them.rate:.1f} times as fast"
        )
    return f"{text}; load average {os.getloadavg()[0]:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--configmaps", action="store_true", help="ConfigMaps alone, in one namespace, by 32 workers")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="without kube-burner")
    options = parser.parse_args()
    wanted = [*programs.CONTROL_PLANE, *([] if options.alone else [KUBE_BURNER])]
    binaries = ensure_binaries(wanted)
    what, rounds = form(options.objects, options.configmaps), []
    for _ in range(options.rounds):
        rounds.append(one_round(binaries, what, options.alone))
        print(line(*rounds[-1], what.objects), flush=True)
    whole = all(us.there == us.made == what.objects for us, _ in rounds)
    cheap = statistics.median(us.cpu_us for us, _ in rounds) <= 120
    factors = [us.rate / them.rate for us, them in rounds if them is not None]
    fast = not factors or statistics.median(factors) >= 2.5
    return 0 if whole and cheap and fast else 1


if __name__ == "__main__":
    sys.exit(main())
