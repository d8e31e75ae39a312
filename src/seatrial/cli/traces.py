"""`seatrial traces inspect`: what is in a trace, before anybody waits for a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from seatrial.cli.output import bare_name, check_file, nearest_named, with_volume
from seatrial.model.errors import UsageProblem
from seatrial.traces.options import FRACTIONS, ROUND_UP, TraceOptions

if TYPE_CHECKING:
    from seatrial.traces.inspecting import Inspection

PICTURES = (".png", ".svg", ".pdf")

traces_app = typer.Typer(
    no_args_is_help=True, help="Look into traces of workloads.", epilog="Example: seatrial traces inspect january.swf"
)


@traces_app.callback()
def _traces() -> None:
    """A group of commands, even while it has only one."""


@traces_app.command(epilog="Example: seatrial traces inspect january.swf --nodes nodes.csv")
@with_volume
def inspect(
    file: Path = typer.Argument(..., metavar="FILE", help="The trace."),
    nodes: Path | None = typer.Option(
        None, "--nodes", metavar="FILE", help="Fleet to compare with: a list of nodes (CSV), node groups or a scenario (YAML)."
    ),
    strict: bool = typer.Option(False, "--strict", help="Refuse a trace with unusable lines."),
    form: str = typer.Option("", "--format", metavar="FORMAT", help="Format of the trace [default: by its content]."),
    column: list[str] = typer.Option(
        [], "--column", metavar="FIELD=NAME", help="Column of a table: submit=arrived_at, duration=runtime:ms; repeatable."
    ),
    processors_per_pod: int = typer.Option(1, "--processors-per-pod", metavar="N", min=1, help="Processors of a pod."),
    gpus_per_pod: int = typer.Option(8, "--gpus-per-pod", metavar="N", min=1, help="GPUs of a pod."),
    fractions: str = typer.Option(ROUND_UP, "--fractions", metavar="WAY", help="Fractions of a GPU: up, milli or drop."),
    unknown_duration: str = typer.Option(
        "", "--unknown-duration", metavar="TIME", help="Duration of jobs of unknown duration [default: left out]."
    ),
    unknown_size: int = typer.Option(
        0, "--unknown-size", metavar="N", min=0, help="Processors of jobs of unknown size; 0: left out."
    ),
    picture: Path | None = typer.Option(
        None, "--picture", metavar="FILE", help="File of the picture: .png, .svg or .pdf [default: NAME-trace.png here].",
        show_default=False,
    ),
) -> None:  # fmt: skip
    """Show what is in a trace: arrivals, sizes, durations, demand against a fleet, and what a replay would leave out.

    Nothing is run.
    """
    from seatrial.report.trace_picture import write_trace_picture

    options = TraceOptions(
        format=form, columns=_columns(column), strict=strict, processors_per_pod=processors_per_pod, gpus_per_pod=gpus_per_pod,
        fractions=_fractions(fractions), unknown_duration=_duration(unknown_duration), unknown_size=unknown_size,
    )  # fmt: skip
    target = picture or Path(f"{bare_name(file)}-trace.png")
    if target.suffix not in PICTURES:
        raise UsageProblem(f"--picture {target}: unknown kind of picture", f"let it end in {', '.join(PICTURES)}")
    check_file("--picture", target)
    with nearest_named():
        found = _inspection(file, options, nodes)
    _show(found)
    typer.echo(write_trace_picture(found, target))


def _inspection(file: Path, options: TraceOptions, nodes: Path | None) -> Inspection:
    from seatrial.cli.node_files import nodes_to_compare
    from seatrial.traces.arrivals import arrange
    from seatrial.traces.inspecting import inspect as look
    from seatrial.traces.options import IN_MILLI
    from seatrial.traces.reading import read
    from seatrial.traces.selecting import select

    fleet = nodes_to_compare(nodes, IN_MILLI if options.fractions == IN_MILLI else "whole") if nodes else ()
    trace = read(file, options.format, {field: (name, unit) for field, name, unit in options.columns}, options.strict)
    return look(trace, arrange(trace, select(trace, options), options), fleet)


def _show(found: Inspection) -> None:
    from rich.console import Console

    from seatrial.report.text_tables import print_columns, print_line
    from seatrial.report.trace_text import heading, sections, spread_columns

    console = Console(highlight=False)
    for line in heading(found):
        print_line(console, line)
    columns = spread_columns(found)
    print_line(console, "")
    print_columns(console, columns, [True] * len(columns[0].cells))
    for title, lines in sections(found):
        print_line(console, f"\n{title}:", "bold")
        for line in lines:
            print_line(console, f"  {line}")


def _columns(written: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    from seatrial.scenario.nearest import remedy_for
    from seatrial.traces.mapped_tables import MAPPED

    found = []
    for one in written:
        field, there, name = one.partition("=")
        if not there or not name:
            raise UsageProblem(
                f"--column {one}: no column is named", "write it like submit=arrived_at or duration=runtime:ms"
            )
        if field not in MAPPED:
            raise UsageProblem(f"--column {one}: unknown field '{field}' of a trace", remedy_for(field, MAPPED))
        before, _, unit = name.rpartition(":")  # a column's own name may have a colon
        found.append((field, before, unit) if before and unit in MAPPED[field].units else (field, name, ""))
    return tuple(found)


def _fractions(way: str) -> str:
    from seatrial.scenario.nearest import remedy_for

    if way not in FRACTIONS:
        raise UsageProblem(f"--fractions {way}: unknown way", remedy_for(way, FRACTIONS))
    return way


def _duration(text: str) -> int:
    from seatrial.model.units import parse_duration

    try:
        return parse_duration(text) if text else -1
    except ValueError as error:
        raise UsageProblem(f"--unknown-duration: {error}", "write it like 30m or 1h") from None
