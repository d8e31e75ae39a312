"""The figures of every trial as OpenMetrics text, for a Prometheus that keeps what CI measured over the months."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from seatrial.analysis import figures as fig
from seatrial.analysis.directory import StudyRecord
from seatrial.analysis.tables import summary_rows

# Figure → unit as OpenMetrics spells it at the end of a name, and what it is.
ABOUT: Mapping[str, tuple[str, str]] = {
    "nodes": ("", "nodes that were there at any time"),
    "workloads": ("", "workloads that the steps would submit"),
    "pods": ("", "pods of the submitted workloads"),
    "submitted": ("", "workloads submitted"),
    "completed": ("", "workloads completed"),
    "failed": ("", "workloads that failed"),
    "deleted": ("", "workloads that were deleted before they completed"),
    "pending": ("", "workloads that came to no end"),
    "total_s": ("seconds", "first submission to last completion"),
    "rate_per_s": ("", "workloads completed per second"),
    "dispatch_per_s": ("", "workloads dispatched per second"),
    "creation_per_s": ("", "workloads created per second"),
    "p50_s": ("seconds", "median turnaround"),
    "p95_s": ("seconds", "95th percentile of turnaround"),
    "p99_s": ("seconds", "99th percentile of turnaround"),
    "mean_s": ("seconds", "mean turnaround"),
    "max_s": ("seconds", "largest turnaround"),
    "cpu_util": ("ratio", "share of the cores that running containers had requested"),
    "gpu_util": ("ratio", "share of the GPUs that running containers had requested"),
    "held_idle_s": ("core_seconds", "held by gangs that did not run"),
    "held_idle_gpu_s": ("gpu_seconds", "held by gangs that did not run"),
    "bound_per_s": ("", "pods bound to a node per second"),
    "schedule_p50_s": ("seconds", "median of a pod's time from created to bound"),
    "schedule_p99_s": ("seconds", "99th percentile of a pod's time from created to bound"),
    "end_s": ("seconds", "first submission to the end of the trial"),
    "requests": ("", "API requests of the load"),
    "rejected": ("", "API requests answered with 429"),
    "retried": ("", "API requests sent again"),
    "errors": ("", "API requests that failed otherwise"),
    "requests_per_s": ("", "API requests answered well per second"),
    "api_p50_s": ("seconds", "median of the load's API requests"),
    "api_p95_s": ("seconds", "95th percentile of the load's API requests"),
    "api_p99_s": ("seconds", "99th percentile of the load's API requests"),
    "in_flight_max": ("", "most requests that the server executed at the same time"),
    "queued_max": ("", "most requests that the server held in its queues"),
    "cpu_cores": ("", "how much of the machine was busy on average"),
    "pod_start_p99_s": ("seconds", "99th percentile from created to running"),
    "heartbeat_gap_s": ("seconds", "longest time in which some node's lease was not renewed"),
    "stalls": ("", "times at which no workload got on for 30 s or more"),
    "stalled_s": ("seconds", "how long these were in all"),
    "valid": ("", "whether the trial trusts its own figures"),
    **{name: ("", f"what the audit found: {audit}") for audit, name in fig.AUDITS.items()},
}
LABELS = ("scenario", "on", "setup", "stack", "repeat", "seed", "outcome")


def write_openmetrics(study: StudyRecord, path: Path) -> Path:
    part = path.with_name(path.name + ".part")
    part.write_text("\n".join(lines(study)) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def lines(study: StudyRecord) -> Iterator[str]:
    rows = summary_rows(study.out)
    params = list(dict.fromkeys(name for row in rows for name in row if name not in fig.FIXED))
    labels = [_labels(row, params) for row in rows]
    for figure, (unit, about) in ABOUT.items():
        values = [(of, value) for of, row in zip(labels, rows, strict=True) if (value := row.get(figure)) is not None]
        if not values:
            continue
        name = metric(figure)
        yield f"# TYPE {name} gauge"
        yield from [f"# UNIT {name} {unit}"] if unit else []
        yield f"# HELP {name} {_escaped(about)}"
        for of, value in values:
            yield f"{name}{{{of}}} {float(value) if isinstance(value, int | float) else value!r}"
    yield "# EOF"


def metric(figure: str) -> str:
    unit = ABOUT[figure][0]
    return f"seatrial_{figure.removesuffix('_s')}_{unit}" if unit else f"seatrial_{figure}"


def _labels(row: fig.Figures, params: Sequence[str]) -> str:
    named = [
        *((name, row.get(name)) for name in LABELS),
        *((f"param_{_plain(name)}", row.get(name)) for name in params),
    ]
    return ",".join(f'{name}="{_escaped(fig.as_text(value))}"' for name, value in named if value is not None)


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name.removeprefix("param_"), flags=re.ASCII)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
