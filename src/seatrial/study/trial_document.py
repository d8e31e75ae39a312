"""`trial.json` of a trial that has not begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seatrial.model.distributions import Distribution
from seatrial.model.fleet import Fleet
from seatrial.model.interfaces import Stack
from seatrial.model.lifecycle import Stage, with_kubelets
from seatrial.model.plan import Trial, to_json
from seatrial.record.layout import FORMAT
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.stacks import model_verified


def stages_of(trial: Trial, stack: Stack) -> Sequence[Stage]:
    """The lifecycle of the trial: the stack's, and what the runtimes of its kubelets tell."""
    told = trial.on == "local" and any(group.kubelet for group in trial.node_groups())
    return with_kubelets(stack.stages) if told else stack.stages


def description(trial: Trial, stack: Stack) -> dict[str, Any]:
    """The trial's description before it begins; results are added when it has ended."""
    from seatrial.study.eligibility import all_findings

    return {
        "format": FORMAT,
        "trial": trial.name,
        "number": trial.number,
        "scenario": trial.scenario,
        "on": trial.on,
        "setup": trial.setup.name,
        "stack": trial.setup.stack,
        "model": {"verified": model_verified(stack), "how": stack.verified} if trial.on == "sim" else None,
        "params": to_json(trial.params),
        "repeat": trial.repeat,
        "seed": trial.seed,
        "settings": to_json(trial.setup.settings),
        "client": to_json(trial.setup.client),
        "components": list(trial.setup.components),
        "stages": [{name: getattr(stage, name) for name in _OF_STAGES} for stage in stages_of(trial, stack)],
        "phases": {submit.name: _phase(submit, trial) for submit in trial.phases(Submit)},
        "groups": {
            group.name: {"labels": dict(group.labels), "taints": to_json(group.taints)} for group in trial.node_groups()
        },
        "quota": _quota(trial, stack),
        **({"limit_ns": trial.limit} if trial.limit else {}),
        **_fleet(trial, stack),
        "nodes": [],
        "sources": [],
        "detail": "",
        "notes": [],
        "took": [],
        "submitted": 0,
        "end_ns": 0,
        "flows": {
            "priority_levels": [level.name for level in trial.setup.priority_levels],
            "flow_schemas": [schema.name for schema in trial.setup.flow_schemas],
            "delay_ns": trial.setup.delay.duration if trial.setup.delay else 0,
        },
        "findings": all_findings(trial),
        "expect": [],
        "validity": {"valid": True, "reasons": []},
        "clog": None,
        "timed_out": None,
        "stalls": [],
        "audits": [],
        "wall_epoch_ns": 0,
        "run": {},
    }


_OF_STAGES = ("name", "of", "about", "general", "spent_on")


def _phase(submit: Submit, trial: Trial) -> dict[str, Any]:
    """Of drawn sizes only the smallest and the largest; `submitted.jsonl` has every workload's size and duration."""
    sizes = submit.sizes_in(trial)
    drawn = {
        name: value.described()
        for name, value in (("pods", submit.sizes), ("duration_ns", submit.duration))
        if isinstance(value, Distribution)
    }
    return {
        "count": submit.count,
        "pods": [sizes[0], sizes[-1]] if "pods" in drawn else sizes,
        "requests": dict(submit.shape.requests),
        "declares": None if submit.declares is None else dict(submit.declares),
        "gang": submit.gang,
        "duration_ns": None if isinstance(submit.duration, Distribution) else submit.duration,
        "selector": dict(submit.shape.selector),
        "affinity": to_json(submit.shape.affinity),
        "tolerations": to_json(submit.shape.tolerations),
        "priority": submit.shape.priority,
        "interactive": submit.interactive,
        **submit.described(),
        **({"drawn": drawn} if drawn else {}),
        **({"checkpoint_ns": submit.checkpoint} if submit.checkpoint else {}),
    }


def _fleet(trial: Trial, stack: Stack) -> dict[str, Any]:
    """Queues and rules, and from which stage on a pod counts against its queue."""
    if trial.setup.fleet == Fleet():
        return {}
    return {"fleet": to_json(trial.setup.fleet), "quota_from": stack.quota_from}


def _quota(trial: Trial, stack: Stack) -> dict[str, int] | None:
    """The quota of the stack's queue on the nodes at the beginning. The capacity of existing nodes is not known
    here: then only settings count."""
    known = not any(group.existing for group in trial.setup.nodes) and not trial.target.cluster
    groups = trial.setup.nodes if known else ()
    names = dict.fromkeys(
        name for group in groups for name in group.capacity
    )  # the order of a set differs between runs
    capacity = {name: sum(group.capacity.get(name, 0) * group.count for group in groups) for name in names}
    quota = stack.quota(trial.setup.settings, capacity)
    return None if quota is None else dict(quota)
