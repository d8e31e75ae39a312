"""`seatrial run`: a scenario, from the file to the figures."""

from __future__ import annotations

import dataclasses
import datetime
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

from seatrial.cli import judging
from seatrial.model.errors import SetupProblem, UsageProblem, cut
from seatrial.model.plan import NodeGroup, Target, Trial

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
    sets: list[str] = typer.Option(
        [], "--set", metavar="K=V[,V…]", help="Give a parameter other values; may be repeated."
    ),
    repeat: int | None = typer.Option(None, "--repeat", metavar="N", min=1, help="Trials per set-up and parameters."),
    seed: int | None = typer.Option(None, "--seed", metavar="N", min=0, help="Seed of all random streams."),
    out: Path | None = typer.Option(
        None, "-o", "--out", metavar="OUT", help="Study directory [default: out/NAME-DATE]."
    ),
    force: bool = typer.Option(False, "--force", help="Replace the study that OUT holds."),
    jobs: int | None = typer.Option(
        None, "-j", "--jobs", metavar="N", min=1, help="Trials side by side [default: by size, up to all cores]."
    ),
    cluster: str = typer.Option(
        "", "--cluster", metavar="NAME", help="With --on local: a kept cluster, not a fresh one."
    ),
    context: str = typer.Option(
        "", "--context", metavar="NAME", help="With --on kubeconfig: the context to use; none is picked by default."
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
    baseline: Path | None = judging.BASELINE,
    junit: Path | None = judging.JUNIT,
    summary: Path | None = judging.SUMMARY,
) -> None:
    """Run a scenario and write a study: tables, pictures and everything observed.

    Example: seatrial run many-small-jobs --setup kwok,kwok+mcad --set jobs=10,50 --repeat 3 -o out/small
    """
    from rich.console import Console

    from seatrial import stacks
    from seatrial.report.progress import Progress
    from seatrial.report.terminal import summary_table
    from seatrial.scenario import expand, findings_of, parse_sets, read
    from seatrial.scenario.settings_file import with_settings_file
    from seatrial.study.again import again
    from seatrial.study.directory import left_behind, refuse_occupied
    from seatrial.study.fitting import memory_findings
    from seatrial.study.interrupting import interruption
    from seatrial.study.running import check, run_study

    judging.check(baseline, junit, summary)
    before = again(scenario)
    on = on or (before.on if before else "sim")
    if on not in CLUSTERS:
        raise UsageProblem(f"--on {cut(on)}: no such cluster", f"choose one of {', '.join(CLUSTERS)}")
    standing = _standing(on, cluster)
    setups, picked, values = _list(setup), _list(stack), parse_sets(sets)
    if before is None:
        source = with_settings_file(read(scenario))
    else:  # options given now win over those given then
        source = before.scenario
        if not setups and not picked:
            setups, picked = before.setups, before.stacks
        values = {**before.sets, **values}
        repeat, seed = repeat or before.repeat, before.seed if seed is None else seed
    target = out or _default_out(source.name)
    refuse_occupied(target, force)
    expanded = expand(
        source,
        on=on,
        stacks=stacks.settings(),
        stages=stacks.stages(),
        pick_setups=setups,
        pick_stacks=picked,
        sets=values,
        repeat=repeat,
        seed=seed,
        nodes=standing,
    )
    place = dataclasses.replace(
        _target(on, cluster, binaries, context, kubeconfig), profile=_profiled(on, cluster, _list(profile) or [])
    )
    if before is not None and before.on == on and place == Target():
        place = before.target
    checked = check([dataclasses.replace(trial, target=place) for trial in expanded])
    if on == "kubeconfig":
        place = _attach(place, checked.trials)
    asked = {"file": source.path, "setup": setups, "stack": picked, "set": values, "repeat": repeat}
    trials = [dataclasses.replace(trial, target=place) for trial in checked.trials]
    words = Console(stderr=True, highlight=False)
    for line in checked.skipped:
        words.print(line, soft_wrap=True, markup=False)
    if standing:
        count = sum(group.count for group in standing)
        words.print(f"on the {count} nodes of the cluster '{cluster}', not on the scenario's", soft_wrap=True)
    for finding in dict.fromkeys(
        finding for trial in trials for finding in (*findings_of(trial), *memory_findings(trial))
    ):
        words.print(f"finding: {finding}", soft_wrap=True, markup=False)
    unbuilt: list[str] = []
    if on == "local":
        trials, unbuilt = _prepare(place, trials)
    for line in unbuilt:
        words.print(line, soft_wrap=True, markup=False)
    interruption.listen()
    try:
        with Progress(len(trials), words) as progress:
            result = run_study(
                source.name, source.document, trials, asked, target, progress,
                force=force, jobs=jobs, baseline=baseline, gated=bool(junit or summary), reporting=progress.say,
            )  # fmt: skip
    finally:
        for line in left_behind(target):
            words.print(line, soft_wrap=True, markup=False)
    if result.outcomes:
        summary_table(target, Console())
    for file in result.files:
        typer.echo(file)
    judging.tell(target, result.verdicts, words, junit, summary)
    for line in result.never_began():
        words.print(line, soft_wrap=True, markup=False)
    if result.interrupted:
        words.print(
            f"interrupted; what was observed is in {target}. Pictures: seatrial report {target}", soft_wrap=True
        )
        _leave_at_once(result.exit_status)
    raise typer.Exit(3 if unbuilt else result.exit_status)


