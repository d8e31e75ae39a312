"""SimKube's traces, version 2: `.sktrace`, a MessagePack map of `version`, `config`, `events`, `index` and `pod_lifecycles`.

Read by the rules of its documentation (https://simkube.dev/documentation/, "SimKube Trace File Format"). A trace holds objects, not
jobs: what has pods becomes a job, the other objects (ConfigMaps, accounts) are counted and left out. Times are whole seconds.

- A Pod or a Job is one job, from when it was applied; its lifecycles say when its pods started and how long they ran.
- Each lifecycle of a CronJob is a job, due when its pod started: the trace does not say when it was created.
- Deployments and the like end when they are deleted or scaled down, or with the trace; pods added by scaling are another job.
- Any other kind is read by its `podSpecTemplatePaths` of the configuration: a pod per lifecycle.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from seatrial.model.units import parse_quantity
from seatrial.traces.columns import COLUMNS, CUT, FAULT
from seatrial.traces.problem import TraceProblem

VERSION = 2
SECOND = 1_000_000_000
KEYS = ("version", "config", "events", "index", "pod_lifecycles")
JOB, CRON_JOB, DAEMON_SET = "batch/v1.Job", "batch/v1.CronJob", "apps/v1.DaemonSet"
TEMPLATES = {
    "v1.Pod": "", JOB: "/spec/template", CRON_JOB: "/spec/jobTemplate/spec/template", DAEMON_SET: "/spec/template",
    "apps/v1.Deployment": "/spec/template", "apps/v1.StatefulSet": "/spec/template", "apps/v1.ReplicaSet": "/spec/template",
}  # fmt: skip
SCALED = ("apps/v1.Deployment", "apps/v1.StatefulSet", "apps/v1.ReplicaSet")
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
HIGHEST_PRIORITY = 1_000_000_000
GPU = "nvidia.com/gpu"
Key = tuple[str, str]  # kind as SimKube writes it, namespace/name


@dataclass(slots=True)
class _Object:
    """An object from when it was applied until it was deleted."""

    event: int
    key: Key
    manifest: Mapping[str, Any]
    applied: int
    gone: int | None = None
    scaled: list[tuple[int, int, int, int | None]] = field(default_factory=list)  # event, pods, from, until


def recognises(path: Path) -> bool:
    """A small MessagePack map whose first key is one of SimKube's."""
    with path.open("rb") as file:
        head = file.read(16)
    return head[:1] in (b"\x84", b"\x85") and any(head[2:].startswith(key.encode()) for key in KEYS)


@functools.lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> dict[str, Any]:  # noqa: ARG001
    try:
        found = msgspec.msgpack.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise TraceProblem(f"{path.name} is damaged: {error}", "get the file again") from None
    if not isinstance(found, dict) or "version" not in found:
        raise TraceProblem(f"{path.name} has no version", "export it with SimKube 2 or later")
    if found["version"] != VERSION:
        what = f"{path.name} is of version {found['version']} of SimKube's format"
        raise TraceProblem(what, f"this seatrial reads version {VERSION}")
    for key, kind in {"config": dict, "events": list, "pod_lifecycles": dict}.items():
        if not isinstance(found.get(key), kind):
            raise TraceProblem(
                f"{path.name} has no '{key}'", "export it again: SimKube requires all of " + ", ".join(KEYS)
            )
    return found


def scan(path: Path) -> pl.LazyFrame:
    """The jobs of a trace. `line` is the number of the event."""
    trace = _read(path, path.stat().st_mtime_ns)
    return pl.DataFrame(
        list(_rows(trace)), schema={**{name: column.kind for name, column in COLUMNS.items()}, FAULT: pl.String}
    ).lazy()


def remarks(path: Path) -> tuple[str, ...]:
    """Objects that have no pods of their own number."""
    trace = _read(path, path.stat().st_mtime_ns)
    paths = _templates(trace)
    without = Counter(
        key[0] for _, key, _, _ in _applied(trace) if key[0] not in paths or key[0] == DAEMON_SET
    )  # fmt: skip
    return tuple(
        f"objects of kind {kind} left out: "
        + ("as many pods as the cluster has nodes" if kind == DAEMON_SET else "no pod template is known of it")
        for kind in sorted(without)
    )


