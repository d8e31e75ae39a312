"""What `seatrial run` and commands like it will run: options and scenario, to trials that can begin."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.model.errors import SetupProblem, UsageProblem, cut
from seatrial.model.plan import NodeGroup, Target, Trial
from seatrial.record.layout import STUDY

if TYPE_CHECKING:
    from seatrial.scenario.document import Scenario

CLUSTERS = ("sim", "local", "kubeconfig")
PROFILED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True)
class Where:
    """The options of where trials run."""

    on: str
    cluster: str
    binaries: Path | None
    context: str
    kubeconfig: Path | None
    profile: list[str]


@dataclass(frozen=True)
class RunPlan:
    """The trials of a scenario, and the lines to be printed before they run."""

    source: Scenario
    document: Mapping[str, Any]  # of the scenario, for study.json
    trials: list[Trial]
    asked: dict[str, Any]  # for study.json
    notes: list[str]


def planned(
    scenario: str, where: Where, setups: list[str] | None, picked: list[str] | None, sets: list[str],
    repeat: int | None, seed: int | None, resume: Path | None = None,
) -> RunPlan:  # fmt: skip
    """Reads and expands the scenario; raises if anything in it is wrong, or if no trial can run. `resume`: the study that goes on,
    whose scenario it is if no other is given."""
    from seatrial import stacks
    from seatrial.scenario.document import read
    from seatrial.scenario.expansion import expand
    from seatrial.scenario.params import parse_sets
    from seatrial.scenario.settings_file import with_settings_file
    from seatrial.study.eligibility import all_findings, check
    from seatrial.study.rerun import earlier_run
    from seatrial.study.resuming import begun_study

    if resume is not None:
        begun_study(resume)
    elif not scenario:
        raise UsageProblem("no scenario is given", "name a file, or one that `seatrial scenarios` lists")
    before = earlier_run(scenario or str(resume / STUDY if resume else ""))
    on = where.on or (before.on if before else "sim")
    if on not in CLUSTERS:
        raise UsageProblem(f"--on {cut(on)}: no such cluster", f"choose one of {', '.join(CLUSTERS)}")
    kept_nodes = _kept_nodes(on, where.cluster)
    values = parse_sets(sets)
    if before is None:
        source = with_settings_file(read(scenario))
    else:  # new options override the original ones
        source = before.scenario if resume is None or scenario else before.scenario_now()
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
    kept = before is not None and resume is not None and source is before.scenario
    return RunPlan(source, before.document if before and kept else source.document, checked.trials, asked, notes)


def prepared(plan: RunPlan) -> tuple[list[Trial], list[str]]:
    """Trials with a checked cluster and built programs; a message for each stack that cannot be built."""
    on, place = plan.trials[0].on, plan.trials[0].target
    if on == "kubeconfig":
        from seatrial import stacks
        from seatrial.clusters.attached.preflight import prepare

        # Preflight checks of an attached cluster come before anything is created, there or here.
        place = prepare(place, plan.trials, {one.setup.stack: stacks.find(one.setup.stack) for one in plan.trials})
        return [dataclasses.replace(trial, target=place) for trial in plan.trials], []
    return _built(place, plan.trials) if on == "local" else (plan.trials, [])


def _kept_nodes(on: str, cluster: str) -> tuple[NodeGroup, ...]:
    """The nodes of a kept cluster, on which pods would be placed in any case."""
    if not cluster:
        return ()
    from seatrial.clusters.access import kept_clusters

    if on != "local":
        raise UsageProblem(f"--cluster cannot be combined with --on {on}", "add --on local")
    return kept_clusters.find(cluster).nodes


def _target(on: str, where: Where) -> Target:
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


def listed(text: str) -> list[str] | None:
    """`A,B` as a list; None if there is nothing."""
    return [part.strip() for part in text.split(",") if part.strip()] or None
