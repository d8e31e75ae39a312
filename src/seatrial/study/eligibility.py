"""Decides which trials can run on the chosen cluster: missing files, stages and nodes, and whether a load fits into memory."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from seatrial import stacks
from seatrial.clusters.containers import requirements
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Stack
from seatrial.model.plan import Scalar, Trial
from seatrial.model.settings import CONTROL_PLANE, OWN, own, resolve
from seatrial.observe.machine import free_bytes
from seatrial.scenario.actions.change_nodes import KUBELET_CHANGES, NodeChange
from seatrial.scenario.actions.replay_trace import ReplayedTrace
from seatrial.scenario.actions.send_requests import Requests
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait

# Memory of the API server per object, estimated from one run: 3.1 GB with 113,000 small Secrets and ConfigMaps (docs/verified.md).
PER_OBJECT = 25_000
# Of a kubelet with five pods, 1.8 MB, with what API server, etcd and scheduler hold for it, and of the control plane without any:
# benchmarks/kubelets.py (docs/verified.md), rounded up. The API server takes more where more is free.
PER_KUBELET, CONTROL_PLANE_BYTES = 4_000_000, 1_000_000_000
PER_PAYLOAD = 6  # an object is held decoded, encoded, in caches and in etcd


@dataclass(frozen=True, slots=True)
class Checked:
    """The trials that can run, and a line for every set-up that cannot."""

    trials: list[Trial]
    skipped: list[str]


def check(trials: Sequence[Trial]) -> Checked:
    """Raises for mistakes and leaves out what cannot run on the chosen cluster, before anything is created."""
    _refuse_missing_files(trials)
    refuse_missing_stages(trials)
    runnable: list[Trial] = []
    skipped: dict[str, None] = {}
    for trial in trials:
        why = refusal(trial) or next(filter(None, (hindrance(trial) for hindrance in HINDRANCES)), None)
        if why:
            skipped[left_out(trial, why)] = None
        else:
            runnable.append(trial)
    if not runnable:
        raise SetupProblem(
            "\n".join(skipped), "choose other set-ups (--setup), another stack or another cluster (--on)"
        )
    return Checked(runnable, list(skipped))


def refusal(trial: Trial) -> str | None:
    """Why its stack cannot run it, and which stacks can; None if it can."""
    why = stacks.find(trial.setup.stack).refuses(trial)
    return why + _who_can(trial) if why else None


def left_out(trial: Trial, why: str) -> str:
    """The line about a set-up that is not run."""
    return f"set-up '{trial.setup.name}' is left out: {why}"


def _refuse_missing_files(trials: Sequence[Trial]) -> None:
    """Files of components that set-ups bring, on every kind of cluster: also where none of them is used."""
    lines: dict[str, None] = {}
    for trial in trials:
        for component, part in trial.setup.components.items():
            for file, what in ((part.binary, "program"), (part.config, "file")):
                if why := _why_unusable(file, what) if file else "":
                    lines[f"{part.place}: set-up '{trial.setup.name}', {component}: {why}"] = None
    if lines:
        remedy = "build it, or correct its path, which is relative to the scenario file; --setup runs the other set-ups"
        raise SetupProblem("\n".join(lines), remedy)


def _why_unusable(file: str, what: str) -> str:
    if not Path(file).is_file():
        return f"there is no {what} {file}"
    return f"{file} is not executable" if what == "program" and not os.access(file, os.X_OK) else ""


def _who_can(trial: Trial) -> str:
    """Names the stacks that would accept the same trial."""
    able = []
    for other in _others(trial.setup.stack):
        plain = resolve((*CONTROL_PLANE, *other.settings), "as shipped", {})
        if not other.refuses(
            dataclasses.replace(trial, setup=dataclasses.replace(trial.setup, stack=other.name, settings=plain))
        ):
            able.append(other.name)
    return f"; stacks that can: {', '.join(able)}" if able else ""


def _others(name: str) -> Iterator[Stack]:
    """All other stacks that can be loaded."""
    for other in stacks.names():
        if other != name:
            with suppress(SetupProblem):
                yield stacks.find(other)


def refuse_missing_stages(trials: Sequence[Trial]) -> None:
    """A wait for a stage that the stack lacks would never end."""
    stages = {trial.setup.name: [one.name for one in stacks.find(trial.setup.stack).stages] for trial in trials}
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
    groups = [group for group in trial.node_groups() if group.kubelet]
    if trial.on == "sim" or not groups:
        return None
    if trial.on == "kubeconfig":
        return "its nodes have kubelets, and --on kubeconfig creates only fake nodes; --on local has kubelets"
    if trial.target.cluster:
        return "its nodes have kubelets, and a kept cluster has only fake nodes; omit --cluster"
    for group in groups:
        if group.containers and (lacks := requirements.lacks()):
            said = "; ".join(f"{lack.what} ({lack.remedy})" for lack in lacks)
            return f"the kubelets of '{group.name}' run real containers: {said}"
        if group.capacity["cpu"] % 1000:
            return (
                f"the kubelets of '{group.name}' have a fraction of a core, and a machine has whole ones; change `cpu`"
            )
    return None


def _has_room_for_kubelets(trial: Trial) -> str | None:
    kubelets = sum(group.count for group in trial.node_groups() if group.kubelet)
    needed, free = CONTROL_PLANE_BYTES + kubelets * PER_KUBELET, free_bytes()
    if trial.on != "local" or not kubelets or not free or needed < free:
        return None
    most = max((free - CONTROL_PLANE_BYTES) // PER_KUBELET, 0)
    return (
        f"{kubelets:,} kubelets and the control plane need about {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are "
        f"free; use at most {most:,} of them, fake nodes, or --on sim"
    )


def _changes_kubelets(trial: Trial) -> str | None:
    kubelets = {group.name for group in trial.node_groups() if group.kubelet}
    for phase in trial.phases(NodeChange):
        if phase.change in KUBELET_CHANGES and trial.on != "local":
            return f"its phase {phase.name} controls kubelets, and only --on local has kubelets"
        if phase.change in ("ready", "unready") and phase.group in kubelets and trial.on == "local":
            return (
                f"its phase {phase.name} sets a condition that a kubelet sets itself; `stop` and `start` its kubelets"
            )
    return None


def _lacks_existing(trial: Trial) -> str | None:
    if trial.on != "kubeconfig" and any(group.existing for group in trial.node_groups()):
        return f"it uses existing nodes, and --on {trial.on} has none; they need --on kubeconfig"
    return None


def _brings_parts(trial: Trial) -> str | None:
    if trial.on == "kubeconfig" and trial.setup.components:
        return f"it replaces {', '.join(trial.setup.components)}, and --on kubeconfig cannot change components"
    return None


def _lacks_the_application(trial: Trial) -> str | None:
    """On fake nodes seatrial plays the application of a gang or with checkpoints; on real nodes the containers would have to be
    that application."""
    existing = any(group.existing for group in trial.node_groups())
    if existing and any(submit.gang for submit in trial.phases(Submit)):
        return "its pods wait for each other (gang), and on existing nodes no application does that"
    if existing and any(submit.checkpoint for submit in trial.phases(Submit)):
        return "its workloads continue at a checkpoint, and on existing nodes no application saves one"
    return None


def _differs_from_the_kept(trial: Trial) -> str | None:
    """A kept cluster runs what it was started with; only settings that no process reads may differ."""
    if trial.on != "local" or not trial.target.cluster:
        return None
    from seatrial.clusters.access import kept_clusters

    there = kept_clusters.find(trial.target.cluster)
    which = f"the kept cluster '{there.name}'"
    if trial.setup.stack != there.state.stack:
        return f"{which} runs the stack '{there.state.stack}', not '{trial.setup.stack}'; omit --cluster"
    if trial.setup.components:
        return f"it replaces {', '.join(trial.setup.components)}, and {which} already runs its components"
    table = (*CONTROL_PLANE, *OWN, *stacks.find(trial.setup.stack).settings)
    free = {(setting.component, setting.name) for setting in table if setting in OWN or not setting.of_processes}
    asked, has = _flat(trial.setup.settings), _flat(there.state.settings)
    for key in sorted((asked.keys() | has.keys()) - free):
        if asked.get(key) != has.get(key):
            component, name = key
            return f"it sets {component}.{name}: {asked.get(key)}, and {which} was started with {has.get(key)}"
    changes = [phase.name for step in trial.steps for phase in step if isinstance(phase, NodeChange)]
    if changes and there.nodes:
        return f"its phase {changes[0]} changes nodes, and those of {which} stay as they are"
    return None


def _flat(settings: Mapping[str, Mapping[str, Scalar]]) -> dict[tuple[str, str], Scalar]:
    return {(component, name): value for component, own in settings.items() for name, value in own.items()}


_CHANGING = ("update", "patch", "delete", "deletecollection")


def _changes_the_server(trial: Trial) -> str | None:
    """A server that existed before the run is measured as it is."""
    setup = trial.setup
    asked = {"priority levels": setup.priority_levels, "flow schemas": setup.flow_schemas, "a delay": setup.delay}
    wanted = [name for name, value in asked.items() if value]
    if trial.on != "kubeconfig" and not trial.target.cluster:
        return None
    if wanted:
        return f"it brings {' and '.join(wanted)}, and --on kubeconfig and --cluster leave the API server as it is"
    for phase in trial.phases(Requests):
        if phase.verb in _CHANGING and not phase.of:
            return f"its phase {phase.name} may change objects of others; there it may only name a create phase (`of`)"
    return None


def _lacks_machines(trial: Trial) -> str | None:
    """The API server of a fresh control plane shares this machine, and answers nobody else."""
    count = trial.setup.client.machines
    if count > 1 and trial.on == "local" and not trial.target.cluster:
        return f"its load comes from {count} machines, and a control plane of the trial's own is reached from this one alone"
    submits = trial.phases(Submit) if count > 1 and trial.on != "sim" else ()
    if submits and own(trial.setup.settings, "submit", "command"):
        return f"its load comes from {count} machines, and submit.command is a program of this one"
    for phase in submits:
        if isinstance(phase, ReplayedTrace) and phase.options.think:
            return (
                f"its load comes from {count} machines, and {phase.name} submits jobs when others have ended (think), "
                "which one client alone can do"
            )
    return None


HINDRANCES = (
    _lacks_machines,
    _changes_the_server,
    _lacks_kubelets,
    _has_room_for_kubelets,
    _changes_kubelets,
    _lacks_existing,
    _brings_parts,
    _lacks_the_application,
    _differs_from_the_kept,
)


def all_findings(trial: Trial) -> list[str]:
    """Findings before the run: on the scenario, on the stack, on this machine's memory. A set-up that is left out has no other."""
    from seatrial.scenario.findings import findings_of

    if why := refusal(trial):
        return [left_out(trial, why)]

    return [*findings_of(trial), *stacks.find(trial.setup.stack).findings(trial), *memory_findings(trial)]


def memory_findings(trial: Trial) -> list[str]:
    """A line if the control plane on this machine would need more memory than is free."""
    free = free_bytes()
    made = [phase for phase in trial.phases(Requests) if phase.verb == "create"]
    needed = sum((p.count or 0) * len(p.objects) * (PER_OBJECT + PER_PAYLOAD * p.payload) for p in made)
    if trial.on != "local" or not free or needed < free:
        return []
    count = sum((phase.count or 0) * len(phase.objects) for phase in made)
    return [
        f"{count:,} objects need about {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free; "
        "with fewer objects or smaller payloads the server is not killed half-way"
    ]
