"""Clogs as wait-for graphs: edges from the diagnosis, and what each workload holds and needs from the snapshot."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

from seatrial.analysis.trial_figures import since_first_s
from seatrial.clog.diagnosis import KINDS
from seatrial.clog.wording import quantities
from seatrial.record.trial_record import TrialRecord
from seatrial.report.page.markup import chart, join
from seatrial.report.page.view import PageSection, View, plural, seconds

SHOWN = 12  # clogs
MEMBERS = 14  # workloads in one picture
SNAPSHOT = "snapshot-clog.json.gz"


def clogs(view: View) -> PageSection | None:
    """The first clog of every set-up, the most certain first."""
    found: dict[tuple[str, str], TrialRecord] = {}
    for trial in view.study.trials:
        clog = trial.document.get("clog")
        if clog:
            found.setdefault((trial.setup, str(clog.get("kind"))), trial)
    if not found:
        return None
    shown = [_clog(view, trial) for trial in list(found.values())[:SHOWN]]
    drawn = any(one["edges"] for one in shown)
    title = (
        "An arrow leads from a waiting workload to a workload that holds what it needs" if drawn else "Wait-for graph"
    )
    note = "Strong arrows are the cycle. A click on a name shows what it holds and waits for."
    more = f"{plural(len(found), 'clog')} in all; the first {SHOWN} are shown." if len(found) > SHOWN else ""
    return PageSection(
        "clog",
        "Clog",
        "What clogged, and why",
        join(chart("clog", {"clogs": shown}, title, note if drawn else "", more)),
    )


def _clog(view: View, trial: TrialRecord) -> dict[str, Any]:
    clog = trial.document["clog"]
    at = since_first_s(clog.get("at_ns"), view.row_of.get(trial.name, {}), trial.document)
    states = _states(trial)
    edges: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for edge in clog.get("edges") or ():
        edges.setdefault((str(edge.get("waiter")), str(edge.get("holder"))), []).append(edge)
    names = list(dict.fromkeys([*map(str, clog.get("workloads") or ()), *(name for pair in edges for name in pair)]))
    kept = names[:MEMBERS]
    return {
        "trial": trial.name,
        "label": f"{trial.setup}: {clog.get('kind')}" + (f" at {seconds(at, 1)}" if at is not None else ""),
        "kind": str(clog.get("kind")),
        "means": KINDS.get(str(clog.get("kind")), ""),
        "summary": str(clog.get("summary") or ""),
        "proven": bool(clog.get("proven")),
        "members": [_member(name, states.get(name)) for name in kept],
        "left_out": len(names) - len(kept),
        "in_all": int(clog.get("workloads_in_all") or len(clog.get("workloads") or ())),
        "waiters": list(map(str, clog.get("waiters") or ())),
        "waiters_in_all": int(clog.get("waiters_in_all") or 0),
        "edges": [
            {
                "waiter": kept.index(waiter),
                "holder": kept.index(holder),
                "where": [str(edge.get("where")) for edge in some],
                "amount": quantities(_added([edge.get("amount") or {} for edge in some])),
            }
            for (waiter, holder), some in edges.items()
            if waiter in kept and holder in kept
        ],
        "amounts": [[str(name), quantities(amount)] for name, amount in (clog.get("amounts") or {}).items()],
        "words": list(map(str, clog.get("words") or ())),
    }


def _member(name: str, state: Mapping[str, Any] | None) -> dict[str, Any]:
    if state is None:
        return {"name": name}
    nodes = state["on"]
    return {
        "name": name,
        "size": int(state.get("size") or 0),
        "placed": len(nodes) + int(state.get("finished") or 0),
        "running": int(state.get("running") or 0),
        "nodes": list(dict.fromkeys(nodes)),
        "said": str(state.get("said") or ""),
    }


def _states(trial: TrialRecord) -> dict[str, dict[str, Any]]:
    """Every workload of the snapshot by name, with its nodes; empty without a readable snapshot."""
    try:
        state = json.loads(gzip.decompress((trial.directory / SNAPSHOT).read_bytes()))
    except (OSError, ValueError, EOFError):
        return {}
    nodes = [str(node["name"]) for node in state.get("nodes") or ()]
    return {
        str(one["name"]): {**one, "on": [nodes[place] for place in one.get("nodes") or () if place < len(nodes)]}
        for one in state.get("workloads") or ()
    }


def _added(amounts: list[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in amounts:
        for name, amount in one.items():
            total[name] = total.get(name, 0) + int(amount)
    return total
