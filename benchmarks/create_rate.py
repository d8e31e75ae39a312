"""How fast our client creates objects, and what that costs it, side by side with kube-burner on the same API server.

A load test is only as good as its client is cheap: what the client needs, the server on the same machine does not get,
and what the client cannot send is not tested. 10,000 Secrets and ConfigMaps by 50 workers, sent and recorded as a `create` phase
of a scenario is (the third phase of `priority-and-fairness`, alone), then the same objects by kube-burner with its limits out
of the way. Both as an administrator, whom Priority & Fairness lets through: as anyone else,
kube-burner runs into 429s and makes 100 objects a second. A fresh control plane for each, no audit log; what is there
is counted on the server.

    python benchmarks/create_rate.py [--objects N] [--connections N] [--rounds N] [--alone]

Prints one line per round and ends with status 1 unless we are at least 2.5 times as fast and a request costs at most
120 µs of client CPU (the median of the rounds each), and every object is there exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec
import uvloop

from seatrial.clusters.local import kept, programs
from seatrial.clusters.local.binaries import ensure_binaries
from seatrial.clusters.local.components import ADMIN, Wish
from seatrial.clusters.requests.forms import filling, form_of
from seatrial.clusters.requests.sending import Sender
from seatrial.kube import Client, Identity, Mark, access_from
from seatrial.kube.resources import CONFIGMAPS, NAMESPACES, SECRETS
from seatrial.kube.shapes import Object
from seatrial.model.control_plane import GoBinary
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import Requests
from seatrial.record.requests import RequestLog, requests

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
  jobIterations: OBJECTS
  qps: 20000
  burst: 20000
  namespace: create-rate
  namespacedIterations: false
  waitWhenFinished: false
  verifyObjects: false
  preLoadImages: false
  cleanup: false
  objects:
  - {objectTemplate: secret.yml, replicas: 1}
  - {objectTemplate: configmap.yml, replicas: 1}
"""
KUBE_BURNER_TEMPLATE = """\
apiVersion: v1
kind: KIND
metadata:
  name: mass-{{.Iteration}}
  labels:
    seatrial.dev/study: create-rate
    seatrial.dev/phase: mass
DATA:
  text: TEXT
"""
TEXT = filling(100).decode()
KINDS = {"Secret": ("stringData", SECRETS), "ConfigMap": ("data", CONFIGMAPS)}


class Figures(msgspec.Struct, frozen=True):
    """What one tool did."""

    seconds: float
    cpu_us: float  # per object
    there: int  # objects on the server, each under its own name
    made: int  # creates that the client counts as its own

    @property
    def rate(self) -> float:
        return self.there / self.seconds


async def ours(kubeconfig: Path, objects: int, connections: int) -> Figures:
    """All objects by a phase's workers in a closed loop, every request recorded; connecting is part of it."""
    manifests = tuple(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "mass-${i}"}, data: {"text": "${payload}"}}
        for kind, (data, _) in KINDS.items()
    )
    phase = Requests("mass", "create", manifests, objects // 2, workers=connections, payload=100)
    async with Client(access_from(kubeconfig), connections=connections, identity=Identity("load"), mark=MARK) as client:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await client.create(NAMESPACES, body, NAMESPACE)
        with tempfile.TemporaryDirectory() as folder:
            log = RequestLog(Path(folder))
            forms = [
                form_of(phase, manifest, KINDS[manifest["kind"]][1], {MARK.key: MARK.value}, "")
                for manifest in phase.objects
            ]
            sender = Sender(phase, forms, client, [NAMESPACE], log, 0, print)
            cpu, begin = cpu_of(resource.RUSAGE_SELF), time.perf_counter()
            await sender.run()
            log.close()
            seconds, cpu = time.perf_counter() - begin, cpu_of(resource.RUSAGE_SELF) - cpu
            rows = requests(Path(folder))
        made = rows.filter((rows["code"] == 201) & (rows["attempt"] == 1)).height
        return Figures(seconds, cpu / objects * 1e6, await count(client), made)


async def count(client: Client) -> int:
    names = Counter[tuple[str, str]]()
    for kind, (_, where) in KINDS.items():
        async for page in client.pages(where, NAMESPACE, shape=Object, labelSelector=f"{MARK.key}={MARK.value}"):
            names.update((kind, one.metadata.name) for one in page.items)
    return sum(1 for name, times in names.items() if times == 1)


def theirs(program: Path, kubeconfig: Path, objects: int) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.yml").write_text(KUBE_BURNER_CONFIG.replace("OBJECTS", str(objects // 2)))
        for kind, (data, _) in KINDS.items():
            text = KUBE_BURNER_TEMPLATE.replace("KIND", kind).replace("DATA", data).replace("TEXT", TEXT)
            (Path(folder) / f"{kind.lower()}.yml").write_text(text)
        cpu, begin = cpu_of(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [program, "init", "-c", "config.yml", "--log-level", "fatal"], cwd=folder, timeout=600, check=False,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        seconds, cpu = time.perf_counter() - begin, cpu_of(resource.RUSAGE_CHILDREN) - cpu

    async def counted() -> int:
        async with Client(access_from(kubeconfig)) as client:
            return await count(client)

    there = asyncio.run(counted())
    if not there:
        raise SystemExit(f"kube-burner made nothing: {done.stdout[-500:]}")
    return Figures(seconds, cpu / objects * 1e6, there, there)


def cpu_of(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def on_a_fresh_server(binaries: dict[str, Path], name: str) -> kept.Kept:
    """Both begin on a server that is done with its own start: ours takes five seconds, and would be half over by then."""
    cluster = kept.up(f"{name}-{os.getpid()}", Wish(audit=False), binaries)
    time.sleep(REST_S)
    return cluster


def one_round(binaries: dict[str, Path], objects: int, connections: int, alone: bool) -> tuple[Figures, Figures | None]:
    cluster = on_a_fresh_server(binaries, "ours")
    try:
        us = uvloop.run(ours(cluster.kubeconfig(ADMIN.name), objects, connections))
    finally:
        kept.down(cluster.name)
    if alone:
        return us, None
    cluster = on_a_fresh_server(binaries, "theirs")
    try:
        return us, theirs(binaries["kube-burner"], cluster.kubeconfig(ADMIN.name), objects)
    finally:
        kept.down(cluster.name)


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
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="without kube-burner")
    options = parser.parse_args()
    wanted = [*programs.CONTROL_PLANE, *([] if options.alone else [KUBE_BURNER])]
    binaries = ensure_binaries(wanted)
    rounds = []
    for _ in range(options.rounds):
        rounds.append(one_round(binaries, options.objects, options.connections, options.alone))
        print(line(*rounds[-1], options.objects), flush=True)
    whole = all(us.there == us.made == options.objects for us, _ in rounds)
    cheap = statistics.median(us.cpu_us for us, _ in rounds) <= 120
    factors = [us.rate / them.rate for us, them in rounds if them is not None]
    fast = not factors or statistics.median(factors) >= 2.5
    return 0 if whole and cheap and fast else 1


if __name__ == "__main__":
    sys.exit(main())
