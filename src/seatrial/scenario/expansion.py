"""From a scenario to its trials: every repeat of every choice of params in every set-up.

The repeat is outermost and the set-up innermost: a study that is interrupted has compared all set-ups on what it did.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seatrial.model import settings as table
from seatrial.model.errors import Mistake, ScenarioProblem, UsageProblem, cut
from seatrial.model.plan import Client, Expectation, NodeGroup, Part, Scalar, Setup, Step, Trial
from seatrial.scenario import checking, params, settings
from seatrial.scenario.building import StepBuilder, expectations, node_groups
from seatrial.scenario.building_requests import delay, flow_objects
from seatrial.scenario.document import Scenario, override
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.places import Path, Source
from seatrial.scenario.schema import LARGEST_SEED, ClientPart, ComponentPart, ScenarioPart, SettingsPart
from seatrial.scenario.settings import Stacks

MOST_TRIALS = 10_000
MOST_MISTAKES = 50  # then it is one mistake many times


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line picks: some of the set-ups, or stacks on the fake nodes whatever the scenario lists."""

    setups: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A trial but for repeat and number. `params` are the scenario's with the set-up's own in place."""

    setup: Setup
    params: Mapping[str, Scalar]
    steps: tuple[Step, ...]
    expect: tuple[Expectation, ...]
    namespaces: int = 0
    answer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The trials of one choice of params."""

    repeat: int
    seed: int
    runs: tuple[Run, ...]


def expand(
    scenario: Scenario,
    *,
    on: str,
    stacks: Stacks,
    stages: Sequence[str] = (),
    pick_setups: Sequence[str] | None = None,
    pick_stacks: Sequence[str] | None = None,
    sets: Mapping[str, list[Scalar]] | None = None,
    repeat: int | None = None,
    seed: int | None = None,
    nodes: tuple[NodeGroup, ...] = (),
) -> list[Trial]:
    """All trials, numbered from 1. ScenarioProblem has everything that is wrong in it, UsageProblem is the command's.

    `stacks` is every stack there is with its own settings, `stages` what workloads pass in any of them beside the standard stages;
    `nodes`, if there are any, stand in for the scenario's fake ones.
    """
    choice = _choice(pick_setups, pick_stacks, stacks)
    if repeat is not None and repeat < 1:
        raise UsageProblem(f"--repeat {repeat} is less than 1", "write 1 or more")
    if seed is not None and seed < 0:
        raise UsageProblem(f"--seed {seed} is less than 0", "write 0 or more")
    if seed is not None and seed > LARGEST_SEED:
        raise UsageProblem(f"--seed {cut(str(seed))} is more than {LARGEST_SEED}", f"write {LARGEST_SEED} or less")
    scenario = override(scenario, sets or {})
    _refuse_too_many(scenario, math.prod(len(values) for values in scenario.params.values()))
    plans = _plans(scenario, stacks, stages, choice, nodes)
    repeats = [repeat or plan.repeat for plan in plans]
    _refuse_too_many(scenario, sum(n * len(plan.runs) for n, plan in zip(repeats, plans, strict=True)))
    own = _own_params(scenario)
    _refuse_without_effect(sets or {}, plans, own)
    varies = tuple(name for name, values in scenario.params.items() if len(values) > 1)
    trials: list[Trial] = []
    for number in range(1, max(repeats) + 1):
        for plan, most in zip(plans, repeats, strict=True):
            used = plan.seed if seed is None else seed
            for run in plan.runs if number <= most else ():
                trials.append(
                    Trial(
                        len(trials) + 1, scenario.name, on, run.setup, run.params, number, used, run.steps, run.expect,
                        varies, own=tuple(dict.fromkeys(name for names in own.values() for name in names)),
                        namespaces=run.namespaces, answer=run.answer,
                    )
                )  # fmt: skip
    return trials


def _own_params(scenario: Scenario) -> dict[str, list[str]]:
    """Set-up → the params that it has values of its own for. The scenario is known to be sound."""
    setups = scenario.document.get("setups") or {}
    return {name: list(setup["params"]) for name, setup in setups.items() if setup.get("params")}


