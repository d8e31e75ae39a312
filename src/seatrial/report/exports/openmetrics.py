"""The figures of every trial as OpenMetrics text, for a Prometheus that keeps CI results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.analysis.cells import as_text
from seatrial.analysis.studies import Study
from seatrial.analysis.team_tables import team_rows
from seatrial.model.figures import CLASS, FIGURES, LABELS, QUEUE, RATIO, TEXT, Figure
from seatrial.record.files import atomic_write

# OpenMetrics suffixes of units; figures with other units have none.
UNITS = {"s": "seconds", "core-s": "core_seconds", "GPU-s": "gpu_seconds", "GiB-s": "gibibyte_seconds"}
METRICS = tuple(figure for figure in FIGURES.values() if figure.kind != TEXT and not figure.label)


def write_openmetrics(study: Study, path: Path) -> Path:
    """Writes the figures and returns their path."""
    with atomic_write(path) as part:
        part.write_text("\n".join(lines(study)) + "\n", encoding="utf-8")
    return path


def lines(study: Study) -> Iterator[str]:
    """The lines of the file: figures of trials, then those of queues and classes under names of their own, so that a sum over a
    metric counts nothing twice."""
    rows = study.rows
    params = list(dict.fromkeys(name for row in rows for name in row if name not in FIGURES))
    yield from _families("", rows, params, ())
    for group in (QUEUE, CLASS):
        yield from _families(f"{group}_", team_rows(study, group), params, (group,))
    yield "# EOF"


def _families(
    prefix: str, rows: Sequence[Mapping[str, Any]], params: Sequence[str], more: Sequence[str]
) -> Iterator[str]:
    labels = [_labels(row, params, more) for row in rows]
    for figure in METRICS:
        values = [
            (of, row[figure.name]) for of, row in zip(labels, rows, strict=True) if row.get(figure.name) is not None
        ]
        if not values:
            continue
        name, unit = metric(figure, prefix), _unit(figure)
        yield f"# TYPE {name} gauge"
        yield from [f"# UNIT {name} {unit}"] if unit else []
        yield f"# HELP {name} {_escaped(figure.about)}"
        for of, value in values:
            yield f"{name}{{{of}}} {float(value) if isinstance(value, int | float) else value!r}"


def metric(figure: Figure, prefix: str = "") -> str:
    """`seatrial_total_seconds` for `total_s`, `seatrial_queue_total_seconds` for that of a queue."""
    unit = _unit(figure)
    return f"seatrial_{prefix}{figure.name.removesuffix('_s')}_{unit}" if unit else f"seatrial_{prefix}{figure.name}"


def _unit(figure: Figure) -> str:
    return "ratio" if figure.kind == RATIO else UNITS.get(figure.unit, "")


def _labels(row: Mapping[str, Any], params: Sequence[str], more: Sequence[str]) -> str:
    named = [
        *((name, row.get(name)) for name in (*LABELS, "outcome", *more)),
        *((f"param_{_plain(name)}", row.get(name)) for name in params),
    ]
    return ",".join(f'{name}="{_escaped(as_text(value))}"' for name, value in named if value is not None)


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name.removeprefix("param_"), flags=re.ASCII)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
