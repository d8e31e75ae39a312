"""`seatrial find`: the smallest (or largest) value of anything in a scenario for which a condition holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from seatrial.cli import trial_options
from seatrial.cli.find_question import AT_ONCE, BUDGET, REPEATS, AskedOptions, check_conditions
from seatrial.cli.output import error_console, print_lines, progress_console
from seatrial.cli.ray_option import check_ray, executor_on
from seatrial.cli.run import default_out, leave_at_once
from seatrial.cli.run_plan import RunPlan, TrialOptions, Where, check_condition, listed, planned, prepared
from seatrial.model.errors import UsageProblem

if TYPE_CHECKING:
    from seatrial.analysis.searched_studies import Question
    from seatrial.model.plan import Scalar, Trial


def find(
    scenario: str = typer.Argument(
        "", metavar="SCENARIO", help="A scenario file, or the name of one that comes with seatrial."
    ),
    vary: list[str] = typer.Option(
        [], "--vary", metavar="PATH=RANGE", help="The variable: nodes.gpu.count=10..500; one or two."
    ),
    so_that: list[str] = typer.Option(
        [], "--so-that", metavar="CONDITION", help="What must hold, as in `expect`: 'wait_p95_s <= 600'; repeatable."
    ),
    price: list[str] = typer.Option(
        [],
        "--price",
        metavar="PATH=PRICE",
        help="Price of one more of a variable: nodes.gpu=12; the cheapest mix is found.",
    ),
    smallest: bool = typer.Option(False, "--smallest", help="Find the smallest value."),
    largest: bool = typer.Option(
        False, "--largest", help="Find the largest value [default: by the ends of the range]."
    ),
    repeat: int | None = typer.Option(
        None, "--repeat", metavar="N", min=1, help=f"Trials whose mean decides at a value [default: {REPEATS}]."
    ),
    budget: int | None = typer.Option(
        None,
        "--budget",
        metavar="TRIALS",
        min=2,
        help=f"Trials at most, per search [default: {BUDGET} for each variable].",
    ),
    at_once: int | None = typer.Option(
        None,
        "--at-once",
        metavar="N",
        min=1,
        help=f"Values tried side by side: more on many cores [default: {AT_ONCE}].",
    ),
    on: str = trial_options.ON,
    setup: str = trial_options.SETUP,
    stack: str = trial_options.STACK,
    sets: list[str] = trial_options.SETS,
    seed: int | None = trial_options.SEED,
    out: Path | None = trial_options.OUT,
    force: bool = trial_options.FORCE,
    resume: Path | None = typer.Option(
        None,
        "--resume",
        metavar="OUT",
        help="Continue the search in OUT; a larger --budget continues one that ended.",
    ),
    jobs: int | None = trial_options.JOBS,
    ray: str = trial_options.RAY,
    limit: str = trial_options.LIMIT,
    cluster: str = trial_options.CLUSTER,
    context: str = trial_options.CONTEXT,
    kubeconfig: Path | None = trial_options.KUBECONFIG,
    binaries: Path | None = trial_options.BINARIES,
) -> None:
    """Find the smallest (or largest) value of anything in a scenario for which a condition holds, in tens of trials.

    Example: seatrial find fleet.yaml --vary nodes.gpu.count=10..500 --so-that 'wait_p95_s <= 600' -o out/fleet

    The cheapest mix: seatrial find fleet.yaml --vary nodes.a.count=0..40 --vary nodes.b.count=0..40 --price nodes.a=3
    --price nodes.b=8 --so-that 'wait_p95_s <= 600'

    After Ctrl-C, or for a closer look: seatrial find --resume out/fleet --budget 60
    """
    if resume is not None and (out is not None or force):
        raise UsageProblem("--resume cannot be combined with -o or --force", "OUT of --resume is the study directory")
    if smallest and largest:
        raise UsageProblem("--smallest and --largest cannot be combined", "give only one")
    direction = True if largest else False if smallest else None
    asked = AskedOptions(vary, so_that, price, direction, repeat, budget, at_once)
    question = asked.question() if resume is None else asked.continued(resume)
    where = Where(on, cluster, binaries, context, kubeconfig, [])
    chosen = TrialOptions(listed(setup), listed(stack), sets, 1, seed, question.vary, limit)
    plan = _planned(scenario, where, chosen, resume, question)
    check_ray(ray, plan.trials)
    _run(plan, question, resume or out or default_out(plan.source.name), force, jobs, ray, resume is not None)


def _planned(scenario: str, where: Where, chosen: TrialOptions, resume: Path | None, question: Question) -> RunPlan:
    """The plan for both ends of the ranges; raises if the scenario, a variable or a condition is wrong."""
    check_conditions(question)
    ends = [
        dataclasses.replace(one, values=tuple(dict.fromkeys((one.grid[0], one.grid[-1])))) for one in question.variables
    ]
    plan = planned(scenario, where, chosen, resume, ends)
    for text in question.so_that:
        check_condition(plan, text, ends)
    return plan


def _of_values(
    plan: RunPlan, question: Question, trials: Sequence[Trial]
) -> Callable[[tuple[Scalar, ...]], Sequence[Trial]]:
    """The trials of a value of each variable, one for each case, as they would be after the preparations of `trials`."""
    target, setups = trials[0].target, {trial.setup.name for trial in trials}

    @lru_cache(None)
    def expanded(values: tuple[Scalar, ...]) -> Sequence[Trial]:
        pairs = zip(question.variables, values, strict=True)
        made = plan.expanded([dataclasses.replace(one, values=(value,)) for one, value in pairs])
        return [dataclasses.replace(trial, target=target, expect=()) for trial in made if trial.setup.name in setups]

    return expanded


def _run(plan: RunPlan, question: Question, out: Path, force: bool, jobs: int | None, ray: str, resume: bool) -> None:
    from rich.console import Console

    from seatrial.report.run_progress import Progress
    from seatrial.report.search_results import print_search
    from seatrial.study.finding import Searched, run_search
    from seatrial.study.interruption import interruption
    from seatrial.study.study_directory import left_behind, refuse_occupied

    notes, words = progress_console(), error_console()
    print_lines(notes, plan.notes)
    if not resume:
        refuse_occupied(out, force)
    trials, unbuilt = prepared(plan, elsewhere=bool(ray))
    print_lines(words, unbuilt)
    searched = Searched(question, plan.source.name, plan.document, plan.asked, _of_values(plan, question, trials))
    interruption.listen()
    result = None
    cases = len({(trial.setup.name, str({**trial.params, **dict.fromkeys(question.names)})) for trial in trials})
    try:
        most = question.limits.budget * cases
        with executor_on(ray, trials, jobs, notes) as executor, Progress(most, notes) as progress:
            result = run_search(
                searched, out, progress, force=force, jobs=jobs, executor=executor, resume=resume, keeping=progress.keep,
                reporting=progress.say,
            )  # fmt: skip
    finally:
        print_lines(words, left_behind(out, result.study if result else None))
    print_search(result.searches, result.cases, Console())
    for file in result.files:
        typer.echo(file)
    print_lines(words, result.never_began())
    if result.interrupted:
        words.print(f"interrupted; to continue: seatrial find --resume {out}", soft_wrap=True)
        leave_at_once(130)
    raise typer.Exit(3 if unbuilt else result.exit_status)
