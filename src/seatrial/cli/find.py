"""`seatrial find`: the smallest (or largest) value of anything in a scenario for which a condition holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from seatrial.cli.output import error_console, progress_console
from seatrial.cli.run import default_out, leave_at_once
from seatrial.cli.run_plan import RunPlan, TrialOptions, Where, check_condition, listed, planned, prepared
from seatrial.model.errors import UsageProblem, cut

if TYPE_CHECKING:
    from seatrial.analysis.searched_studies import Question
    from seatrial.model.plan import Scalar, Trial

BUDGET, REPEATS, AT_ONCE = 30, 5, 2


def find(
    scenario: str = typer.Argument(
        "", metavar="SCENARIO", help="A scenario file, or the name of one that comes with seatrial."
    ),
    vary: list[str] = typer.Option([], "--vary", metavar="PATH=RANGE", help="What to search: nodes.gpu.count=10..500."),
    so_that: list[str] = typer.Option(
        [], "--so-that", metavar="CONDITION", help="What must hold, as in `expect`: 'wait_p95_s <= 600'; repeatable."
    ),
    smallest: bool = typer.Option(False, "--smallest", help="The smallest value that will do."),
    largest: bool = typer.Option(
        False, "--largest", help="The largest value that will do [default: as the ends of the range say]."
    ),
    repeat: int | None = typer.Option(
        None, "--repeat", metavar="N", min=1, help=f"Trials whose mean decides at a value [default: {REPEATS}]."
    ),
    budget: int | None = typer.Option(
        None, "--budget", metavar="TRIALS", min=2, help=f"Trials at most, per search [default: {BUDGET}]."
    ),
    at_once: int | None = typer.Option(
        None,
        "--at-once",
        metavar="N",
        min=1,
        help=f"Values tried side by side: more on many cores [default: {AT_ONCE}].",
    ),
    on: str = typer.Option(
        "", "--on", metavar="CLUSTER", help="Where to run: sim, local or kubeconfig [default: sim]."
    ),
    setup: str = typer.Option("", "--setup", metavar="A,B", help="Only these set-ups of the scenario."),
    stack: str = typer.Option("", "--stack", metavar="A,B", help="These stacks, on the scenario's fake nodes."),
    sets: list[str] = typer.Option([], "--set", metavar="K=V[,V…]", help="Other values of a parameter; repeatable."),
    seed: int | None = typer.Option(None, "--seed", metavar="N", min=0, help="Seed of all random streams."),
    out: Path | None = typer.Option(
        None, "-o", "--out", metavar="OUT", help="Study directory [default: out/NAME-DATE]."
    ),
    force: bool = typer.Option(False, "--force", help="Replace the study in OUT."),
    resume: Path | None = typer.Option(
        None,
        "--resume",
        metavar="OUT",
        help="Continue the search in OUT; a larger --budget goes on with one that ended.",
    ),
    jobs: int | None = typer.Option(
        None, "-j", "--jobs", metavar="N", min=1, help="Parallel trials [default: by size, up to all cores]."
    ),
    limit: str = typer.Option("", "--limit", metavar="TIME", help="End a trial that takes longer, as timed out: 10m."),
    cluster: str = typer.Option(
        "", "--cluster", metavar="NAME", help="With --on local: a kept cluster instead of a fresh one."
    ),
    context: str = typer.Option(
        "", "--context", metavar="NAME", help="With --on kubeconfig: the context to use; there is no default."
    ),
    kubeconfig: Path | None = typer.Option(
        None, "--kubeconfig", metavar="FILE", help="Instead of KUBECONFIG and ~/.kube/config."
    ),
    binaries: Path | None = typer.Option(
        None, "--binaries", metavar="DIR", help="With --on local: ready-made programs. KUBEBUILDER_ASSETS works too."
    ),
) -> None:
    """Find the smallest (or largest) value of anything in a scenario for which a condition holds, in tens of trials.

    Example: seatrial find fleet.yaml --vary nodes.gpu.count=10..500 --so-that 'wait_p95_s <= 600' -o out/fleet

    After Ctrl-C, or for a closer look: seatrial find --resume out/fleet --budget 60
    """
    if resume is not None and (out is not None or force):
        raise UsageProblem("--resume cannot be combined with -o or --force", "OUT of --resume is the study directory")
    if smallest and largest:
        raise UsageProblem("--smallest and --largest cannot be combined", "give only one")
    direction = True if largest else False if smallest else None
    question = _question(vary, so_that, direction, repeat, budget, at_once, resume)
    where = Where(on, cluster, binaries, context, kubeconfig, [])
    chosen = TrialOptions(listed(setup), listed(stack), sets, 1, seed, [question.vary], limit)
    plan = _planned(scenario, where, chosen, resume, question)
    _run(plan, question, resume or out or default_out(plan.source.name), force, jobs, resume is not None)


def _question(
    vary: Sequence[str], so_that: Sequence[str], largest: bool | None, repeats: int | None, budget: int | None,
    at_once: int | None, resume: Path | None,
) -> Question:  # fmt: skip
    """The question of the options, or that of the search that goes on; raises if they differ, but for the budget."""
    from seatrial.analysis.searched_studies import Question
    from seatrial.analysis.searching import SearchLimits
    from seatrial.scenario.value_ranges import parse_variation
    from seatrial.study.resuming import begun_study

    if resume is not None:
        earlier = Question.of(begun_study(resume))
        if earlier is None:
            raise UsageProblem(
                f"--resume {cut(str(resume))}: the study is no search", f"seatrial run --resume {resume}"
            )
        given = {
            "--vary": (list(vary), [earlier.vary]),
            "--so-that": (list(so_that), list(earlier.so_that)),
            "--repeat": (repeats, earlier.repeats),
            "--at-once": (at_once, earlier.limits.at_once),
            "--largest or --smallest": (largest, earlier.limits.largest),
        }
        for option, (now, before) in given.items():
            if now not in (None, [], before):
                raise UsageProblem(
                    f"--resume {cut(str(resume))}: {option} was {before} and is {now}", "omit it, or begin a new search"
                )
        return dataclasses.replace(
            earlier, limits=dataclasses.replace(earlier.limits, budget=budget or earlier.limits.budget)
        )
    if len(vary) != 1:
        what = "no --vary" if not vary else "more than one --vary"
        raise UsageProblem(f"{what}: a search has one variable", "write one like --vary nodes.gpu.count=10..500")
    if not so_that:
        raise UsageProblem("no condition", "write one like --so-that 'wait_p95_s <= 600'")
    limits = SearchLimits(budget or BUDGET, at_once or AT_ONCE, largest)
    return Question(parse_variation(vary[0]), vary[0], tuple(so_that), repeats or REPEATS, limits)


def _planned(scenario: str, where: Where, chosen: TrialOptions, resume: Path | None, question: Question) -> RunPlan:
    """The plan for both ends of the range; raises if the scenario, the variable or the condition is wrong."""
    from seatrial.model.figures import FIGURES, FLAG
    from seatrial.scenario.expression_grammar import ExpressionProblem
    from seatrial.scenario.expressions import Expression

    grid = question.variable.grid
    ends = [dataclasses.replace(question.variable, values=tuple(dict.fromkeys((grid[0], grid[-1]))))]
    for text in question.so_that:
        try:
            expression = Expression.parse(text)
        except ExpressionProblem as problem:
            raise UsageProblem(f"--so-that '{cut(text)}': {problem.message}", problem.remedy) from None
        references = expression.references
        if not any(expression.comparisons()) and not any(FIGURES[name].kind == FLAG for name in expression.figures):
            raise UsageProblem(
                f"--so-that '{cut(text)}': a value instead of a comparison", "write one like 'wait_p95_s <= 600'"
            )
        if references:
            name = next(iter(references))
            raise UsageProblem(
                f"--so-that '{cut(text)}': {name} is of one set-up or of a baseline; each set-up has a search of its own",
                "name the figure alone, and choose set-ups with --setup",
            )
    plan = planned(scenario, where, chosen, resume, ends)
    for text in question.so_that:
        check_condition(plan, text, ends)
    return plan


def _of_value(plan: RunPlan, question: Question, trials: Sequence[Trial]) -> Callable[[Scalar], Sequence[Trial]]:
    """The trials of a value, one for each case, as they would be after the preparations of `trials`."""
    target, setups = trials[0].target, {trial.setup.name for trial in trials}

    @lru_cache(None)
    def expanded(value: Scalar) -> Sequence[Trial]:
        made = plan.expanded([dataclasses.replace(question.variable, values=(value,))])
        return [dataclasses.replace(trial, target=target, expect=()) for trial in made if trial.setup.name in setups]

    return expanded


def _run(plan: RunPlan, question: Question, out: Path, force: bool, jobs: int | None, resume: bool) -> None:
    from rich.console import Console

    from seatrial.report.run_progress import Progress
    from seatrial.report.search_lines import print_answers
    from seatrial.study.finding import Searched, run_search
    from seatrial.study.interruption import interruption
    from seatrial.study.study_directory import left_behind, refuse_occupied

    notes, words = progress_console(), error_console()
    for line in plan.notes:
        notes.print(line, soft_wrap=True, markup=False)
    if not resume:
        refuse_occupied(out, force)
    trials, unbuilt = prepared(plan)
    for line in unbuilt:
        words.print(line, soft_wrap=True, markup=False)
    searched = Searched(question, plan.source.name, plan.document, plan.asked, _of_value(plan, question, trials))
    interruption.listen()
    result = None
    cases = len(trials) // max(1, len({str(trial.params[question.name]) for trial in trials}))
    try:
        with Progress(question.limits.budget * cases, notes) as progress:
            result = run_search(
                searched, out, progress, force=force, jobs=jobs, resume=resume, keeping=progress.keep,
                reporting=progress.say,
            )  # fmt: skip
    finally:
        for line in left_behind(out, result.study if result else None):
            words.print(line, soft_wrap=True, markup=False)
    print_answers(result.searches, result.cases, Console())
    for file in result.files:
        typer.echo(file)
    for line in result.never_began():
        words.print(line, soft_wrap=True, markup=False)
    if result.interrupted:
        words.print(f"interrupted; to continue: seatrial find --resume {out}", soft_wrap=True)
        leave_at_once(130)
    raise typer.Exit(3 if unbuilt else result.exit_status)
