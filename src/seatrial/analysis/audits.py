"""The audits of every trial, whatever its outcome: misplaced pods, admission beyond what nodes can take, gangs started in part.

Each audit gives a sentence, a count and a few examples, even if it found nothing: the reader sees that it looked.

- `misfit`: pods on a node that they do not fit, because of other pods there or of labels and taints.
- `aggregate admission`: workloads that the queue admitted although no node could take their pods, not even an empty one
  (`never`), or not beside the pods on the nodes at that moment (`crowded`). A gang counts as a whole, other pods one by one.
- `over-admission`: more pods admitted and unfinished than the nodes can hold at the same time; the count is the excess at the worst
  moment. Pods of one phase are compared with empty nodes; pods of all phases as if each were as small as the smallest. Pods that
  fit no node at all belong to the audit above.
- `declared otherwise`: workloads for which the queue was told other requests than their pods have.
- `gang in part`: gangs of which some pods were bound and others not for longer than a start takes: a pod's usual time from
  bound to running, a second at least, plus the time for 50 bindings per second; or at the end of a trial that clogged.
- `head of line`: workloads that would have fitted and waited for a minute or longer behind the first of the queue, which did not.
- `overtaken`: workloads that were still waiting when another started that was submitted later, asks for no less and has no
  higher priority. Started means that all pods are bound; starts within a second count as simultaneous. With queues, only workloads
  of the same queue overtake each other; one that was evicted is not overtaken.

A shared fleet has more of them: `fleet_audits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from seatrial.analysis.admission_audits import (
    EXAMPLES,
    Audit,
    aggregate_admission,
    audit_of,
    declared_otherwise,
    head_of_line,
    names_of,
    over_admission,
    quantity,
    seconds,
    seconds_of,
    some,
)
from seatrial.analysis.fleet_audits import fleet_audits
from seatrial.analysis.occupancy import NEVER, Mask, Numbers, Occupancy
from seatrial.analysis.stage_times import Lifecycle, lifecycle
from seatrial.model.lifecycle import COMPLETED, DELETED, FAILED, RUNNING, SCHEDULED, SUBMITTED
from seatrial.model.units import SECOND
from seatrial.record.trial_record import TrialRecord

BINDS_PER_S = 50  # default QPS of kube-scheduler's client: the pods of a gang can be bound at this rate
TOGETHER_NS = SECOND  # queues sort by creation times, which are whole seconds


def audits(directory: Path, document: Mapping[str, Any] | None = None) -> list[Audit]:
    """All audits of a trial. `document` stands in for its trial.json as long as that is not finished."""
    trial = TrialRecord.open(directory) if document is None else TrialRecord(directory, document)
    return audits_of(lifecycle(trial))


def audits_of(seen: Lifecycle) -> list[Audit]:
    """The same for a trial that is read already."""
    occupancy = Occupancy(seen)
    return [
        _misfits(occupancy),
        aggregate_admission(occupancy),
        over_admission(occupancy),
        declared_otherwise(occupancy),
        _gangs_in_part(occupancy),
        head_of_line(occupancy),
        _overtaken(occupancy),
        *fleet_audits(seen),
    ]


def _misfits(occupancy: Occupancy) -> Audit:
    events = occupancy.events
    over = events.used > occupancy.capacity[:, events.node]
    too_much = np.flatnonzero(over.any(axis=0) & events.comes)
    placed = occupancy.placed
    kept_off = placed[~occupancy.allowed[occupancy.phase[placed], occupancy.group[occupancy.node[placed]]]]
    examples = []
    for event in too_much[:EXAMPLES].tolist():
        pod = int(events.pod[event])
        row = int(np.flatnonzero(over[:, event])[0])
        asked = int(occupancy.requests[row, occupancy.phase[pod]])
        left = int(occupancy.capacity[row, events.node[event]] - events.used[row, event]) + asked
        name = occupancy.resources[row]
        why = f"it requests {quantity(name, asked)} and {quantity(name, max(left, 0))} was left"
        examples.append(_pod(occupancy, pod, why))
    examples += [_pod(occupancy, pod, "labels or taints keep it off") for pod in kept_off[:EXAMPLES].tolist()]
    count = len(set(events.pod[too_much].tolist()) | set(kept_off.tolist()))
    finding = "Every pod fitted the node that it was bound to."
    if count:
        first = examples[0]
        finding = (
            f"{some(count, 'pod was', 'pods were')} bound to a node that {'it does' if count == 1 else 'they do'} not fit: "
            f"{first['pod']} to {first['node']} at {first['at_s']} s, where {first['why']}."
        )
    return audit_of("misfit", finding, count, examples)


def _gangs_in_part(occupancy: Occupancy) -> Audit:
    seen = occupancy.seen
    gangs = np.array([bool(phase.get("gang")) for phase in occupancy.details], dtype=bool)
    pods = (
        np.flatnonzero((occupancy.bound != NEVER) & gangs[occupancy.phase])
        if len(gangs)
        else np.zeros(0, dtype=np.int64)
    )
    lost = pods[occupancy.lost[pods] != NEVER]
    workload = np.concatenate((occupancy.workload[pods], occupancy.workload[lost]))
    at = np.concatenate((occupancy.bound[pods], occupancy.lost[lost]))
    change = np.where(np.arange(len(at)) < len(pods), 1, -1)
    order = np.lexsort((change, at, workload))
    workload, at, change = workload[order], at[order], change[order]
    size, over, ended = _per_workload(seen)
    if not len(workload):
        return audit_of("gang in part", "No gang stood in part.", 0, [], at_end=0)
    starts = np.flatnonzero(np.append(True, workload[1:] != workload[:-1]))
    sums = np.cumsum(change)
    before = np.repeat(np.append(0, sums[starts[1:] - 1]), np.diff(np.append(starts, len(workload))))
    placed = sums - before
    last = np.append(workload[1:] != workload[:-1], True)
    until = np.where(last, over[workload], np.append(at[1:], 0))
    part = (placed > 0) & (placed < size[workload])
    spent = np.zeros(len(size), dtype=np.int64)
    np.add.at(spent, workload[part], np.maximum(until - at, 0)[part])
    most = np.zeros(len(size), dtype=np.int64)
    np.maximum.at(most, workload[part], placed[part])
    still = np.zeros(len(size), dtype=bool)
    still[workload[last & part]] = True
    still &= ~ended
    patience = _time_to_start(seen) + size * (SECOND // BINDS_PER_S)
    found = np.flatnonzero((spent > patience) | (still & (seen.trial.outcome == "clogged")))
    found = found[np.argsort(-spent[found], kind="stable")]
    names = names_of(seen)
    examples = [
        {
            "workload": names[number],
            "placed": int(most[number]),
            "of": int(size[number]),
            "for_s": seconds_of(int(spent[number])),
            "at_end": bool(still[number]),
        }
        for number in found[:EXAMPLES].tolist()
    ]
    finding = "No gang stood in part for longer than it takes to start."
    if len(found):
        first = examples[0]
        finding = (
            f"{some(len(found), 'gang', 'gangs')} started in part: {first['workload']} held room for {first['placed']} of its "
            f"{first['of']} pods for {first['for_s']} s; {int(still[found].sum())} still did at the end."
        )
    return audit_of("gang in part", finding, len(found), examples, at_end=int(still[found].sum()))


def _overtaken(occupancy: Occupancy) -> Audit:
    seen = occupancy.seen
    workloads = seen.workloads
    _, over, _ = _per_workload(seen)
    number = workloads["number"].to_numpy()
    submitted, size = workloads[SUBMITTED.name].to_numpy(), workloads["pods"].to_numpy()
    has_started = SCHEDULED.name in workloads.columns
    started = workloads[SCHEDULED.name].fill_null(NEVER).to_numpy() if has_started else np.full(len(number), NEVER)
    waited = np.where(started == NEVER, over[number], started)
    phase, queue = occupancy.phase_of_workloads, _queues(workloads)
    earliest = np.full(len(number), NEVER)
    for place in range(len(occupancy.phases)):
        every = np.flatnonzero(np.isin(phase, _no_smaller(occupancy, place)) & (started != NEVER))
        every = every[np.argsort(submitted[every], kind="stable")]
        of_phase = np.flatnonzero(phase == place)
        for name in np.unique(queue[of_phase]).tolist():
            rivals, mine = every[queue[every] == name], of_phase[queue[of_phase] == name]
            for pods in np.unique(size[mine]).tolist():
                later = rivals[size[rivals] >= pods]
                of_size = mine[size[mine] == pods]
                first_of_rest = np.append(np.minimum.accumulate(started[later][::-1])[::-1], NEVER)
                earliest[of_size] = first_of_rest[np.searchsorted(submitted[later], submitted[of_size], side="right")]
    earliest[np.isin(number, seen.evictions["workload"].to_numpy())] = NEVER
    behind = np.where(earliest == NEVER, 0, waited - np.where(earliest == NEVER, 0, earliest))
    found = np.flatnonzero(behind > TOGETHER_NS)
    found = found[np.argsort(-behind[found], kind="stable")]
    examples = []
    for row in found[:EXAMPLES].tolist():
        rivals = (
            np.isin(phase, _no_smaller(occupancy, int(phase[row]))) & (size >= size[row]) & (submitted > submitted[row])
        ) & (queue == queue[row])
        ahead = np.flatnonzero(rivals & (started < waited[row] - TOGETHER_NS))
        examples.append({
            "workload": workloads["workload"][row],
            "by": len(ahead),
            "first": workloads["workload"][int(ahead[np.argmin(started[ahead])])],
            "behind_s": seconds_of(int(behind[row])),
            "started": bool(started[row] != NEVER),
        })  # fmt: skip
    finding = "No workload was overtaken by a later one that requests as much."
    if len(found):
        first = examples[0]
        how = "started" if first["started"] else "still had not started"
        finding = (
            f"{some(len(found), 'workload was', 'workloads were')} overtaken by later ones that request no less: "
            f"{first['workload']} by {first['by']}; it {how} {first['behind_s']} s after {first['first']} did."
        )
    return audit_of("overtaken", finding, len(found), examples)


def _queues(workloads: pl.DataFrame) -> Numbers:
    """Per workload the number of its queue; 0 for all without queues."""
    if not workloads["queue"].count():
        return np.zeros(workloads.height, dtype=np.int64)
    return workloads["queue"].fill_null("").cast(pl.Categorical).to_physical().to_numpy().astype(np.int64)


def _no_smaller(occupancy: Occupancy, place: int) -> Numbers:
    """Phases whose pods request no less of anything and have no higher priority: they should not go first."""
    asks = (occupancy.requests >= occupancy.requests[:, [place]]).all(axis=0)
    return np.flatnonzero(asks & (occupancy.priority <= occupancy.priority[place]))


def _per_workload(seen: Lifecycle) -> tuple[Numbers, Numbers, Mask]:
    """By number: its pods, when it ended (at the latest with the trial), and whether it ended before the trial."""
    workloads = seen.workloads
    numbers = workloads["number"].to_numpy()
    room = int(numbers.max(initial=-1)) + 1
    ends = [stage.name for stage in (COMPLETED, FAILED, DELETED) if stage.name in workloads.columns]
    first = workloads.select(pl.min_horizontal(*ends, pl.lit(None, dtype=pl.Int64)).alias("over"))["over"]
    size, over, ended = np.zeros(room, dtype=np.int64), np.full(room, seen.end_ns), np.zeros(room, dtype=bool)
    size[numbers] = workloads["pods"].to_numpy()
    over[numbers] = first.fill_null(seen.end_ns).to_numpy()
    ended[numbers] = first.is_not_null().to_numpy()
    return size, over, ended


def _time_to_start(seen: Lifecycle) -> int:
    """A pod's usual time from bound to running in this trial."""
    if RUNNING.name not in seen.pods.columns or SCHEDULED.name not in seen.pods.columns:
        return SECOND
    usual = seen.pods.select((pl.col(RUNNING.name) - pl.col(SCHEDULED.name)).median()).item()
    return max(SECOND, int(usual or 0))


def _pod(occupancy: Occupancy, pod: int, why: str) -> dict[str, Any]:
    row = occupancy.frame.row(pod, named=True)
    node = occupancy.names[row["node"]]
    return {"pod": row["name"], "node": node, "at_s": seconds(occupancy.seen, row[SCHEDULED.name]), "why": why}
