"""Load, processor time and memory of the machine and its processes, from /proc."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from seatrial.record.metrics import MetricSample

_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
PROC = Path("/proc")


def machine() -> list[MetricSample]:
    """Load average of a minute, busy processor seconds of all cores since boot, memory in use; empty without /proc."""
    try:
        load = float((PROC / "loadavg").read_text().split()[0])
        ticks = [int(n) for n in (PROC / "stat").read_text().partition("\n")[0].split()[1:9]]
        memory = dict(line.split(":", 1) for line in (PROC / "meminfo").read_text().splitlines())
        kilobytes = {key: int(memory[key].split()[0]) for key in ("MemTotal", "MemAvailable")}
    except (OSError, ValueError, KeyError, IndexError):
        return []
    idle = ticks[3] + ticks[4]
    return [
        ("load_average", "", load),
        ("cpu_busy_seconds", "", (sum(ticks) - idle) / _TICK),
        ("cpu_cores", "", float(os.cpu_count() or 1)),
        ("memory_used_bytes", "", (kilobytes["MemTotal"] - kilobytes["MemAvailable"]) * 1024.0),
    ]


def processes(pids: Mapping[str, int]) -> dict[str, list[MetricSample]]:
    """Processor seconds and resident memory of each process that runs."""
    found: dict[str, list[MetricSample]] = {}
    for name, pid in pids.items():
        try:
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        spent = (int(fields[11]) + int(fields[12])) / _TICK
        found[name] = [
            ("process_cpu_seconds", "", spent),
            ("process_resident_bytes", "", int(fields[21]) * float(_PAGE)),
        ]
    return found


def free_bytes() -> int:
    """Memory available without swapping; 0 if unknown."""
    try:
        lines = dict(line.split(":", 1) for line in (PROC / "meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return 0
