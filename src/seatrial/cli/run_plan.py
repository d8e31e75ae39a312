"""The plan of `seatrial run` and similar commands: from options and scenario to trials that can begin."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.model.errors import ScenarioProblem, SetupProblem, UsageProblem, cut
from seatrial.model.plan import NodeGroup, Target, Trial
from seatrial.model.units import parse_duration
from seatrial.record.layout import STUDY

if TYPE_CHECKING:
    from seatrial.scenario.document import Scenario
    from seatrial.scenario.value_ranges import ValueRange
    from seatrial.study.rerun import EarlierRun

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
class TrialOptions:
    """The options of which trials run."""

    setups: list[str] | None = None
    stacks: list[str] | None = None
    sets: Sequence[str] = ()
    repeat: int | None = None
    seed: int | None = None
    vary: Sequence[str] = ()
    limit: str = ""


@dataclass(frozen=True)
class RunPlan:
    """The trials of a scenario, and the lines to be printed before they run."""

    source: Scenario
    document: Mapping[str, Any]  # of the scenario, for study.json
    trials: list[Trial]
    asked: dict[str, Any]  # for study.json
    notes: list[str]
    expanded: Callable[[Sequence[ValueRange]], list[Trial]]  # the trials with other values of varied params


def planned(
    scenario: str,
    where: Where,
    chosen: TrialOptions,
    resume: Path | None = None,
    ranges: Sequence[ValueRange] | None = None,
) -> RunPlan:
    """Reads and expands the scenario; raises if anything in it is wrong, or if no trial can run. `resume`: the study that goes on,
    whose scenario it is if no other is given. `ranges`: instead of those of `--vary`."""
    from seatrial.scenario.document import read
    from seatrial.scenario.settings_file import with_settings_file
    from seatrial.scenario.value_ranges import parse_variation
    from seatrial.study.eligibility import all_findings
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
    if before is None:
        source = with_settings_file(read(scenario))
    else:  # new options override the original ones
        source = before.scenario if resume is None or scenario else before.scenario_now()
    make = _Expansion(source, on, where, chosen, before)
    varied = [parse_variation(text) for text in make.vary] if ranges is None else ranges
    expanded = make(varied)
    notes = list(make.skipped) + _idle(expanded, varied)
    if make.kept_nodes:
        count = sum(group.count for group in make.kept_nodes)
        notes.append(f"on the {count} nodes of the cluster '{where.cluster}', not on the scenario's")
    found = (finding for trial in expanded for finding in all_findings(trial))
    notes += [f"finding: {finding}" for finding in dict.fromkeys(found)]
    kept = before is not None and resume is not None and source is before.scenario
    document = before.document if before and kept else source.document
    return RunPlan(source, document, expanded, make.asked(), notes, make)


class _Expansion:
    """A scenario with the options of the command, expanded for any values of varied params."""

    def __init__(
        self, source: Scenario, on: str, where: Where, chosen: TrialOptions, before: EarlierRun | None
    ) -> None:
        from seatrial.scenario.params import parse_sets

        self.source, self.on = source, on
        self.kept_nodes = _kept_nodes(on, where.cluster)
        self.setups, self.picked, self.repeat, self.seed = chosen.setups, chosen.stacks, chosen.repeat, chosen.seed
        self.sets, self.vary, self.limit = parse_sets(chosen.sets), list(chosen.vary), chosen.limit
        self.place = _target(on, where)
        self.skipped: Sequence[str] = ()
        if before is not None:
            if not self.setups and not self.picked:
                self.setups, self.picked = before.setups, before.stacks
            self.sets = {**before.sets, **self.sets}
            self.repeat = self.repeat or before.repeat
            self.seed = before.seed if self.seed is None else self.seed
            self.vary, self.limit = self.vary or before.vary, self.limit or before.limit
            if before.on == on and self.place == Target():
                self.place = before.target
        self._limit_ns = _limit(self.limit)

    def __call__(self, ranges: Sequence[ValueRange]) -> list[Trial]:
        from seatrial.study.eligibility import check

        for one in ranges:
            if one.path.removeprefix("params.") in self.sets:
                raise UsageProblem(f"--vary {one.path} and --set name the same param", "give only one")
        try:
            expanded = self._expand(ranges)
        except ScenarioProblem as problem:
            if ranges:
                self._expand(())  # the file itself may be wrong: then it says so
                raise _not_with(ranges, problem) from None
            raise
        checked = check([dataclasses.replace(trial, target=self.place, limit=self._limit_ns) for trial in expanded])
        self.skipped = checked.skipped
        return checked.trials

    def _expand(self, ranges: Sequence[ValueRange]) -> list[Trial]:
        from seatrial import stacks
        from seatrial.scenario.expansion import expand

        return expand(
            self.source, on=self.on, stacks=stacks.settings(), stages=stacks.stages(), pick_setups=self.setups,
            pick_stacks=self.picked, sets=self.sets, repeat=self.repeat, seed=self.seed, nodes=self.kept_nodes,
            vary=ranges,
        )  # fmt: skip

    def of(self, source: Scenario) -> _Expansion:
        """The same options for another scenario."""
        other = copy.copy(self)
        other.source = source
        return other

    def asked(self) -> dict[str, Any]:
        """The options, for study.json."""
        asked = {
            "file": self.source.path, "setup": self.setups, "stack": self.picked, "set": self.sets, "repeat": self.repeat,
        }  # fmt: skip
        return {
            **asked,
            **({"vary": self.vary} if self.vary else {}),
            **({"limit": self.limit} if self.limit else {}),
        }


def _not_with(ranges: Sequence[ValueRange], problem: ScenarioProblem) -> UsageProblem:
    """A valid scenario that is wrong with a value of `--vary`."""
    first = problem.mistakes[0]
    paths = " ".join(f"--vary {one.path}" for one in ranges)
    return UsageProblem(f"{paths}: {first.what}", first.remedy)


def check_condition(plan: RunPlan, text: str, ranges: Sequence[ValueRange]) -> None:
    """Raises if a condition (of `find --so-that`) is none, or names something that the scenario does not have."""
    source = plan.source.source
    asking = dataclasses.replace(
        plan.source, source=dataclasses.replace(source, data={**source.data, "expect": [text]})
    )
    assert isinstance(plan.expanded, _Expansion)
    try:
        plan.expanded.of(asking)(ranges)
    except (ScenarioProblem, UsageProblem) as problem:
        first = problem.mistakes[0] if isinstance(problem, ScenarioProblem) else None
        what, remedy = (first.what, first.remedy) if first else (problem.message, problem.remedy)
        what = what.partition(": ")[2] if what.startswith("--vary") else what
        raise UsageProblem(f"--so-that '{cut(text)}': {what}", remedy) from None


def _idle(trials: Sequence[Trial], ranges: Sequence[ValueRange]) -> list[str]:
    """A line for the set-ups in which a varied param changes nothing; raises if that are all."""
    from seatrial.scenario.varying import param_names, without_effect

    notes: list[str] = []
    every = {trial.setup.name for trial in trials}
    for one, name in zip(ranges, param_names(ranges), strict=True):
        idle = without_effect(trials, name) if len(one.values) > 1 else []
        if every <= set(idle):
            raise UsageProblem(
                f"--vary {one.path} changes nothing: no chosen set-up uses it, or each sets it itself",
                "choose other set-ups with --setup or --stack, or vary `setups.NAME.…`",
            )
        if idle:
            notes.append(f"--vary {one.path} changes nothing in {', '.join(idle)}")
    return notes


def _limit(text: str) -> int:
    if not text:
        return 0
    try:
        limit = parse_duration(text)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise UsageProblem(f"--limit {cut(text)}: {what}", remedy) from None
    if limit <= 0:
        raise UsageProblem(f"--limit {cut(text)}: not a positive time", "write it like 10m")
    return limit


def prepared(plan: RunPlan, elsewhere: bool = False) -> tuple[list[Trial], list[str]]:
    """Trials with a checked cluster and built programs; a message for each stack that cannot be built. `elsewhere`: control planes
    start on other machines, which build their programs themselves."""
    on, place = plan.trials[0].on, plan.trials[0].target
    if on == "kubeconfig":
        from seatrial import stacks
        from seatrial.clusters.attached.preflight import prepare

        # Preflight checks of an attached cluster come before anything is created, there or here.
        place = prepare(place, plan.trials, {one.setup.stack: stacks.find(one.setup.stack) for one in plan.trials})
        return [dataclasses.replace(trial, target=place) for trial in plan.trials], []
    return _built(place, plan.trials) if on == "local" and not elsewhere else (plan.trials, [])


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
    kubelets = any(group.kubelet for trial in trials for group in trial.node_groups())
    ensure_binaries([*programs.CONTROL_PLANE, *([programs.KUBELETS] if kubelets else ())], binaries)
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