def _templates(trace: Mapping[str, Any]) -> dict[str, list[str]]:
    tracked = trace["config"].get("trackedObjects") or {}
    paths = {kind: [path] for kind, path in TEMPLATES.items()}
    for kind, config in tracked.items():
        given = config.get("podSpecTemplatePaths") if isinstance(config, dict) else None
        if given:
            paths.setdefault(kind, list(given))
    return paths


def _events(trace: Mapping[str, Any]) -> Iterator[tuple[int, int, list[Any], list[Any]]]:
    for number, event in enumerate(trace["events"], 1):
        if isinstance(event, dict) and isinstance(event.get("ts"), int):
            yield number, event["ts"], event.get("applied_objs") or [], event.get("deleted_objs") or []


def _applied(trace: Mapping[str, Any]) -> Iterator[tuple[int, Key, Mapping[str, Any], int]]:
    for number, ts, applied, _ in _events(trace):
        for manifest in applied:
            key = _key(manifest)
            if key:
                yield number, key, manifest, ts


def _key(manifest: Any) -> Key | None:
    try:
        metadata = manifest["metadata"]
        return f"{manifest['apiVersion']}.{manifest['kind']}", f"{metadata.get('namespace', '')}/{metadata['name']}"
    except (KeyError, TypeError, AttributeError):
        return None


