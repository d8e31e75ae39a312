"""`seatrial run`: a scenario, from the file to the figures."""

from __future__ import annotations

import dataclasses
import datetime
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from seatrial.cli import gate_options
from seatrial.cli.output import error_console, progress_console
from seatrial.model.errors import SetupProblem, UsageProblem, cut
from seatrial.model.plan import NodeGroup, Target, Trial

if TYPE_CHECKING:
    from seatrial.scenario.document import Scenario

CLUSTERS = ("sim", "local", "kubeconfig")
PROFILED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def run(
    scenario: str = typer.Argument(
        ..., metavar="SCENARIO", help="A scenario file, the name of one that comes with seatrial, or OUT/study.json."
    ),
    on: str = typer.Option(
        "", "--on", metavar="CLUSTER", help="Where to run: sim, local or kubeconfig [default: sim]."
    ),
    setup: str = typer.Option("", "--setup", metavar="A,B", help="Only these set-ups of the scenario."),
    stack: str = typer.Option("", "--stack", metavar="A,B", help="These stacks, on the scenario's fake nodes."),
    sets: list[str] = typer.Option([], "--set", metavar="K=V[,V…]", help="Other values of a parameter; repeatable."),
    repeat: int | None = typer.Option(None, "--repeat", metavar="N", min=1, help="Trials per set-up and parameters."),
    seed: int | None = typer.Option(None, "--seed", metavar="N", min=0, help="Seed of all random streams."),
    out: Path | None = typer.Option(
        None, "-o", "--out", metavar="OUT", help="Study directory [default: out/NAME-DATE]."
    ),
    force: bool = typer.Option(False, "--force", help="Replace the study in OUT."),
    jobs: int | None = typer.Option(
        None, "-j", "--jobs", metavar="N", min=1, help="Parallel trials [default: by size, up to all cores]."
    ),
    cluster: str = typer.Option(
        "", "--cluster", metavar="NAME", help="With --on local: a kept cluster instead of a fresh one."
    ),
    context: str = typer.Option(
        "", "--context", metavar="NAME", help="With --on kubeconfig: the context to use; there is no default."
    ),
    kubeconfig: Path | None = typer.Option(
        None, "--kubeconfig", metavar="FILE", help="Instead of KUBECONFIG and ~/.kube/config."
    ),
    profile: str = typer.Option(
        "", "--profile", metavar="A,B", help="With --on local: profile these components, e.g. kube-scheduler."
    ),
    binaries: Path | None = typer.Option(
        None, "--binaries", metavar="DIR", help="With --on local: ready-made programs. KUBEBUILDER_ASSETS works too."
    ),
    baseline: Path | None = gate_options.BASELINE,
    junit: Path | None = gate_options.JUNIT,
    summary: Path | None = gate_options.SUMMARY,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print the trials and what they would create; start and write nothing."
    ),
) -> None:
    """Run a scenario and write a study: tables, pictures and everything observed.

    Example: seatrial run many-small-jobs --setup kwok,kwok+mcad --set jobs=10,50 --repeat 3 -o out/small
    """
    from rich.console import Console

    from seatrial.report.run_progress import Progress
    from seatrial.report.terminal import summary_table
    from seatrial.study.interruption import interruption
    from seatrial.study.running import run_study
    from seatrial.study.study_directory import left_behind, refuse_occupied

    base = gate_options.check_options(baseline, junit, summary)
    where = _Where(on, cluster, binaries, context, kubeconfig, _list(profile) or [])
    plan = _planned(scenario, where, _list(setup), _list(stack), sets, repeat, seed)
    notes = progress_console()
    for line in plan.notes:
        notes.print(line, soft_wrap=True, markup=False)
    target = out or _default_out(plan.source.name)
    if dry_run:
        from seatrial.cli.dry_run import print_plan

        print_plan(plan.trials, Console())
        return
    refuse_occupied(target, force)
    trials, unbuilt = _prepared(plan)
    words = error_console()
    for line in unbuilt:
        words.print(line, soft_wrap=True, markup=False)
    interruption.listen()
    result = None
    try:
        with Progress(len(trials), notes) as progress:
            result = run_study(
                plan.source.name, plan.source.document, trials, plan.asked, target, progress,
                force=force, jobs=jobs, baseline=base, gated=bool(junit or summary), reporting=progress.say,
            )  # fmt: skip
    finally:
        for line in left_behind(target, result.study if result else None):
            words.print(line, soft_wrap=True, markup=False)
    if result.outcomes and result.study:
        summary_table(result.study, Console())
    for file in result.files:
        typer.echo(file)
    gate_options.report_verdicts(result.study, result.verdicts, words, junit, summary)
    for line in result.never_began():
        words.print(line, soft_wrap=True, markup=False)
    if result.interrupted:
        words.print(progress.status, soft_wrap=True)
        words.print(
            f"interrupted; what was observed is in {target}. Pictures: seatrial report -o {target}", soft_wrap=True
        )
        _leave_at_once(result.exit_status)
    raise typer.Exit(3 if unbuilt else result.exit_status)


@dataclass(frozen=True)
class _Where:
    """The options of where trials run."""

    on: str
    cluster: str
    binaries: Path | None
    context: str
    kubeconfig: Path | None
    profile: list[str]


@dataclass(frozen=True)
class _Plan:
    """The trials of a scenario, and the lines to be printed before they run."""

    source: Scenario
    trials: list[Trial]
    asked: dict[str, Any]  # for study.json
    notes: list[str]


