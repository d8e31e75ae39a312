"""A study from its trials to its last file: what `seatrial run` does, without a word about how it is shown."""

from __future__ import annotations

import dataclasses
import datetime
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial import stacks
from seatrial.analysis.gates import FAILS, Verdict, judge, unfinished
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Stack
from seatrial.model.plan import Nodes, Scalar, Trial, Wait
from seatrial.model.settings import CONTROL_PLANE, OWN, resolve
from seatrial.study import directory
from seatrial.study.executing import Listener, run_all, usable_cores
from seatrial.study.interrupting import interruption
from seatrial.study.trials import Outcome

# Below this many workloads in all a pool costs more than it saves: a worker needs 0.6 s to import what it needs.
WORTH_A_POOL = 20_000


@dataclass
class StudyResult:
    out: Path
    outcomes: list[Outcome] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    interrupted: bool = False

    def never_began(self) -> list[str]:
        """A line for every trial that could not be set up and that no verdict speaks of."""
        lines = [f"{o.trial}: {o.outcome}: {o.detail}" for o in self.outcomes if not o.set_up]
        said = {verdict.line for verdict in self.verdicts}
        return [line for line in lines if line not in said]

    @property
    def exit_status(self) -> int:
        if self.interrupted:
            return 130
        if not all(outcome.set_up for outcome in self.outcomes):
            return 3
        return 1 if any(verdict.state == FAILS for verdict in self.verdicts) else 0


@dataclass(frozen=True, slots=True)
class Checked:
    """The trials that can run, and a line for every set-up that cannot."""

    trials: list[Trial]
    skipped: list[str]


def check(trials: Sequence[Trial]) -> Checked:
    """Refuses what is wrong, leaves out what cannot run on the chosen cluster; before anything is made."""
    _refuse_missing_files(trials)
    _refuse_missing_stages(trials)
    runnable: list[Trial] = []
    skipped: dict[str, None] = {}
    for trial in trials:
        stack = stacks.find(trial.setup.stack)
        why = stack.refuses(trial)
        if why:
            why += _who_can(trial)
        else:
            why = next(filter(None, (hindrance(trial) for hindrance in HINDRANCES)), None)
        if why:
            skipped[f"set-up '{trial.setup.name}' is left out: {why}"] = None
        else:
            runnable.append(trial)
    if not runnable:
        raise SetupProblem(
            "\n".join(skipped), "choose other set-ups (--setup), another stack or another cluster (--on)"
        )
    return Checked(runnable, list(skipped))


def _refuse_missing_files(trials: Sequence[Trial]) -> None:
    """Of components that set-ups bring, on every kind of cluster: one that runs none of them must not hide that they are gone."""
    lines: dict[str, None] = {}
    for trial in trials:
        for component, part in trial.setup.components.items():
            for file, what in ((part.binary, "program"), (part.config, "file")):
                if why := _why_unusable(file, what) if file else "":
                    lines[f"{part.place}: set-up '{trial.setup.name}', {component}: {why}"] = None
    if lines:
        remedy = "build it, or correct its path, which begins where the scenario stands; --setup runs the others alone"
        raise SetupProblem("\n".join(lines), remedy)


def _why_unusable(file: str, what: str) -> str:
    if not Path(file).is_file():
        return f"there is no {what} {file}"
    return f"{file} is not executable" if what == "program" and not os.access(file, os.X_OK) else ""


def _who_can(trial: Trial) -> str:
    """The stacks that would not refuse the same trial, for the end of a sentence."""
    able = []
    for other in _others(trial.setup.stack):
        plain = resolve((*CONTROL_PLANE, *other.settings), "as shipped", {})
        if not other.refuses(
            dataclasses.replace(trial, setup=dataclasses.replace(trial.setup, stack=other.name, settings=plain))
        ):
            able.append(other.name)
    return f"; stacks that can: {', '.join(able)}" if able else ""


def _others(name: str) -> Iterator[Stack]:
    """All stacks but this one; one that cannot be loaded is of no help."""
    for other in stacks.names():
        if other != name:
            with suppress(SetupProblem):
                yield stacks.find(other)


def _refuse_missing_stages(trials: Sequence[Trial]) -> None:
    """A wait for a stage that a set-up's stack does not have would never end there."""
    stages = {trial.setup.name: stacks.stages_of(trial.setup.stack) for trial in trials}
    lines: dict[str, None] = {}
    able = set(stages)
    for wait in (phase for trial in trials for step in trial.steps for phase in step if isinstance(phase, Wait)):
        have = [setup for setup, names in stages.items() if wait.stage in names]
        lack = [setup for setup in stages if setup not in have]
        if lack:
            able &= set(have)
            who = _named(have) + (" has it" if len(have) == 1 else " have it") if have else _who_has(wait.stage)
            does = "does" if len(lack) == 1 else "do"
            lines[
                f"{wait.place}: {wait.name} waits for '{wait.stage}', which {_named(lack)} {does} not have ({who})"
            ] = None
    if lines:
        common = [name for name in next(iter(stages.values())) if all(name in names for names in stages.values())]
        alone = f"run only {_named([name for name in stages if name in able])}, or " if able else ""
        raise UsageProblem("\n".join(lines), f"{alone}wait for a stage that all have: {', '.join(common)}")


def _named(setups: Sequence[str]) -> str:
    return ("set-up " if len(setups) == 1 else "set-ups ") + ", ".join(f"'{name}'" for name in setups)


def _who_has(stage: str) -> str:
    have = [name for name in stacks.names() if stage in stacks.stages_of(name)]
    return f"stacks that have it: {', '.join(have)}"


