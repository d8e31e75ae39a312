"""`seatrial export`: a study in a form that other programs read."""

from __future__ import annotations

from pathlib import Path

import typer

from seatrial.model.errors import UsageProblem

FORMS = {"parquet": "parquet", "perfetto": "traces", "openmetrics": "metrics.txt", "seeds": "table.md"}


def export(
    out: Path = typer.Argument(..., metavar="OUT", help="A study directory."),
    to: str = typer.Option(..., "--to", metavar="FORM", help="parquet, perfetto, openmetrics or seeds."),
    into: Path | None = typer.Option(
        None,
        "-o",
        "--out",
        metavar="PATH",
        help="File to write, or folder for parquet and several traces [default: NAME-…].",
    ),
    trial: str = typer.Option("", "--trial", metavar="NAME", help="With perfetto: this trial only, into one file."),
    tester: str = typer.Option("", "--tester", metavar="WHO", help="With seeds: who ran it."),
) -> None:
    """Write a study as Parquet, as a trace for Perfetto, as OpenMetrics text, or as the experiments' Markdown tables.

    Example: seatrial export out/small --to perfetto --trial 001-kwok-r1 -o trace.json
    """
    from seatrial.analysis.directory import read_study
    from seatrial.report.exports import openmetrics, parquet, perfetto, seeds
    from seatrial.scenario import remedy_for

    if to not in FORMS:
        raise UsageProblem(f"--to {to}: no such form", remedy_for(to, FORMS))
    study = read_study(out)
    target = into or Path(f"{out.resolve().name}-{FORMS[to]}")
    if trial and to != "perfetto":
        raise UsageProblem(f"--trial does not go with --to {to}", "only a trace is of one trial")
    if not study.trials:
        raise UsageProblem(f"{out}: no trial was begun", "there is nothing to export; run it again")
    files: list[Path]
    if to == "parquet":
        files = parquet.write_parquet(study, target)
    elif to == "openmetrics":
        files = [openmetrics.write_openmetrics(study, target)]
    elif to == "seeds":
        files = [seeds.write_seeds(study, target, tester)]
    else:
        trials = {one.name: one for one in study.trials}
        if trial and trial not in trials:
            raise UsageProblem(f"{out} has no trial '{trial}'", remedy_for(trial, trials))
        chosen = [trials[trial]] if trial else list(study.trials)
        if len(chosen) == 1:
            files = [perfetto.write_trace(chosen[0], into or Path(f"{chosen[0].name}.trace.json"))]
        else:
            target.mkdir(parents=True, exist_ok=True)
            files = [perfetto.write_trace(one, target / f"{one.name}.trace.json") for one in chosen]
    for note in study.notes:
        typer.echo(f"note: {note}", err=True)
    for file in files:
        typer.echo(file)
