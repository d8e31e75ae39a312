"""`seatrial validate`: checks scenario files without running them."""

from __future__ import annotations

import typer

from seatrial.cli.output import progress_console


def validate(
    files: list[str] = typer.Argument(
        ..., metavar="FILE…", help="Scenario files, or names of scenarios that come with seatrial."
    ),
) -> None:
    """Check scenario files: every mistake with file, line, column and remedy. Ends with status 2 if there is a mistake.

    Findings (pods that fit nowhere, set-ups whose stack cannot run the scenario) are printed, but are not mistakes.

    The line of a valid file says how many set-ups, trials, queues and cohorts it has.

    Example: seatrial validate scenarios/*.yaml
    """
    from seatrial import stacks
    from seatrial.cli.queue_table import counted_queues
    from seatrial.model.errors import UsageProblem
    from seatrial.scenario.document import read
    from seatrial.scenario.expansion import expand
    from seatrial.scenario.settings_file import with_settings_file
    from seatrial.study.eligibility import all_findings, refuse_missing_stages

    wrong = False
    words = progress_console()
    for file in files:
        try:
            source = with_settings_file(read(file))
            trials = expand(source, on="sim", stacks=stacks.settings(), stages=stacks.stages())
            refuse_missing_stages(trials)
        except UsageProblem as problem:
            wrong = True
            typer.echo("\n".join(problem.lines()), err=True)
            continue
        for finding in dict.fromkeys(finding for trial in trials for finding in all_findings(trial)):
            words.print(f"{file}: finding: {finding}", soft_wrap=True, markup=False)
        setups = len({trial.setup.name for trial in trials})
        queues = counted_queues(trials[0].setup.fleet)
        counts = [_counted(setups, "set-up"), _counted(len(trials), "trial"), *([queues] if queues else [])]
        typer.echo(f"{file}: valid, {', '.join(counts)}")
    raise typer.Exit(2 if wrong else 0)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