def _planned(
    scenario: str, where: _Where, setups: list[str] | None, picked: list[str] | None, sets: list[str],
    repeat: int | None, seed: int | None,
) -> _Plan:  # fmt: skip
    """Reads and expands the scenario; raises if anything in it is wrong, or if no trial can run."""
    from seatrial import stacks
    from seatrial.scenario.document import read
    from seatrial.scenario.expansion import expand
    from seatrial.scenario.params import parse_sets
    from seatrial.scenario.settings_file import with_settings_file
    from seatrial.study.eligibility import all_findings, check
    from seatrial.study.rerun import earlier_run

    before = earlier_run(scenario)
    on = where.on or (before.on if before else "sim")
    if on not in CLUSTERS:
        raise UsageProblem(f"--on {cut(on)}: no such cluster", f"choose one of {', '.join(CLUSTERS)}")
    kept_nodes = _kept_nodes(on, where.cluster)
    values = parse_sets(sets)
    if before is None:
        source = with_settings_file(read(scenario))
    else:  # new options override the original ones
        source = before.scenario
        if not setups and not picked:
            setups, picked = before.setups, before.stacks
        values = {**before.sets, **values}
        repeat, seed = repeat or before.repeat, before.seed if seed is None else seed
    expanded = expand(
        source, on=on, stacks=stacks.settings(), stages=stacks.stages(), pick_setups=setups, pick_stacks=picked,
        sets=values, repeat=repeat, seed=seed, nodes=kept_nodes,
    )  # fmt: skip
    place = _target(on, where)
    if before is not None and before.on == on and place == Target():
        place = before.target
    checked = check([dataclasses.replace(trial, target=place) for trial in expanded])
    notes = list(checked.skipped)
    if kept_nodes:
        count = sum(group.count for group in kept_nodes)
        notes.append(f"on the {count} nodes of the cluster '{where.cluster}', not on the scenario's")
    found = (finding for trial in checked.trials for finding in all_findings(trial))
    notes += [f"finding: {finding}" for finding in dict.fromkeys(found)]
    asked = {"file": source.path, "setup": setups, "stack": picked, "set": values, "repeat": repeat}
    return _Plan(source, checked.trials, asked, notes)


def _prepared(plan: _Plan) -> tuple[list[Trial], list[str]]:
    """Trials with a checked cluster and built programs; a message for each stack that cannot be built."""
    on, place = plan.trials[0].on, plan.trials[0].target
    if on == "kubeconfig":
        from seatrial import stacks
        from seatrial.clusters.attached.preflight import prepare

        # Preflight checks of an attached cluster come before anything is created, there or here.
        place = prepare(place, plan.trials, {one.setup.stack: stacks.find(one.setup.stack) for one in plan.trials})
        return [dataclasses.replace(trial, target=place) for trial in plan.trials], []
    return _built(place, plan.trials) if on == "local" else (plan.trials, [])


def _leave_at_once(status: int) -> NoReturn:
    """Exits without freeing memory: a million simulated objects would take half a second."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _kept_nodes(on: str, cluster: str) -> tuple[NodeGroup, ...]:
    """The nodes of a kept cluster, on which pods would be placed in any case."""
    if not cluster:
        return ()
    from seatrial.clusters.access import kept_clusters

    if on != "local":
        raise UsageProblem(f"--cluster cannot be combined with --on {on}", "add --on local")
    return kept_clusters.find(cluster).nodes


def _target(on: str, where: _Where) -> Target:
    if (where.context or where.kubeconfig) and on != "kubeconfig":
        raise UsageProblem(f"--context and --kubeconfig cannot be combined with --on {on}", "add --on kubeconfig")
    files = (str(file.expanduser().absolute()) if file else "" for file in (where.binaries, where.kubeconfig))
    profile = _profiled(on, where.cluster, where.profile)
    return Target(where.cluster, next(files), where.context, next(files), profile)


def _profiled(on: str, cluster: str, components: list[str]) -> tuple[str, ...]:
    """The components to profile: only Go programs of our own control plane."""
    if components and (on != "local" or cluster):
        raise UsageProblem(
            "--profile needs a control plane that the run starts", "use it with --on local, without --cluster"
        )
    for component in components:
        if component not in PROFILED:
            raise UsageProblem(f"--profile {cut(component)}: no such component", f"choose from {', '.join(PROFILED)}")
    return tuple(components)


def _built(place: Target, trials: Sequence[Trial]) -> tuple[list[Trial], list[str]]:
    """Builds all programs before the first trial: the first time that takes minutes. A stack that cannot be built is left out
    with a line, unless no other is left."""
    from seatrial import stacks
    from seatrial.clusters import programs
    from seatrial.clusters.programs.binaries import ensure_binaries

    if place.cluster:
        return list(trials), []
    binaries = Path(place.binaries) if place.binaries else None
    ensure_binaries(programs.CONTROL_PLANE, binaries)
    unbuilt: dict[str, SetupProblem] = {}
    for name in dict.fromkeys(trial.setup.stack for trial in trials):
        try:
            ensure_binaries(stacks.find(name).real.programs(), binaries)
        except SetupProblem as problem:
            unbuilt[name] = problem
    left = [trial for trial in trials if trial.setup.stack not in unbuilt]
    if unbuilt and not left:
        raise next(iter(unbuilt.values()))
    return left, [
        f"the stack '{name}' is skipped: {problem.message} ({problem.remedy})" for name, problem in unbuilt.items()
    ]


def _default_out(name: str) -> Path:
    return Path("out") / f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def _list(text: str) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] or None
