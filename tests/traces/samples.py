"""Small traces of our own making, in each format."""

from __future__ import annotations

import gzip
from pathlib import Path

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
