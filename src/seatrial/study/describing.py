"""`trial.json`: what a trial is, written before it begins and whole at any moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seatrial.model.interfaces import Stack
from seatrial.model.plan import Trial, to_json
from seatrial.stacks import model_verified

FORMAT = 1


def description(trial: Trial, stack: Stack) -> dict[str, Any]:
    """All that is known before it begins; what comes of it is added when it is over."""
    from seatrial.scenario import findings_of
    from seatrial.study.fitting import memory_findings

    return {
        "format": FORMAT,
        "trial": trial.name,
        "number": trial.number,
        "scenario": trial.scenario,
        "on": trial.on,
        "setup": trial.setup.name,
        "stack": trial.setup.stack,
        "model": {"verified": model_verified(stack), "how": getattr(stack, "verified", "")}
        if trial.on == "sim"
        else None,
        "params": to_json(trial.params),
        "repeat": trial.repeat,
        "seed": trial.seed,
        "settings": to_json(trial.setup.settings),
        "client": to_json(trial.setup.client),
        "components": list(trial.setup.components),
        "stages": [to_json(stage) for stage in stack.stages],
        "phases": {
            submit.name: {
                "count": submit.count,
                "pods": sorted(set(submit.sizes)),
                "requests": dict(submit.shape.requests),
                "declares": None if submit.declares is None else dict(submit.declares),
                "gang": submit.gang,
                "duration_ns": submit.duration,
                "selector": dict(submit.shape.selector),
                "affinity": to_json(submit.shape.affinity),
                "tolerations": to_json(submit.shape.tolerations),
                "priority": submit.shape.priority,
                "interactive": submit.interactive,
            }
            for submit in trial.submits()
        },
        "groups": {
            group.name: {"labels": dict(group.labels), "taints": to_json(group.taints)} for group in trial.node_groups()
        },
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
        "findings": [*findings_of(trial), *memory_findings(trial)],
        "expect": [],
        "validity": {"valid": True, "reasons": []},
        "clog": None,
        "stalls": [],
        "audits": [],
        "wall_epoch_ns": 0,
        "run": {},
    }


def write_json(path: Path, value: Any) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=1) + "\n")
    part.replace(path)