def _lacks_kubelets(trial: Trial) -> str | None:
    if trial.on != "sim" and any(group.kubelet for group in trial.node_groups()):
        return f"its nodes have kubelets, and --on {trial.on} has only fake ones so far"
    return None


def _lacks_existing(trial: Trial) -> str | None:
    if trial.on != "kubeconfig" and any(group.existing for group in trial.node_groups()):
        return f"it stands on existing nodes, and --on {trial.on} has none; they need --on kubeconfig"
    return None


def _brings_parts(trial: Trial) -> str | None:
    if trial.on == "kubeconfig" and trial.setup.components:
        return f"it brings its own {', '.join(trial.setup.components)}, and --on kubeconfig takes the cluster as it is"
    return None


def _lacks_the_application(trial: Trial) -> str | None:
    """On fake nodes we play it. Containers of a real node would have to be that application."""
    existing = any(group.existing for group in trial.node_groups())
    if existing and any(submit.gang for submit in trial.submits()):
        return "its pods wait for each other (gang), and on existing nodes nobody plays that application"
    return None


def _differs_from_the_kept(trial: Trial) -> str | None:
    """A kept cluster runs what it was started with. Settings of which no process knows may differ."""
    if trial.on != "local" or not trial.target.cluster:
        return None
    from seatrial.clusters.local import kept

    there = kept.find(trial.target.cluster)
    which = f"the kept cluster '{there.name}'"
    if trial.setup.stack != there.state.stack:
        return f"{which} runs the stack '{there.state.stack}', not '{trial.setup.stack}'; leave --cluster away"
    if trial.setup.components:
        return f"it brings its own {', '.join(trial.setup.components)}, and {which} has its parts already"
    table = (*CONTROL_PLANE, *OWN, *stacks.find(trial.setup.stack).settings)
    free = {(setting.component, setting.name) for setting in table if setting in OWN or not setting.of_processes}
    asked, has = _flat(trial.setup.settings), _flat(there.state.settings)
    for key in sorted((asked.keys() | has.keys()) - free):
        if asked.get(key) != has.get(key):
            component, name = key
            return f"it asks for {component}.{name}: {asked.get(key)}, and {which} was started with {has.get(key)}"
    changes = [phase.name for step in trial.steps for phase in step if isinstance(phase, Nodes)]
    if changes and there.nodes:
        return f"its phase {changes[0]} changes nodes, and those of {which} stay as they are"
    return None


def _flat(settings: Mapping[str, Mapping[str, Scalar]]) -> dict[tuple[str, str], Scalar]:
    return {(component, name): value for component, own in settings.items() for name, value in own.items()}


_CHANGING = ("update", "patch", "delete", "deletecollection")


def _changes_the_server(trial: Trial) -> str | None:
    """A server that was there before us is measured as it is."""
    setup = trial.setup
    asked = {"priority levels": setup.priority_levels, "flow schemas": setup.flow_schemas, "a delay": setup.delay}
    wanted = [name for name, value in asked.items() if value]
    if trial.on != "kubeconfig" and not trial.target.cluster:
        return None
    if wanted:
        return f"it brings {' and '.join(wanted)}, and a cluster that is there already is measured as it is"
    for phase in trial.requests():
        if phase.verb in _CHANGING and not phase.of:
            return f"its phase {phase.name} may change what others made; there it may only name a create phase (`of`)"
    return None


HINDRANCES = (
    _changes_the_server,
    _lacks_kubelets,
    _lacks_existing,
    _brings_parts,
    _lacks_the_application,
    _differs_from_the_kept,
)


def run_study(
    name: str,
    document: dict[str, Any],
    trials: Sequence[Trial],
    asked: dict[str, Any],
    out: Path,
    listener: Listener,
    *,
    force: bool = False,
    jobs: int | None = None,
    baseline: Path | None = None,
    gated: bool = False,
    reporting: Callable[[str], None] = lambda _: None,
) -> StudyResult:
    """Runs the trials into `out`. What was observed is there however it ends."""
    with directory.disk_problems(out), directory.made(out, force):
        study = directory.describe(name, document, trials, asked)
        started = time.time()
        run = {"started": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="seconds")}
        directory.write(out, {**study, "run": {**run, **directory.surroundings(), "state": "running"}})
        result = StudyResult(out)
        for outcome in run_all(trials, out, listener, jobs or _jobs(trials)):
            result.outcomes.append(outcome)
        result.interrupted = interruption.wanted
        state = "interrupted" if result.interrupted else "complete"
        wall = {"wall_s": round(time.time() - started, 3), "state": state}
        directory.write(out, {**study, "run": {**run, **directory.surroundings(), **wall}})
        result.files = _write_report(out, result, reporting)
        result.verdicts = unfinished(out) if result.interrupted else judge(out, baseline, gated)
    return result


def _write_report(out: Path, result: StudyResult, reporting: Callable[[str], None]) -> list[Path]:
    from seatrial.analysis.tables import write_tables
    from seatrial.report.writing import write_report

    if result.interrupted:
        return write_tables(out)  # pictures take seconds: `seatrial report` makes them
    reporting("tables and pictures")
    return write_report(out)


def _jobs(trials: Sequence[Trial]) -> int:
    if trials[0].on != "sim":
        return 1
    work = sum(submit.count * max(submit.sizes) for trial in trials for submit in trial.submits())
    work += sum((phase.count or 0) * len(phase.objects) for trial in trials for phase in trial.requests())
    return usable_cores() if work >= WORTH_A_POOL else 1
