"""One `seatrial sample --follow` of many pods: its memory, how far it is behind, and what an event costs it.

    python benchmarks/follow.py [--pods 100000] [--rate 500] [--keep]

A machine that can host 100,000 pods is not at hand, so the events of one real Job are recorded on a real control plane, byte by
byte, and sent again under other names by a small server: `rate` Jobs a second begin, each with its pod. With --keep pods and
Jobs stay, and half of them are there before the follower begins, so that it has to list them; otherwise they are deleted as they
finish. One line of figures. "Behind" is counted from when an event was due to leave the server: it has the connection in it, the
wait in the kernel, and our own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import numpy as np
import polars as pl

COMMAND = [sys.executable, "-m", "seatrial"]
NODES = "- {name: fake, count: 2, capacity: {cpu: 32, memory: 64Gi, pods: 500}}\n"
JOB = """
apiVersion: batch/v1
kind: Job
spec:
  template:
    metadata: {annotations: {seatrial.dev/duration: 1s}}
    spec: {restartPolicy: Never, containers: [{name: main, image: none, resources: {requests: {cpu: 10m}}}]}
"""
SPAN = 3.0  # s that the events of one Job are spread over
Script = list[tuple[float, str, str, bytes]]  # after so many seconds: resource, type, object


# -- recording


async def record(out: Path, cluster: str) -> Script:
    """Everything that the API server shows of one Job and its pod, from the first to their deletion."""
    from seatrial.clusters.access import kept_clusters
    from seatrial.kube import Client, access_from, watch
    from seatrial.kube.resources import JOBS, PODS

    seen: Script = []
    async with Client(access_from(kept_clusters.find(cluster).kubeconfig())) as client:

        def handler(plural: str) -> Any:
            def handle(_stamp: int, kind: str, thing: Any) -> None:
                if kind in ("ADDED", "MODIFIED", "DELETED"):
                    seen.append((0.0, plural, kind, bytes(thing)))

            return handle

        tasks = [
            asyncio.create_task(
                watch(client, resource, msgspec.Raw, handler(resource.plural), labelSelector="seatrial.dev/study")
            )
            for resource in (JOBS, PODS)
        ]
        await asyncio.sleep(1)
        command = [
            *COMMAND,
            "submit",
            "-o",
            str(out),
            "-n",
            "1",
            "--cluster",
            cluster,
            "--template",
            str(out.parent / "job.yaml"),
        ]
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
        namespace = json.loads(next(out.glob("trials/*/trial.json")).read_text())["target"]["namespace"]
        async with asyncio.timeout(60):
            while not any(b'"type":"Complete"' in thing for _, plural, _, thing in seen if plural == "jobs"):
                await asyncio.sleep(0.1)
            name = json.loads(seen[0][3])["metadata"]["name"]
            await client.delete(JOBS, name, namespace)
            while sum(kind == "DELETED" for _, _, kind, _ in seen) < 2:
                await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
    return [(SPAN * place / len(seen), *event[1:]) for place, event in enumerate(seen)]


def templates(script: Script) -> tuple[Script, str]:
    """The same with `@@N@@` where the number of the Job goes, and what its name is before that."""
    job = next(json.loads(thing)["metadata"] for _, plural, _, thing in script if plural == "jobs")
    pod = next(json.loads(thing)["metadata"] for _, plural, _, thing in script if plural == "pods")
    made = []
    for after, plural, kind, recorded in script:
        thing = recorded.replace(job["name"].encode(), job["name"][:-1].encode() + b"@@N@@")
        for uid in (pod["uid"], job["uid"]):
            thing = thing.replace(uid.encode(), uid[:-8].encode() + b"@@N@@")
        made.append((after, plural, kind, re.sub(rb'"resourceVersion":"\d+"', b'"resourceVersion":"@@V@@"', thing)))
    return made, job["name"][:-1]


# -- sending again


@dataclass
class Server:
    """As much of an API server as a follower asks for: lists in pages, watches, no events. It tells when each event was due."""

    script: Script
    out: Path
    lines: Path
    stem: str
    pods: int
    rate: float
    keep: bool
    version: int = 1
    there: dict[str, dict[int, bytes]] = field(default_factory=lambda: {"jobs": {}, "pods": {}})
    watchers: dict[str, list[asyncio.StreamWriter]] = field(default_factory=lambda: {"jobs": [], "pods": []})

    async def serve(self, ready: Any) -> None:
        self.submitted = self.lines.open("ab", buffering=0)
        self.due = np.memmap(self.out / "due.bin", dtype="<i8", mode="w+", shape=(self.pods,))
        completing = (
            n for n, (_, plural, _, thing) in enumerate(self.script) if plural == "jobs" and b'"Complete"' in thing
        )
        self.completes = next(completing)
        self.begun = time.time_ns()
        if self.keep:
            for number in range(self.pods // 2):
                self.submit(number)
                for _, plural, kind, thing in self.script:
                    if kind != "DELETED":
                        self.there[plural][number] = self.fill(thing, number)
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        while len(self.watchers["pods"]) < 1 or len(self.watchers["jobs"]) < 1:
            await asyncio.sleep(0.05)
        with contextlib.suppress(ConnectionResetError):  # the follower has seen the last Job complete, and goes
            await self.play()
        await asyncio.sleep(3600)

    async def play(self) -> None:
        """Events in the order of when they are due; one write per tick and resource, as an API server under load does it."""
        first = self.pods // 2 if self.keep else 0
        began = time.monotonic()
        offset = time.time_ns() - int(began * 1e9)
        places = [first] * len(self.script)
        while places[-1] < self.pods:
            now = time.monotonic() - began
            batch: dict[str, list[bytes]] = {"jobs": [], "pods": []}
            for place, (after, plural, kind, thing) in enumerate(self.script):
                until = min(self.pods, first + int((now - after) * self.rate)) if now > after else first
                for number in range(places[place], until):
                    if place == 0:
                        self.submit(number)
                    if place == self.completes:
                        self.due[number] = int((began + after + (number - first) / self.rate) * 1e9) + offset
                    if not (self.keep and kind == "DELETED"):
                        batch[plural].append(b'{"type":"%s","object":%s}\n' % (kind.encode(), self.fill(thing, number)))
                places[place] = max(places[place], until)
            for plural, lines in batch.items():
                for writer in self.watchers[plural] if lines else ():
                    writer.write(b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines))
                    await writer.drain()
            await asyncio.sleep(0.01)

    def fill(self, thing: bytes, number: int) -> bytes:
        self.version += 1
        return thing.replace(b"@@N@@", b"%08d" % number).replace(b"@@V@@", b"%d" % self.version)

    def submit(self, number: int) -> None:
        line = {"workload": f"{self.stem}{number:08d}", "number": number, "phase": "training", "index": number, "pods": 1,
                "duration_s": 1.0, "at_ns": time.time_ns() - self.begun}  # fmt: skip
        self.submitted.write(json.dumps(line).encode() + b"\n")

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await self.head(reader):
            url = urlsplit(head.split(b" ")[1].decode())
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            plural = url.path.rpartition("/")[2]
            if query.get("watch"):
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                self.watchers[plural].append(writer)
                return
            if plural == "version":
                body = b'{"gitVersion":"v1.0.0"}'
            else:
                body = self.page(self.there.get(plural, {}), query)
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )

    async def head(self, reader: asyncio.StreamReader) -> bytes:
        """Of the next request; nothing when the client has gone."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            return await reader.readuntil(b"\r\n\r\n")
        return b""

    def page(self, things: dict[int, bytes], query: dict[str, str]) -> bytes:
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "1000000"))
        items = [things[number] for number in sorted(things)[start : start + limit]]
        more = f'"continue":"{start + limit}",' if start + limit < len(things) else ""
        return f'{{"metadata":{{{more}"resourceVersion":"1"}},"items":['.encode() + b",".join(items) + b"]}"


