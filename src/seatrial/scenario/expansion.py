"""From a scenario to its trials: every repeat of every choice of params in every set-up.

The repeat is outermost and the set-up innermost: a study that is interrupted has compared all set-ups on what it did.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seatrial.model.errors import Mistake, ScenarioProblem, UsageProblem
from seatrial.model.plan import Client, Expectation, NodeGroup, Part, Scalar, Setup, Step, Trial
from seatrial.scenario import checking, params, settings
from seatrial.scenario.building import StepBuilder, expectations, node_groups
from seatrial.scenario.document import Scenario, override
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.places import Path, Source
from seatrial.scenario.schema import ClientPart, ComponentPart, ScenarioPart, SettingsPart
from seatrial.scenario.settings import Stacks

MOST_TRIALS = 10_000
MOST_MISTAKES = 50  # then it is one mistake many times


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line picks: some of the set-ups, or stacks on the fake nodes whatever the scenario lists."""

    setups: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The trials of one choice of params, but for repeat and number."""

    params: Mapping[str, Scalar]
    repeat: int
    seed: int
    setups: tuple[tuple[Setup, tuple[Step, ...]], ...]
    expect: tuple[Expectation, ...]


def expand(
    scenario: Scenario,
    *,
    on: str,
    stacks: Stacks,
    pick_setups: Sequence[str] | None = None,
    pick_stacks: Sequence[str] | None = None,
    sets: Mapping[str, list[Scalar]] | None = None,
    repeat: int | None = None,
    seed: int | None = None,
) -> list[Trial]:
    """All trials, numbered from 1. ScenarioProblem has everything that is wrong in it, UsageProblem is the command's.

    `stacks` is every stack there is with its own settings.
    """
    choice = _choice(pick_setups, pick_stacks, stacks)
    if repeat is not None and repeat < 1:
        raise UsageProblem(f"--repeat {repeat} is less than 1", "write 1 or more")
    if seed is not None and seed < 0:
        raise UsageProblem(f"--seed {seed} is less than 0", "write 0 or more")
    scenario = override(scenario, sets or {})
    _refuse_too_many(scenario, math.prod(len(values) for values in scenario.params.values()))
    plans = _plans(scenario, stacks, choice)
    repeats = [repeat or plan.repeat for plan in plans]
    _refuse_too_many(scenario, sum(n * len(plan.setups) for n, plan in zip(repeats, plans, strict=True)))
    varies = tuple(name for name, values in scenario.params.items() if len(values) > 1)
    trials: list[Trial] = []
    for number in range(1, max(repeats) + 1):
        for plan, most in zip(plans, repeats, strict=True):
            for setup, steps in plan.setups if number <= most else ():
                used = plan.seed if seed is None else seed
                trials.append(
                    Trial(
                        len(trials) + 1, scenario.name, on, setup, plan.params, number, used, steps, plan.expect, varies
                    )
                )
    return trials


def _choice(setups: Sequence[str] | None, stacks: Sequence[str] | None, known: Stacks) -> Choice:
    if setups and stacks:
        raise UsageProblem("--setup and --stack do not go together", "give one of them")
    for stack in stacks or ():
        if stack not in known:
            raise UsageProblem(f"--stack {stack}: no such stack", remedy_for(stack, known))
    return Choice(tuple(dict.fromkeys(setups or ())), tuple(dict.fromkeys(stacks or ())))


def _refuse_too_many(scenario: Scenario, count: int) -> None:
    if count > MOST_TRIALS:
        what = f"{count:,} trials are more than {MOST_TRIALS:,}"
        remedy = "list fewer values, or pick some with --set and --setup"
        raise ScenarioProblem([scenario.source.mistake(("params",), what, remedy)])


def _plans(scenario: Scenario, stacks: Stacks, choice: Choice) -> list[Plan]:
    """One per choice of params. The mistakes of all are collected: a value may be wrong in the second only."""
    source = scenario.source
    mistakes = dict.fromkeys([*source.mistakes, *params.check(source, scenario.params)])
    plans: list[Plan] = []
    for values in params.combinations(scenario.params):
        part, data, found = checking.check(source, values, stacks)
        found += settings.check(source, data, stacks)
        if part is not None and not found:
            planning = _Planning(source, part, stacks, values)
            plans.append(planning.plan(choice))
            found = planning.mistakes
        mistakes.update(dict.fromkeys(found))
        if len(mistakes) > MOST_MISTAKES:
            break
    if mistakes:
        raise ScenarioProblem(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))
    return plans


class _Planning:
    def __init__(self, source: Source, part: ScenarioPart, stacks: Stacks, values: Mapping[str, Scalar]) -> None:
        self.source = source
        self.part = part
        self.stacks = stacks
        self.values = values
        self.mistakes: list[Mistake] = []
        self.nodes = {name: self.groups(name) for name in part.nodes}

    def plan(self, choice: Choice) -> Plan:
        setups = self.setups()
        if choice.setups:
            setups = [_picked(setups, name) for name in choice.setups]
        elif choice.stacks:
            setups = self.on_fake_nodes(choice.stacks, setups)
        built: list[tuple[Setup, tuple[Step, ...]]] = []
        for setup in setups:
            builder = StepBuilder(self.source, self.part.steps, setup.nodes, setup.name)
            built.append((setup, builder.build()))
            self.mistakes += builder.mistakes
        expect = expectations(self.source, self.part.expect, ("expect",))
        return Plan(self.values, self.part.repeat, self.part.seed, tuple(built), expect)

    def groups(self, entry: str) -> tuple[NodeGroup, ...]:
        path: Path = ("nodes", entry) if entry else ("nodes",)
        groups = node_groups(self.part.nodes[entry])
        names = [group.name for group in groups]
        for number, name in enumerate(names):
            if name in names[:number]:
                what = f"two node groups are called '{name}'"
                self.wrong((*path, number, "name"), what, "give each a name of its own")
        return groups

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
                    components={component: self.part_of(own) for component, own in one.components.items()},
                )
                for name, one in part.setups.items()
            ]
        entry = self.entry(None, ("stacks",))
        return [self.setup(stack, stack, entry, part.client) for stack in part.stacks or []]

    def setup(
        self, name: str, stack: str, entry: str, client: ClientPart | None, own: SettingsPart | None = None
    ) -> Setup:
        resolved = settings.resolved(self.stacks[stack], self.part.settings, own)
        return Setup(name, stack, self.nodes[entry], Client(client.rate if client else None), resolved)

    def part_of(self, own: ComponentPart) -> Part:
        """Files are named from where the scenario stands."""
        folder = pathlib.Path(self.source.file).parent
        binary, config = (str(folder / given) if given else "" for given in (own.binary, own.config))
        return Part(binary, own.version or "", config, tuple(own.args))

    def entry(self, named: str | None, path: Path) -> str:
        """The entry of `nodes` that a set-up stands on; only one that is alone need not be named."""
        if named is None and len(self.nodes) > 1:
            self.wrong(path, "which nodes?", f"add `nodes:` to each set-up, one of {', '.join(self.nodes)}")
        return next(iter(self.nodes)) if named is None else named

    def on_fake_nodes(self, stacks: Sequence[str], setups: Sequence[Setup]) -> list[Setup]:
        """Set-ups called after the stacks, on the first fake nodes (on the first of all, if there are none)."""
        fake = (name for name, groups in self.nodes.items() if not any(g.kubelet or g.existing for g in groups))
        entry = next(fake, next(iter(self.nodes)))
        client = next((setup.client for setup in setups if setup.nodes is self.nodes[entry]), None)
        made = [self.setup(stack, stack, entry, self.part.client) for stack in stacks]
        return [dataclasses.replace(setup, client=client) for setup in made] if client else made


def _picked(setups: Sequence[Setup], name: str) -> Setup:
    by_name = {setup.name: setup for setup in setups}
    if name not in by_name:
        raise UsageProblem(f"--setup {name}: the scenario has no such set-up", remedy_for(name, by_name))
    return by_name[name]