def _leave_at_once(status: int) -> NoReturn:
    """Everything is written and closed; taking a million simulated objects apart would keep the user for half a second."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _standing(on: str, cluster: str) -> tuple[NodeGroup, ...]:
    """The nodes of a kept cluster that has some: pods would be placed on them in any case."""
    if not cluster:
        return ()
    from seatrial.clusters.local import kept

    if on != "local":
        raise UsageProblem(f"--cluster does not go with --on {on}", "add --on local")
    return kept.find(cluster).nodes


def _target(on: str, cluster: str, binaries: Path | None, context: str, kubeconfig: Path | None) -> Target:
    if (context or kubeconfig) and on != "kubeconfig":
        raise UsageProblem(f"--context and --kubeconfig do not go with --on {on}", "add --on kubeconfig")
    files = (str(file.expanduser().absolute()) if file else "" for file in (binaries, kubeconfig))
    return Target(cluster, next(files), context, next(files))


def _profiled(on: str, cluster: str, components: list[str]) -> tuple[str, ...]:
    """Go's programs serve profiles of themselves; the simulator's models and other people's clusters do not."""
    if components and (on != "local" or cluster):
        raise UsageProblem(
            "--profile needs a control plane of the run's own", "use it with --on local, without --cluster"
        )
    for component in components:
        if component not in PROFILED:
            raise UsageProblem(f"--profile {cut(component)}: no such component", f"choose from {', '.join(PROFILED)}")
    return tuple(components)


def _attach(place: Target, trials: Sequence[Trial]) -> Target:
    """Everything about a foreign cluster that can be wrong is said before anything is made, there or here."""
    from seatrial.clusters.attached.preparing import prepare

    return prepare(place, trials)


def _prepare(place: Target, trials: Sequence[Trial]) -> tuple[list[Trial], list[str]]:
    """What takes minutes the first time is done before the first trial, with a progress of its own. A stack that cannot be built is
    left out with a line, unless nothing else is left."""
    from seatrial import stacks
    from seatrial.clusters.local import programs
    from seatrial.clusters.local.binaries import ensure_binaries

    if place.cluster:
        return list(trials), []
    binaries = Path(place.binaries) if place.binaries else None
    ensure_binaries(programs.CONTROL_PLANE, binaries)
    unbuilt: dict[str, SetupProblem] = {}
    for name in dict.fromkeys(trial.setup.stack for trial in trials):
        try:
            ensure_binaries(stacks.find(name).programs(), binaries)
        except SetupProblem as problem:
            unbuilt[name] = problem
    left = [trial for trial in trials if trial.setup.stack not in unbuilt]
    if unbuilt and not left:
        raise next(iter(unbuilt.values()))
    return left, [
        f"the stack '{name}' is left out: {problem.message} ({problem.remedy})" for name, problem in unbuilt.items()
    ]


def _default_out(name: str) -> Path:
    return Path("out") / f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def _list(text: str) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] or None