def run_server(server: Server, ready: Any) -> None:
    asyncio.run(server.serve(ready))


# -- measuring


def prepare(recorded: Path, out: Path, port: int, pods: int, begun: int) -> None:
    """A study as `submit` leaves it, with the small server as its cluster."""
    study = json.loads((recorded / "study.json").read_text())
    kubeconfig = out / "kubeconfig.yaml"
    kubeconfig.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "small", "users": [{"name": "small", "user": {}}],
        "clusters": [{"name": "small", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "small", "context": {"cluster": "small", "user": "small"}}],
    }))  # fmt: skip
    where = {"context": "small", "kubeconfig": str(kubeconfig)}
    (out / "study.json").write_text(json.dumps({**study, "on": "kubeconfig", "target": where}))
    trial = json.loads(next(recorded.glob("trials/*/trial.json")).read_text())
    trial["phases"] = {"training": {**next(iter(trial["phases"].values())), "count": pods}}
    trial["target"] = {**where, "study": trial["target"]["study"], "namespace": trial["target"]["namespace"]}
    trial["wall_epoch_ns"] = begun
    (out / "trials" / trial["trial"] / "trial.json").write_text(json.dumps(trial))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pods", type=int, default=100_000)
    arguments.add_argument("--rate", type=float, default=500.0, help="Jobs that begin each second")
    arguments.add_argument("--keep", action="store_true", help="nothing is deleted, half is there before")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        (folder / "nodes.yaml").write_text(NODES)
        (folder / "job.yaml").write_text(JOB)
        cluster = f"follow-{os.getpid()}"
        up = [*COMMAND, "cluster", "up", cluster, "--nodes", str(folder / "nodes.yaml")]
        subprocess.run(up, check=True, capture_output=True)
        try:
            script, stem = templates(asyncio.run(record(folder / "recorded", cluster)))
        finally:
            subprocess.run([*COMMAND, "cluster", "down", cluster], check=True, capture_output=True)
        print(measure(folder, script, stem, given.pods, given.rate, given.keep))


