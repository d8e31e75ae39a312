"""Small traces of our own making, in each format."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec

SWF_HEADER = "; Version: 2.2\n; MaxProcs: 100\n; UnixStartTime: 843480031\n;\n"


def swf_line(
    job: int, submit: int, run: int = 60, processors: int = 4, wait: int = 10, user: int = 7, queue: int = 1, after: int = -1,
    think: int = -1, status: int = 1, memory: int = -1,
) -> str:  # fmt: skip
    """A line of SWF: 18 columns."""
    request = f"{processors} 3600 {memory}"
    return (
        f"{job:6d} {submit} {wait} {run} {processors} -1 -1 {request} {status} {user} 3 -1 {queue} 1 {after} {think}\n"
    )


def swf(path: Path, lines: list[str] | None = None) -> Path:
    """Four jobs within a minute, unless given; gzipped if the name ends so."""
    lines = lines or [
        swf_line(1, 100),
        swf_line(2, 110, processors=1),
        swf_line(3, 110, run=0),
        swf_line(4, 160, user=8),
    ]
    text = (SWF_HEADER + "".join(lines)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def openb(path: Path) -> Path:
    """Three pods: one with half a GPU, one with two, one that was never scheduled."""
    path.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "p-0,4000,1024,1,500,,LS,Succeeded,0,100,10\n"
        "p-1,8000,2048,2,1000,V100M16|V100M32,BE,Failed,30,90,30\n"
        "p-2,1000,0,0,0,,LS,Pending,60,75,\n"
    )
    return path


def philly(path: Path) -> Path:
    """Three jobs, one of 12 GPUs, in two virtual clusters, not in order; a row of nothing at the end."""
    path.write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:01:00,60.0,1,60.0,aaa\n"
        "2017-10-09 07:00:00,30.0,12,360.0,bbb\n"
        "2017-10-09 07:02:00,10.0,2,20.0,aaa\n"
        ",,,,\n"
    )
    return path


def table(path: Path) -> Path:
    """A CSV of a layout that nobody knows."""
    path.write_text(
        "who;arrived;runtime_ms;cores;mem;gpu\n"
        "ann;2024-01-01T10:00:00+01:00;1500;0.5;512;0\n"
        "bob;2024-01-01T09:00:10Z;2000;2;1024;0.5\n"
        "ann;2024-01-01 09:00:20;60000;1;256;2\n"
    )
    return path


TABLE_COLUMNS = {
    "submit": ("arrived", ""), "duration": ("runtime_ms", "ms"), "cpu": ("cores", ""), "memory": ("mem", "MiB"),
    "gpus": ("gpu", ""), "user": ("who", ""),
}  # fmt: skip


T = 1_700_000_000
SACCT_HEADER = (
    "JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|Elapsed|State|AllocCPUS|NNodes|ReqMem|AllocTRES"
)


def sacct(path: Path, more: str = "") -> Path:
    """Four jobs: two nodes with GPUs and a step, one that waited for another, one cancelled before it ran, one still running."""
    path.write_text(
        f"{SACCT_HEADER}\n"
        "101|ann|phys|batch|normal|2024-03-01T10:00:00|2024-03-01T10:00:00|2024-03-01T10:05:00|2024-03-01T11:05:00|01:00:00|"
        "COMPLETED|8|2|4Gc|billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=32G,node=2\n"
        "101.batch|||||2024-03-01T10:05:00|2024-03-01T10:05:00|2024-03-01T10:05:00|2024-03-01T11:05:00|01:00:00|"
        "COMPLETED|4|1||cpu=4,mem=16G,node=1\n"
        "102_3|bob|chem|batch|high|2024-03-01T10:01:00|2024-03-01T12:00:00|2024-03-02T00:00:00|2024-03-03T02:00:10|1-02:00:10|"
        "TIMEOUT|16|1|64000M|\n"
        "103|bob|chem|debug|high|2024-03-01T10:02:00|Unknown|Unknown|Unknown|00:00:00|CANCELLED by 1000|4|1|4000M|\n"
        "104|bob|chem|debug|high|2024-03-01T10:02:30|Unknown|2024-03-01T10:02:30|Unknown|00:10:00|RUNNING|4|1|2Gc|\n"
        + more
    )
    return path


def _kube(kind: str, name: str, spec: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    group, _, short = kind.rpartition(".")
    return {
        "apiVersion": group,
        "kind": short,
        "metadata": {"name": name, "namespace": "red", "labels": labels or {}},
        "spec": spec,
    }


def _pod(cpu: str, gpus: int = 0) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {"spec": {"containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": limits}}]}}


def sktrace(path: Path, version: int = 2) -> Path:
    """By SimKube's documentation: a Job of two pods, a Pod that was deleted, a Deployment scaled up and down, a CronJob's two
    runs, a kind of the tracer's configuration, a ConfigMap."""
    job = _kube(
        "batch/v1.Job", "train", {"parallelism": 2, "template": _pod("500m", 4)}, {"kueue.x-k8s.io/queue-name": "gold"}
    )
    web, tasks = {"template": _pod("1")}, [{"template": _pod("2")}, {"template": _pod("3")}]
    lone, gang = (
        {**_kube("v1.Pod", "lone", {}), **_pod("1")},
        _kube("batch.volcano.sh/v1alpha1.Job", "gang", {"tasks": tasks}),
    )
    cron = _kube("batch/v1.CronJob", "tick", {"jobTemplate": {"spec": {"template": _pod("1")}}})
    few, many = (
        _kube("apps/v1.Deployment", "web", {"replicas": 1, **web}),
        _kube("apps/v1.Deployment", "web", {"replicas": 4, **web}),
    )
    events = [
        (T + 0, [job, few, _kube("v1.ConfigMap", "settings", {})], []), (T + 10, [job, many, lone], []), (T + 20, [cron, gang], []),
        (T + 30, [few], [lone]), (T + 100, [], [few]),
    ]  # fmt: skip
    trace = {
        "version": version,
        "config": {"trackedObjects": {"batch.volcano.sh/v1alpha1.Job": {"podSpecTemplatePaths": ["/spec/tasks/*/template"]}}},
        "events": [{"ts": ts, "applied_objs": applied, "deleted_objs": deleted} for ts, applied, deleted in events],
        "index": {"batch/v1.Job": {"red/train": 2**63 + 1}},
        "pod_lifecycles": {
            ("batch/v1.Job", "red/train"): {7: [{"start_ts": T + 5, "end_ts": T + 65}, {"start_ts": T + 6, "end_ts": T + 60}]},
            ("batch/v1.CronJob", "red/tick"): {8: [{"Finished": [T + 21, T + 24]}, {"Running": T + 81}]},
            ("batch.volcano.sh/v1alpha1.Job", "red/gang"): {
                1: [{"Finished": [T + 22, T + 40]}], 2: [{"Finished": [T + 23, T + 49]}],
            },
        },
    }  # fmt: skip
    path.write_bytes(msgspec.msgpack.encode(trace))
    return path