def _refuse_without_effect(sets: Mapping[str, object], plans: Sequence[Plan], own: Mapping[str, Sequence[str]]) -> None:
    """A `--set` that every set-up overrules would be passed over in silence."""
    setups = {run.setup.name for plan in plans for run in plan.runs}
    for name in sets:
        if all(name in own.get(setup, ()) for setup in setups):
            raise UsageProblem(
                f"--set {name} has no effect: every set-up that is run has a value of its own for it",
                "pick others with --setup or --stack, or leave it out",
            )


def _choice(setups: Sequence[str] | None, stacks: Sequence[str] | None, known: Stacks) -> Choice:
    if setups and stacks:
        raise UsageProblem("--setup and --stack do not go together", "give one of them")
    for stack in stacks or ():
        if stack not in known:
            raise UsageProblem(f"--stack {cut(stack)}: no such stack", remedy_for(stack, known))
    return Choice(tuple(dict.fromkeys(setups or ())), tuple(dict.fromkeys(stacks or ())))


def _refuse_too_many(scenario: Scenario, count: int) -> None:
    if count > MOST_TRIALS:
        what = f"{count:,} trials are more than {MOST_TRIALS:,}"
        remedy = "list fewer values, or pick some with --set and --setup"
        raise ScenarioProblem([scenario.source.mistake(("params",), what, remedy)])


def _plans(
    scenario: Scenario, stacks: Stacks, stages: Sequence[str], choice: Choice, nodes: tuple[NodeGroup, ...]
) -> list[Plan]:
    """One per choice of params. The mistakes of all are collected: a value may be wrong in the second only."""
    source = scenario.source
    mistakes = dict.fromkeys([*source.mistakes, *params.check(source, scenario.params)])
    plans: list[Plan] = []
    planned: set[str] = set()
    for values in params.combinations(scenario.params):
        planning, found = _planning(source, stacks, stages, values, nodes)
        if planning is not None:
            runs = []
            for setup in planning.chosen(choice):
                run, wrong = _run(planning, setup)
                found += wrong
                if run is not None and str(same := (setup.name, dict(run.params))) not in planned:
                    planned.add(str(same))  # params that differ only where the set-up has its own make no second trial
                    runs.append(run)
            plans.append(Plan(planning.part.repeat, planning.part.seed, tuple(runs)))
        mistakes.update(dict.fromkeys(found))
        if len(mistakes) > MOST_MISTAKES:
            break
    if mistakes:
        raise ScenarioProblem(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))
    return plans


def _planning(
    source: Source, stacks: Stacks, stages: Sequence[str], values: Mapping[str, Scalar], nodes: tuple[NodeGroup, ...]
) -> tuple[_Planning | None, list[Mistake]]:
    part, data, found = checking.check(source, values, stacks, stages)
    found += settings.check(source, data, stacks)
    if part is None or found:
        return None, found
    planning = _Planning(source, part, stacks, stages, values, nodes)
    return planning, planning.mistakes


def _run(planning: _Planning, setup: Setup) -> tuple[Run | None, list[Mistake]]:
    """The trial of a set-up. With params of its own all of the scenario is read once more, with them filled in."""
    own = planning.own(setup.name)
    if not own:
        return planning.run(setup)
    again, found = _planning(
        planning.source, planning.stacks, planning.stages, {**planning.values, **own}, planning.standing
    )
    if again is None:
        return None, found
    run, wrong = again.run(_picked(again.setups(), setup.name))
    return run, [*found, *wrong]


