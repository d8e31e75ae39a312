"""`seatrial export`: a study as Parquet, Perfetto trace, OpenMetrics or Markdown; a trace of workloads as SimKube's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from seatrial.cli.output import OUT_ARGUMENT, OUT_OPTION, study_directory
from seatrial.model.errors import UsageProblem

if TYPE_CHECKING:
    from seatrial.analysis.studies import Study

SKTRACE = "sktrace"  # of a trace of workloads, not of a study
FORMS = {"parquet": "parquet", "perfetto": "traces", "openmetrics": "metrics.txt", "seeds": "table.md"}


def export(
    given: Path | None = OUT_ARGUMENT,
    to: str = typer.Option(
        ..., "--to", metavar="FORM", help="parquet, perfetto, openmetrics or seeds; of a trace: sktrace."
    ),
    out: Path | None = OUT_OPTION,
    into: Path | None = typer.Option(
        None,
        "--into",
        metavar="PATH",
        help="File to write, or folder for parquet and several traces [default: NAME-…].",
    ),
    trial: str = typer.Option("", "--trial", metavar="NAME", help="With perfetto: this trial only, into one file."),
    tester: str = typer.Option("", "--tester", metavar="WHO", help="With seeds: who ran it."),
) -> None:
    """Write a study as Parquet, as a trace for Perfetto, as OpenMetrics text, or as the experiments' Markdown tables.

    With --to sktrace the argument is a trace of workloads (SWF, a recording, …), which is written as SimKube's.

    Example: seatrial export -o out/small --to perfetto --trial 001-kwok-r1 --into trace.json
    """
    from seatrial.analysis.studies import Study
    from seatrial.scenario.nearest import remedy_for

    if given is not None and out is not None and into is None:
        out, into = given, out  # the former form: `export OUT -o FILE`
        given = None
    if to == SKTRACE:
        _as_sktrace(given or out, into)
        return
    out = study_directory(given, out)
    if to not in FORMS:
        raise UsageProblem(f"--to {to}: unknown format", remedy_for(to, (*FORMS, SKTRACE)))
    study = Study.open(out)
    target = into or Path(f"{out.resolve().name}-{FORMS[to]}")
    if trial and to != "perfetto":
        raise UsageProblem(f"--trial cannot be combined with --to {to}", "only --to perfetto exports a single trial")
    if not study.trials:
        raise UsageProblem(f"{out}: no trial was begun", "there is nothing to export; run it again")
    try:
        files = _traces(study, trial, into, target) if to == "perfetto" else _tables(study, to, target, tester)
    except OSError as error:
        what = f"{target} cannot be written: {error.strerror}"
        raise UsageProblem(what, "give --into another path") from None
    for note in study.notes:
        typer.echo(f"note: {note}", err=True)
    for file in files:
        typer.echo(file)


def _tables(study: Study, to: str, target: Path, tester: str) -> list[Path]:
    from seatrial.report.exports import openmetrics, parquet, seeds

    if to == "parquet":
        return parquet.write_parquet(study, target)
    if to == "openmetrics":
        return [openmetrics.write_openmetrics(study, target)]
    return [seeds.write_seeds(study, target, tester)]


def _traces(study: Study, trial: str, into: Path | None, folder: Path) -> list[Path]:
    """A file for the one trial, or a folder with a file for each."""
    from seatrial.report.exports import perfetto
    from seatrial.scenario.nearest import remedy_for

    trials = {one.name: one for one in study.trials}
    if trial and trial not in trials:
        raise UsageProblem(f"{study.out} has no trial '{trial}'", remedy_for(trial, trials))
    chosen = [trials[trial]] if trial else list(study.trials)
    if len(chosen) == 1:
        return [perfetto.write_trace(chosen[0], into or Path(f"{chosen[0].name}.trace.json"))]
    folder.mkdir(parents=True, exist_ok=True)
    return [perfetto.write_trace(one, folder / f"{one.name}.trace.json") for one in chosen]


def _as_sktrace(file: Path | None, into: Path | None) -> None:
    """A trace of any format, as a replay would submit it."""
    from seatrial.cli.output import bare_name, check_file, nearest_named
    from seatrial.record.files import atomic_write
    from seatrial.traces.arrivals import arrange
    from seatrial.traces.options import TraceOptions
    from seatrial.traces.reading import read
    from seatrial.traces.selecting import select
    from seatrial.traces.simkube_writing import write_sktrace

    if file is None or file.is_dir():
        what = "no trace is named" if file is None else f"{file} is a directory"
        raise UsageProblem(
            f"--to {SKTRACE}: {what}", "name a trace of workloads, like january/trace.parquet or kth.swf"
        )
    target = into or Path(f"{bare_name(file)}.sktrace")
    check_file("--into", target)
    options = TraceOptions()
    with nearest_named():
        trace = read(file)
        arrivals = arrange(trace, select(trace, options), options)
    with atomic_write(target) as part:
        notes = write_sktrace(arrivals, trace.starts_at, part)
    for note in (*arrivals.notes, *notes):
        typer.echo(f"note: {note}", err=True)
    typer.echo(target)
