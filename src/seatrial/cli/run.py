"""`seatrial run`: a scenario, from the file to the figures."""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path
from typing import NoReturn

import typer

from seatrial.cli import gate_options, trial_options
from seatrial.cli.output import error_console, print_lines, progress_console
from seatrial.cli.ray_option import check_ray, executor_on
from seatrial.cli.run_plan import TrialOptions, Where, listed, planned, prepared
from seatrial.model.errors import UsageProblem


def run(
    scenario: str = typer.Argument(
        "", metavar="SCENARIO", help="A scenario file, the name of one that comes with seatrial, or OUT/study.json."
    ),
    on: str = trial_options.ON,
    setup: str = trial_options.SETUP,
    stack: str = trial_options.STACK,
    sets: list[str] = trial_options.SETS,
    vary: list[str] = typer.Option(
        [],
        "--vary",
        metavar="PATH=RANGE",
        help="Sweep anything that the scenario has: nodes.gpu.count=10..50; repeatable.",
    ),
    repeat: int | None = typer.Option(None, "--repeat", metavar="N", min=1, help="Trials per set-up and parameters."),
    seed: int | None = trial_options.SEED,
    out: Path | None = trial_options.OUT,
    force: bool = trial_options.FORCE,
    resume: Path | None = typer.Option(
        None, "--resume", metavar="OUT", help="Continue the interrupted or killed study in OUT; its ended trials stay."
    ),
    jobs: int | None = trial_options.JOBS,
    ray: str = trial_options.RAY,
    limit: str = trial_options.LIMIT,
    cluster: str = trial_options.CLUSTER,
    context: str = trial_options.CONTEXT,
    kubeconfig: Path | None = trial_options.KUBECONFIG,
    profile: str = typer.Option(
        "", "--profile", metavar="A,B", help="With --on local: profile these components, e.g. kube-scheduler."
    ),
    binaries: Path | None = trial_options.BINARIES,
    baseline: Path | None = gate_options.BASELINE,
    junit: Path | None = gate_options.JUNIT,
    summary: Path | None = gate_options.SUMMARY,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print the trials and what they would create; start and write nothing."
    ),
) -> None:
    """Run a scenario and write a study: tables, pictures and everything observed.

    Example: seatrial run many-small-jobs --setup kwok,kwok+mcad --set jobs=10,50 --repeat 3 -o out/small

    A sweep: seatrial run kueue-baseline --vary 'settings.kueue.qps=10..1000 log 7'

    After Ctrl-C, kill -9 or a power failure: seatrial run --resume out/small
    """
    from rich.console import Console

    from seatrial.report.run_progress import Progress
    from seatrial.report.terminal import summary_table
    from seatrial.study.interruption import interruption
    from seatrial.study.running import run_study
    from seatrial.study.study_directory import left_behind, refuse_occupied

    if resume is not None and (out is not None or force):
        raise UsageProblem("--resume cannot be combined with -o or --force", "OUT of --resume is the study directory")
    base = gate_options.check_options(baseline, junit, summary)
    where = Where(on, cluster, binaries, context, kubeconfig, listed(profile) or [])
    chosen = TrialOptions(listed(setup), listed(stack), sets, repeat, seed, vary, limit)
    plan = planned(scenario, where, chosen, resume)
    check_ray(ray, plan.trials)
    notes = progress_console()
    print_lines(notes, plan.notes)
    target = resume or out or default_out(plan.source.name)
    if dry_run:
        from seatrial.cli.dry_run import print_plan

        print_plan(plan.trials, Console())
        return
    if resume is None:
        refuse_occupied(target, force)
    trials, unbuilt = prepared(plan, elsewhere=bool(ray))
    words = error_console()
    print_lines(words, unbuilt)
    interruption.listen()
    result = None
    try:
        with executor_on(ray, trials, jobs, notes) as executor, Progress(len(trials), notes) as progress:
            result = run_study(
                plan.source.name, plan.document, trials, plan.asked, target, progress,
                force=force, jobs=jobs, executor=executor, baseline=base, gated=bool(junit or summary), resume=resume is not None,
                keeping=progress.keep, reporting=progress.say,
            )  # fmt: skip
    finally:
        print_lines(words, left_behind(target, result.study if result else None))
    if result.study and result.study.trials:
        summary_table(result.study, Console())
    for file in result.files:
        typer.echo(file)
    gate_options.report_verdicts(result.study, result.verdicts, words, junit, summary)
    print_lines(words, result.never_began())
    if result.interrupted:
        words.print(progress.status, soft_wrap=True)
        words.print(
            f"interrupted; what was observed is in {target}. Pictures: seatrial report -o {target}", soft_wrap=True
        )
        words.print(f"To continue: seatrial run --resume {target}", soft_wrap=True)
        leave_at_once(result.exit_status)
    raise typer.Exit(3 if unbuilt else result.exit_status)


def leave_at_once(status: int) -> NoReturn:
    """Exits without freeing memory: a million simulated objects would take half a second."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def default_out(name: str) -> Path:
    """A directory named after the scenario and the time."""
    return Path("out") / f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
