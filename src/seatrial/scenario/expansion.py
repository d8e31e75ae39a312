"""From a scenario to its trials: every repeat of every combination of params in every set-up.

The repeat is outermost and the set-up innermost: an interrupted study has compared all set-ups on what it did.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.model import settings as table
from seatrial.model.errors import Mistake, ScenarioProblem, UsageProblem, cut
from seatrial.model.plan import ClientSettings, NodeGroup, Scalar, Setup, Trial
from seatrial.scenario import params, scenario_settings, validation
from seatrial.scenario.actions import plan_steps
from seatrial.scenario.actions.expect import expectations
from seatrial.scenario.document import Scenario, override
from seatrial.scenario.fleet_planning import FleetPlanning
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.node_groups import node_groups
from seatrial.scenario.scenario_settings import Stacks
from seatrial.scenario.schema import LARGEST_SEED, ScenarioFields
from seatrial.scenario.setups import ClientFields, SetupFields
from seatrial.scenario.source import KeyPath, Source
from seatrial.scenario.value_ranges import ValueRange
from seatrial.scenario.varying import param_names, varied
from seatrial.traces.problem import TraceProblem

MOST_TRIALS = 10_000
MOST_MISTAKES = 50  # more are one mistake many times


@dataclass(frozen=True, slots=True)
class _Context:
    """What `expand` was called with, beside the scenario."""

    on: str
    stacks: Stacks
    stages: Sequence[str]
    nodes: tuple[NodeGroup, ...]
    pick_setups: Sequence[str]
    pick_stacks: Sequence[str]


_Variant = tuple[int, list[Trial]]  # how often, and the trials of one combination of params, but for repeat and number


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
    vary: Sequence[ValueRange] = (),
) -> list[Trial]:
    """All trials, numbered from 1. ScenarioProblem holds all mistakes of the scenario, UsageProblem one of the command.

    `stacks`: every stack with its own settings. `stages`: those of all stacks, beside the standard ones. `nodes`, if any, replace
    the scenario's fake ones. `pick_setups`: only these set-ups; `pick_stacks`: these stacks on the fake nodes, whatever the
    scenario lists. `vary`: params of `--vary`, for which all trials see the same random streams.
    """
    _check_options(pick_setups, pick_stacks, stacks, repeat, seed)
    scenario = varied(override(scenario, sets or {}), vary)
    _refuse_too_many(scenario, math.prod(len(values) for values in scenario.params.values()))
    picked = [tuple(dict.fromkeys(names or ())) for names in (pick_setups, pick_stacks)]
    variants = _variants(scenario, _Context(on, stacks, stages, nodes, *picked))
    variants = [(repeat or repeats, planned) for repeats, planned in variants]
    _refuse_too_many(scenario, sum(repeats * len(planned) for repeats, planned in variants))
    own = _own_params(scenario)
    _refuse_without_effect(sets or {}, {trial.setup.name for _, planned in variants for trial in planned}, own)
    varies = tuple(name for name, values in scenario.params.items() if len(values) > 1)
    of_setups = tuple(dict.fromkeys(name for names in own.values() for name in names))
    trials: list[Trial] = []
    for number in range(1, max(repeats for repeats, _ in variants) + 1):
        for repeats, planned in variants:
            for trial in planned if number <= repeats else ():
                used = trial.seed if seed is None else seed
                changes = {
                    "number": len(trials) + 1,
                    "repeat": number,
                    "seed": used,
                    "varies": varies,
                    "own": (*of_setups, *param_names(vary)),
                }
                trials.append(dataclasses.replace(trial, **changes))  # type: ignore[arg-type]
    return trials


def _check_options(
    setups: Sequence[str] | None, stacks: Sequence[str] | None, known: Stacks, repeat: int | None, seed: int | None
) -> None:
    if setups and stacks:
        raise UsageProblem("--setup and --stack cannot be combined", "give only one")
    for stack in stacks or ():
        if stack not in known:
            raise UsageProblem(f"--stack {cut(stack)}: no such stack", remedy_for(stack, known))
    if repeat is not None and repeat < 1:
        raise UsageProblem(f"--repeat {repeat} is less than 1", "write 1 or more")
    if seed is not None and seed < 0:
        raise UsageProblem(f"--seed {seed} is less than 0", "write 0 or more")
    if seed is not None and seed > LARGEST_SEED:
        raise UsageProblem(f"--seed {cut(str(seed))} is more than {LARGEST_SEED}", f"write {LARGEST_SEED} or less")


def _refuse_too_many(scenario: Scenario, count: int) -> None:
    if count > MOST_TRIALS:
        what = f"{count:,} trials are more than {MOST_TRIALS:,}"
        remedy = "list fewer values, or pick some with --set and --setup"
        raise ScenarioProblem([scenario.source.mistake(("params",), what, remedy)])


def _own_params(scenario: Scenario) -> dict[str, list[str]]:
    """Set-up → the params that it sets itself. The scenario is valid."""
    setups = scenario.document.get("setups") or {}
    return {name: list(setup["params"]) for name, setup in setups.items() if setup.get("params")}


def _refuse_without_effect(sets: Iterable[str], setups: Iterable[str], own: Mapping[str, Sequence[str]]) -> None:
    """A `--set` that every set-up overrides would be ignored silently."""
    for name in sets:
        if all(name in own.get(setup, ()) for setup in setups):
            raise UsageProblem(
                f"--set {name} has no effect: every chosen set-up sets it itself",
                "choose other set-ups with --setup or --stack, or omit --set",
            )


def _variants(scenario: Scenario, context: _Context) -> list[_Variant]:
    """One per combination of params. The mistakes of all are collected: a value may be wrong only in the second."""
    source = scenario.source
    mistakes = dict.fromkeys([*source.mistakes, *params.check(source, scenario.params)])
    variants: list[_Variant] = []
    planned: set[str] = set()
    for values in params.combinations(scenario.params):
        filled, found = _fill(scenario, context, values)
        if filled is not None:
            trials = []
            for setup in filled.chosen():
                trial, wrong = _plan_trial(filled, setup)
                found += wrong
                if trial is not None and str(same := (setup.name, dict(trial.params))) not in planned:
                    planned.add(str(same))  # params that differ only where the set-up has its own make no second trial
                    trials.append(trial)
            variants.append((filled.fields.repeat, trials))
        mistakes.update(dict.fromkeys(found))
        if len(mistakes) > MOST_MISTAKES:
            break
    if mistakes:
        raise ScenarioProblem(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))
    return variants


def _fill(
    scenario: Scenario, context: _Context, values: Mapping[str, Scalar]
) -> tuple[_FilledScenario | None, list[Mistake]]:
    fields, data, found = validation.check(scenario.source, values, context.stacks, context.stages)
    found += scenario_settings.check(scenario.source, data, context.stacks)
    if fields is None or found:
        return None, found
    filled = _FilledScenario(scenario, fields, context, values)
    return filled, filled.mistakes


def _plan_trial(filled: _FilledScenario, setup: Setup) -> tuple[Trial | None, list[Mistake]]:
    """The trial of a set-up. If that has params of its own, the whole scenario is read again with them filled in."""
    own = filled.own_params(setup.name)
    if not own:
        return filled.trial(setup)
    again, found = _fill(filled.scenario, filled.context, {**filled.values, **own})
    if again is None:
        return None, found
    trial, wrong = again.trial(_named(again.setups(), setup.name))
    return trial, [*found, *wrong]


class _FilledScenario:
    """The scenario with one combination of params filled in, all fields valid."""

    def __init__(
        self, scenario: Scenario, fields: ScenarioFields, context: _Context, values: Mapping[str, Scalar]
    ) -> None:
        self.scenario, self.fields, self.context, self.values = scenario, fields, context, values
        self.mistakes: list[Mistake] = []
        self.written: list[NodeGroup] = []  # the scenario's own groups: steps may name them
        self.nodes = {name: self._groups(name) for name in fields.nodes}
        self.fleet = FleetPlanning(self.source, fields, values, self.mistakes)

    @property
    def source(self) -> Source:
        return self.scenario.source

    def chosen(self) -> list[Setup]:
        """The set-ups that are run."""
        setups = self.setups()
        if self.context.pick_setups:
            return [_named(setups, name) for name in self.context.pick_setups]
        return self._of_stacks(setups) if self.context.pick_stacks else setups

    def own_params(self, setup: str) -> Mapping[str, Scalar]:
        """The params that the set-up sets itself."""
        written = (self.fields.setups or {}).get(setup)
        return written.params if written else {}

    def trial(self, setup: Setup) -> tuple[Trial, list[Mistake]]:
        """The trial of a set-up, but for repeat and number."""
        fields, context = self.fields, self.context
        namespaces = fields.namespaces or 0
        known = (*self.written, *context.nodes) if context.nodes else setup.nodes
        steps, mistakes = plan_steps(self.source, fields.steps, known, setup, namespaces)
        trial = Trial(
            0, self.scenario.name, context.on, setup, self.values, 0, fields.seed, steps,
            expectations(self.source, fields.expect, ("expect",)), namespaces=namespaces, answer=tuple(fields.answer),
        )  # fmt: skip
        return trial, [*mistakes, *self.fleet.check_nodes(setup.name, (*known, *trial.node_groups()))]

    def setups(self) -> list[Setup]:
        """The scenario's set-ups, or one named after each stack that it lists."""
        fields = self.fields
        if fields.setups is not None:
            return [self._own_setup(name, setup) for name, setup in fields.setups.items()]
        entry = self._entry(None, ("stacks",))
        return [self._setup(stack, stack, entry, fields.client) for stack in fields.stacks or []]

    def _groups(self, entry: str) -> tuple[NodeGroup, ...]:
        path: KeyPath = ("nodes", entry) if entry else ("nodes",)
        groups: tuple[NodeGroup, ...] = ()
        for place, found in node_groups(self.fields.nodes[entry], Path(self.source.file).parent):
            made = self._unreadable((*path, *place), found) if isinstance(found, TraceProblem) else found
            names = [group.name for group in groups]
            for name in (group.name for group in made if group.name in names):
                what = f"two node groups are called '{name}'"
                self._wrong((*path, *place, "name"), what, "give each a different name")
            groups += made
        self.written += groups
        return groups if any(group.kubelet or group.existing for group in groups) else self.context.nodes or groups

    def _unreadable(self, path: KeyPath, problem: TraceProblem) -> tuple[NodeGroup, ...]:
        """Something in the place of a list of nodes that cannot be read, so that other mistakes are found too."""
        remedy = remedy_for(problem.name, problem.known) if problem.known else problem.remedy
        inside = tuple(problem.option.split(".")) if problem.option else ("trace",)
        self._wrong((*path, *inside), problem.message, remedy)
        return (NodeGroup("-".join(("unreadable", *map(str, path))), 1, {"pods": 0}),)

    def _wrong(self, path: KeyPath, what: str, remedy: str) -> None:
        self.mistakes.append(self.source.mistake(path, what, remedy))

    def _own_setup(self, name: str, fields: SetupFields) -> Setup:
        path: KeyPath = ("setups", name)
        entry = self._entry(fields.nodes, path)
        setup = self._setup(name, fields.stack, entry, fields.client or self.fields.client, fields)
        return dataclasses.replace(
            setup,
            components={
                component: own.override(self.source, (*path, "components", component))
                for component, own in fields.components.items()
            },
            priority_levels=tuple(level.flow_object() for level in fields.priority_levels),
            flow_schemas=tuple(schema.flow_object() for schema in fields.flow_schemas),
            delay=fields.delay.delay() if fields.delay else None,
        )

    def _setup(
        self, name: str, stack: str, entry: str, client: ClientFields | None, own: SetupFields | None = None
    ) -> Setup:
        resolved = scenario_settings.resolved(
            self.context.stacks[stack], self.fields.settings, own.settings if own else None
        )
        rate = (client.rate if client else None) or float(table.own(resolved, "submit", "rate")) or None
        fleet = self.fleet.fleet(name, own.preemption if own else None)
        sender = ClientSettings(rate, client.machines if client else 1)
        return Setup(name, stack, self.nodes[entry], sender, resolved, fleet=fleet)

    def _entry(self, named: str | None, path: KeyPath) -> str:
        """The entry of `nodes` that a set-up uses; it must be named unless it is the only one."""
        if named is None and len(self.nodes) > 1:
            self._wrong(path, "which nodes?", f"add `nodes:` to each set-up, one of {', '.join(self.nodes)}")
        return next(iter(self.nodes)) if named is None else named

    def _of_stacks(self, setups: Sequence[Setup]) -> list[Setup]:
        """The stacks as they come, on the scenario's fake nodes. Set-ups of a stack with params of their own ask something else of
        the same stack: they are run as they are."""
        found: list[Setup] = []
        for stack in self.context.pick_stacks:
            asking = [setup for setup in setups if setup.stack == stack and self.own_params(setup.name)]
            found += asking or [self._on_fake_nodes(stack, setups)]
        return found

    def _on_fake_nodes(self, stack: str, setups: Sequence[Setup]) -> Setup:
        """A set-up called after the stack, on the first fake nodes (on the first of all, if there are none)."""
        fake = (name for name, groups in self.nodes.items() if not any(g.kubelet or g.existing for g in groups))
        entry = next(fake, next(iter(self.nodes)))
        client = next((setup.client for setup in setups if setup.nodes is self.nodes[entry]), None)
        made = self._setup(stack, stack, entry, self.fields.client)
        return dataclasses.replace(made, client=client) if client else made


def _named(setups: Sequence[Setup], name: str) -> Setup:
    by_name = {setup.name: setup for setup in setups}
    if name not in by_name:
        raise UsageProblem(f"--setup {cut(name)}: the scenario has no such set-up", remedy_for(name, by_name))
    return by_name[name]