def measure(folder: Path, script: Script, stem: str, pods: int, rate: float, keep: bool) -> str:
    out = folder / "out"
    trial = out / "trials" / next((folder / "recorded").glob("trials/*")).name
    trial.mkdir(parents=True)
    here, there = multiprocessing.Pipe()
    begun = time.time_ns()
    server = Server(script, folder, trial / "submitted.jsonl", stem, pods, rate, keep)
    process = multiprocessing.get_context("fork").Process(target=run_server, args=(server, there), daemon=True)
    process.start()
    prepare(folder / "recorded", out, here.recv(), pods, begun)
    started = time.monotonic()
    follower = subprocess.Popen([*COMMAND, "sample", "-o", str(out), "--follow"], stdout=subprocess.PIPE, text=True)
    peak, pid = 0, 0
    while not pid:
        time.sleep(0.2)
        peak = max(peak, memory(follower.pid))
        pid, _, used = os.wait4(follower.pid, os.WNOHANG)
    took = time.monotonic() - started
    shown = follower.stdout.read() if follower.stdout else ""
    process.kill()
    document = json.loads((trial / "trial.json").read_text())
    events = sum(kind != "DELETED" or not keep for _, _, kind, _ in script) * (pods - pods // 2 if keep else pods)
    listed = pods if keep else 0  # half the Jobs and half the pods
    cpu = used.ru_utime + used.ru_stime
    return (
        f"follow: {pods} pods {'kept, half listed' if keep else 'deleted as they finish'}, {rate:g} Jobs/s, {events} events and "
        f"{listed} listed objects of {sum(len(thing) for *_, thing in script) // len(script)} bytes in {took:.0f} s; "
        f"rss {peak / 2**20:.0f} MiB, behind at worst {document['validity']['behind_worst_s']:.2f} s from arrival to handled and "
        f"{late(folder, trial):.2f} s from due to arrival, {cpu / (events + listed) * 1e6:.0f} µs of processor per "
        f"event; {shown.strip().splitlines()[0].partition(': ')[2]}"
    )


def memory(pid: int) -> int:
    """Bytes in memory at the worst so far; before its end what is only in the table at the end does not count."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


def late(folder: Path, trial: Path) -> float:
    """The most by which the arrival of a Job's completion was stamped after it was due, in seconds."""
    document = json.loads((trial / "trial.json").read_text())
    completed = [stage["name"] for stage in document["stages"]].index("completed")
    observed = pl.read_parquet(trial / "observed.parquet", glob=False)
    watched = observed.filter((pl.col("source") == 1) & (pl.col("stage") == completed))
    due = np.fromfile(folder / "due.bin", dtype="<i8")
    after = watched["at_ns"].to_numpy() + document["wall_epoch_ns"] - due[watched["object"].to_numpy()]
    return float(after.max() / 1e9)


if __name__ == "__main__":
    main()