class _Planning:
    """The scenario with one choice of params."""

    def __init__(
        self,
        source: Source,
        part: ScenarioPart,
        stacks: Stacks,
        stages: Sequence[str],
        values: Mapping[str, Scalar],
        standing: tuple[NodeGroup, ...] = (),
    ) -> None:
        self.source = source
        self.part = part
        self.stacks = stacks
        self.stages = stages
        self.values = values
        self.mistakes: list[Mistake] = []
        self.standing = standing
        self.written: list[NodeGroup] = []  # what the scenario says itself: steps may name it
        self.nodes = {name: self.groups(name) for name in part.nodes}

    def chosen(self, choice: Choice) -> list[Setup]:
        setups = self.setups()
        if choice.setups:
            return [_picked(setups, name) for name in choice.setups]
        return self.of_stacks(choice.stacks, setups) if choice.stacks else setups

    def own(self, setup: str) -> Mapping[str, Scalar]:
        """The params that the set-up has values of its own for."""
        written = (self.part.setups or {}).get(setup)
        return written.params if written else {}

    def run(self, setup: Setup) -> tuple[Run, list[Mistake]]:
        namespaces = self.part.namespaces or 0
        known = (*self.written, *self.standing) if self.standing else setup.nodes
        builder = StepBuilder(self.source, self.part.steps, known, setup.name, namespaces)
        steps = builder.build()
        expect = expectations(self.source, self.part.expect, ("expect",))
        return Run(setup, self.values, steps, expect, namespaces, tuple(self.part.answer)), builder.mistakes

    def groups(self, entry: str) -> tuple[NodeGroup, ...]:
        path: Path = ("nodes", entry) if entry else ("nodes",)
        groups = node_groups(self.part.nodes[entry])
        names = [group.name for group in groups]
        for number, name in enumerate(names):
            if name in names[:number]:
                what = f"two node groups are called '{name}'"
                self.wrong((*path, number, "name"), what, "give each a name of its own")
        self.written += groups
        return groups if any(group.kubelet or group.existing for group in groups) else self.standing or groups

    def wrong(self, path: Path, what: str, remedy: str) -> None:
        self.mistakes.append(self.source.mistake(path, what, remedy))

    def setups(self) -> list[Setup]:
        """Those of the scenario, or one called after each stack that it lists."""
        part = self.part
        if part.setups is not None:
            return [
                dataclasses.replace(
                    self.setup(
                        name,
                        one.stack,
                        self.entry(one.nodes, ("setups", name)),
                        one.client or part.client,
                        one.settings,
                    ),
                    components={
                        component: self.part_of(own, ("setups", name, "components", component))
                        for component, own in one.components.items()
                    },
                    priority_levels=flow_objects(one.priority_levels),
                    flow_schemas=flow_objects(one.flow_schemas),
                    delay=delay(one.delay),
                )
                for name, one in part.setups.items()
            ]
        entry = self.entry(None, ("stacks",))
        return [self.setup(stack, stack, entry, part.client) for stack in part.stacks or []]

    def setup(
        self, name: str, stack: str, entry: str, client: ClientPart | None, own: SettingsPart | None = None
    ) -> Setup:
        resolved = settings.resolved(self.stacks[stack], self.part.settings, own)
        rate = (client.rate if client else None) or float(table.own(resolved, "submit", "rate")) or None
        return Setup(name, stack, self.nodes[entry], Client(rate), resolved)

    def part_of(self, own: ComponentPart, path: Path) -> Part:
        """Files are named from where the scenario stands."""
        folder = pathlib.Path(self.source.file).parent
        binary, config = (str(folder / given) if given else "" for given in (own.binary, own.config))
        return Part(binary, own.version or "", config, tuple(own.args), self.source.at(path))

    def entry(self, named: str | None, path: Path) -> str:
        """The entry of `nodes` that a set-up stands on; only one that is alone need not be named."""
        if named is None and len(self.nodes) > 1:
            self.wrong(path, "which nodes?", f"add `nodes:` to each set-up, one of {', '.join(self.nodes)}")
        return next(iter(self.nodes)) if named is None else named

    def of_stacks(self, stacks: Sequence[str], setups: Sequence[Setup]) -> list[Setup]:
        """The stacks as they come, on the scenario's fake nodes. Set-ups with params of their own differ in what is
        asked of a stack, not in the stack: those of it are run as they are."""
        found: list[Setup] = []
        for stack in stacks:
            asking = [setup for setup in setups if setup.stack == stack and self.own(setup.name)]
            found += asking or [self.on_fake_nodes(stack, setups)]
        return found

    def on_fake_nodes(self, stack: str, setups: Sequence[Setup]) -> Setup:
        """A set-up called after the stack, on the first fake nodes (on the first of all, if there are none)."""
        fake = (name for name, groups in self.nodes.items() if not any(g.kubelet or g.existing for g in groups))
        entry = next(fake, next(iter(self.nodes)))
        client = next((setup.client for setup in setups if setup.nodes is self.nodes[entry]), None)
        made = self.setup(stack, stack, entry, self.part.client)
        return dataclasses.replace(made, client=client) if client else made


def _picked(setups: Sequence[Setup], name: str) -> Setup:
    by_name = {setup.name: setup for setup in setups}
    if name not in by_name:
        raise UsageProblem(f"--setup {cut(name)}: the scenario has no such set-up", remedy_for(name, by_name))
    return by_name[name]