def _rows(trace: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    readable = {number for number, *_ in _events(trace)}
    for number in range(1, len(trace["events"]) + 1):
        if number not in readable:
            yield {"line": number, FAULT: CUT}
    paths, lives = _templates(trace), _lifecycles(trace)
    for one in _objects(trace):
        kind, name = one.key
        if kind not in paths or kind == DAEMON_SET:
            continue
        ran = [
            life
            for life in lives.get(one.key, ())
            if one.applied <= life[0] and (one.gone is None or life[0] <= one.gone)
        ]
        common = {"job": name, "group": name.partition("/")[0], "class": kind.rpartition(".")[2], "gang": False}
        common |= {"queue": _label(one.manifest) or common["group"], **_asked(one.manifest, paths[kind])}
        yield from (common | row for row in _jobs(one, ran))


def _jobs(one: _Object, ran: list[tuple[int, int | None]]) -> Iterator[dict[str, Any]]:
    kind = one.key[0]
    if kind == CRON_JOB:
        for start, end in ran:
            yield _job(one.event, start, 1, None, None if end is None else end - start)
        return
    if kind in SCALED:
        for event, pods, since, until in one.scaled:
            yield _job(event, since, pods, None, None if until is None else until - since)
        return
    spec = one.manifest.get("spec") or {}
    pods = 1 if kind == "v1.Pod" else len(ran) or max(int(spec.get(key) or 1) for key in ("completions", "parallelism"))
    lasted = [end - start for start, end in ran if end is not None]
    duration = max(lasted) if lasted and len(lasted) == len(ran) else None
    if kind == "v1.Pod" and not ran and one.gone is not None:
        duration = one.gone - one.applied
    yield _job(one.event, one.applied, pods, ran[0][0] - one.applied if ran else None, duration)


def _job(event: int, submit: int, pods: int, wait: int | None, duration: int | None) -> dict[str, Any]:
    spans = {"submit_ns": submit, "wait_ns": wait, "duration_ns": duration}
    return {"line": event, "pods": pods} | {
        name: None if seconds is None else seconds * SECOND for name, seconds in spans.items()
    }


def _lifecycles(trace: Mapping[str, Any]) -> dict[Key, list[tuple[int, int | None]]]:
    """Start and end of the pods of each owner, in order; whatever the hashes of their specs."""
    found: dict[Key, list[tuple[int, int | None]]] = {}
    for key, by_hash in trace["pod_lifecycles"].items():
        if not isinstance(key, tuple | list) or len(key) != 2 or not isinstance(by_hash, dict):
            continue
        lives = [_life(one) for lives in by_hash.values() for one in lives]
        found[str(key[0]), str(key[1])] = sorted((life for life in lives if life), key=lambda life: life[0])
    return found


def _life(one: Any) -> tuple[int, int | None] | None:
    """`{start_ts, end_ts}` as documented, `{Finished: [start, end]}` and `{Running: start}` as SimKube's examples have it."""
    match one:
        case {"start_ts": int(start), "end_ts": int(end)} | {"Finished": [int(start), int(end)]}:
            return start, end
        case {"start_ts": int(start)} | {"Running": int(start)}:
            return start, None
    return None


def _objects(trace: Mapping[str, Any]) -> list[_Object]:
    done: list[_Object] = []
    there: dict[Key, _Object] = {}
    last = 0
    for number, ts, applied, deleted in _events(trace):
        last = max(last, ts)
        for manifest in applied:
            key = _key(manifest)
            if key is None:
                continue
            one = there.setdefault(key, _Object(number, key, manifest, ts))
            if key[0] in SCALED:
                _scale(one, number, ts, int((manifest.get("spec") or {}).get("replicas", 1)))
        for manifest in deleted:
            one_gone = there.pop(_key(manifest) or ("", ""), None)
            if one_gone:
                one_gone.gone = ts
                _scale(one_gone, number, ts, 0)
                done.append(one_gone)
    for one in there.values():
        _scale(one, 0, last, 0)
        done.append(one)
    return done


def _scale(one: _Object, event: int, ts: int, pods: int) -> None:
    """Pods that are too many end, those of the last scaling first; more are a job of their own."""
    more = pods - sum(count for _, count, _, until in one.scaled if until is None)
    if more > 0:
        one.scaled.append((event, more, ts, None))
    for place in range(len(one.scaled) - 1, -1, -1):
        began, count, since, until = one.scaled[place]
        if more >= 0:
            break
        if until is None:
            ends = min(count, -more)
            one.scaled[place] = (began, ends, since, ts)
            if ends < count:
                one.scaled.append((began, count - ends, since, None))
            more += ends


def _label(manifest: Mapping[str, Any]) -> str:
    return str((manifest["metadata"].get("labels") or {}).get(QUEUE_LABEL) or "")


def _asked(manifest: Mapping[str, Any], paths: list[str]) -> dict[str, Any]:
    """The requests of a pod: the largest of several templates."""
    most: Counter[str] = Counter()
    priority = None
    for path in paths:
        for template in _at(manifest, [part for part in path.split("/") if part]):
            spec = template.get("spec") if isinstance(template, dict) else None
            if isinstance(spec, dict):
                most |= _requests(spec)
                priority = spec.get("priority") if priority is None else priority
    return {
        "cpu_milli": most["cpu"] or None,
        "memory_bytes": most["memory"] or None,
        "gpu_milli": most[GPU] * 1000 or None,
        "priority": priority if isinstance(priority, int) and abs(priority) <= HIGHEST_PRIORITY else None,
    }


def _at(found: Any, path: list[str]) -> Iterator[Any]:
    """A JSON pointer, in which `*` is every entry of a list."""
    if not path:
        yield found
    elif path[0] == "*" and isinstance(found, list):
        for entry in found:
            yield from _at(entry, path[1:])
    elif isinstance(found, dict) and path[0] in found:
        yield from _at(found[path[0]], path[1:])


def _requests(spec: Mapping[str, Any]) -> Counter[str]:
    """The sum of its containers, at least what an init container asks for. A limit without a request is one."""
    found: Counter[str] = Counter()
    for container in spec.get("containers") or []:
        found += _of_container(container)
    for container in spec.get("initContainers") or []:
        found |= _of_container(container)
    return found


def _of_container(container: Any) -> Counter[str]:
    resources = (container.get("resources") if isinstance(container, dict) else None) or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    found: Counter[str] = Counter()
    for resource in ("cpu", "memory", GPU):
        try:
            found[resource] = parse_quantity(asked.get(resource, 0), resource)
        except ValueError:
            continue
    return found
