"""What is looked at after every trial, whatever its outcome: did the stack do what nobody would want of it?

Each audit gives a sentence, a count and a few examples, also where it found nothing, so that one can see that it looked:

- `misfit`: pods on a node that they do not fit, by what stood there, or by labels and taints.
- `aggregate admission`: workloads that the queue let go although no node could take their pods, not even an empty one
  (`never`), or not with what stood on the nodes at that moment (`crowded`). A gang counts as a whole, other pods one by one.
- `over-admission`: more pods let go and not over than the nodes can hold at the same time. The count is by how many at the worst
  moment. Pods of one phase are held against empty nodes; pods of all phases as if each were as small as the smallest. Pods that
  fit no node at all belong to the audit above.
- `declared otherwise`: workloads for which the queue was told other requests than their pods have.
- `gang in part`: gangs of which some pods were bound and others not for longer than it takes to start: a pod's usual time from
  bound to running, a second at least, and the time that 50 bindings per second need; or when a trial ended clogged.
- `head of line`: workloads that would have fitted and waited for a minute or longer behind the first of the queue, which did not.
- `overtaken`: workloads that were still waiting when another started that was submitted later, asks for no less and has no
  higher priority. Started means that all pods are bound; what is within a second counts as together.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from seatrial.analysis.directory import TrialRecord, read_trial
from seatrial.analysis.figures import AUDITS
from seatrial.analysis.head_of_line import Line
from seatrial.analysis.lifecycle import Lifecycle, lifecycle
from seatrial.analysis.standing import NEVER, PODS, Mask, Numbers, Standing, Steps
from seatrial.model.lifecycle import ADMITTED, COMPLETED, DELETED, FAILED, RUNNING, SCHEDULED, SUBMITTED
from seatrial.model.units import SECOND, format_quantity

EXAMPLES = 5
BINDS_PER_S = 50  # kube-scheduler's client as it is shipped: so fast can the pods of a gang be bound
TOGETHER_NS = SECOND  # creation times, by which queues sort, are whole seconds
Audit = dict[str, Any]

_NO_QUEUE = "No queue admits workloads here."


def audits(directory: Path, document: Mapping[str, Any] | None = None) -> list[Audit]:
    """All audits of a trial. `document` stands in for its trial.json as long as that is not finished."""
    trial = read_trial(directory) if document is None else TrialRecord(directory, document)
    return audits_of(lifecycle(trial))


def audits_of(seen: Lifecycle) -> list[Audit]:
    """The same for a trial that is read already."""
    standing = Standing(seen)
    return [
        _misfits(standing),
        _aggregate_admissions(standing),
        _over_admission(standing),
        _declared_otherwise(standing),
        _gangs_in_part(standing),
        _head_of_line(standing),
        _overtaken(standing),
    ]


def audit_counts(directory: Path, document: Mapping[str, Any] | None = None) -> dict[str, int]:
    """The counts as figures have them."""
    return {AUDITS[audit["audit"]]: audit["count"] for audit in audits(directory, document)}


def _misfits(standing: Standing) -> Audit:
    events = standing.events
    over = events.used > standing.capacity[:, events.node]
    too_much = np.flatnonzero(over.any(axis=0) & events.comes)
    placed = standing.placed
    kept_off = placed[~standing.allowed[standing.phase[placed], standing.group[standing.node[placed]]]]
    examples = []
    for event in too_much[:EXAMPLES].tolist():
        pod = int(events.pod[event])
        row = int(np.flatnonzero(over[:, event])[0])
        asked = int(standing.requests[row, standing.phase[pod]])
        left = int(standing.capacity[row, events.node[event]] - events.used[row, event]) + asked
        name = standing.resources[row]
        why = f"it asks for {_amount(name, asked)} and {_amount(name, max(left, 0))} was left"
        examples.append(_pod(standing, pod, why))
    examples += [_pod(standing, pod, "labels or taints keep it off") for pod in kept_off[:EXAMPLES].tolist()]
    count = len(set(events.pod[too_much].tolist()) | set(kept_off.tolist()))
    finding = "Every pod fitted the node that it was bound to."
    if count:
        first = examples[0]
        finding = (
            f"{_some(count, 'pod was', 'pods were')} bound to a node that {'it does' if count == 1 else 'they do'} not fit: "
            f"{first['pod']} to {first['node']} at {first['at_s']} s, where {first['why']}."
        )
    return _audit("misfit", finding, count, examples)


def _aggregate_admissions(standing: Standing) -> Audit:
    seen = standing.seen
    if why := _nothing_to_hold_against(standing):
        return _audit("aggregate admission", why, 0, [], never=0, crowded=0)
    parts: list[pl.DataFrame] = []
    for place, phase in enumerate(standing.phases):
        let_go = seen.workloads.filter((pl.col("phase") == phase) & pl.col(ADMITTED.name).is_not_null())
        gang = bool(standing.details[place].get("gang"))
        at = let_go[ADMITTED.name].to_numpy()
        needs = let_go["pods"].to_numpy().astype(np.int64) if gang else np.minimum(let_go["pods"].to_numpy(), 1)
        empty, room = standing.empty(place).when(at), standing.room(place).when(at)
        parts.append(
            let_go.select("workload", "pods", pl.col(ADMITTED.name).alias("at")).with_columns(
                pl.lit(place).alias("place"), pl.Series("needs", needs, dtype=pl.Int64),
                pl.Series("empty", empty, dtype=pl.Int64), pl.Series("room", room, dtype=pl.Int64),
            )
        )  # fmt: skip
    never, crowded = pl.col("needs") > pl.col("empty"), pl.col("needs") > pl.col("room")
    rows = pl.concat(parts).filter(never | crowded).sort(~never, "at", maintain_order=True) if parts else pl.DataFrame()
    count = rows.height
    hopeless = int(rows.select(never.sum()).item()) if count else 0
    examples = [
        {
            "workload": row["workload"],
            "at_s": _seconds(seen, row["at"]),
            "pods": row["pods"],
            "room": row["room"],
            "room_when_empty": row["empty"],
            "asks": _asks(standing, row["place"]),
        }
        for row in rows.head(EXAMPLES).rows(named=True)
    ]
    finding = "What was admitted, the nodes could take."
    if count:
        first = examples[0]
        when = "even empty nodes have" if hopeless else "the nodes had at that moment"
        finding = (
            f"{_some(count, 'workload was', 'workloads were')} admitted by what the cluster has in all, not by what a node can "
            f"take ({hopeless} could never run, {count - hopeless} not at that moment): {first['workload']}, admitted at "
            f"{first['at_s']} s, needs room for {_some(first['pods'], 'pod', 'pods')} of {first['asks']}; {when} room for "
            f"{first['room_when_empty'] if hopeless else first['room']}."
        )
    return _audit("aggregate admission", finding, count, examples, never=hopeless, crowded=count - hopeless)


def _nothing_to_hold_against(standing: Standing) -> str:
    """Why admission cannot be judged, if so: a trial that was cut off does not say which nodes it had."""
    if ADMITTED.name not in standing.seen.workloads.columns:
        return _NO_QUEUE
    return "" if standing.phases and standing.spans else "The nodes of this trial are not known."


def _over_admission(standing: Standing) -> Audit:
    seen = standing.seen
    if why := _nothing_to_hold_against(standing):
        return _audit("over-admission", why, 0, [])
    alive = (standing.created != NEVER) & (standing.gone > standing.created)
    worst = (0, 0, 0, 0, 0)  # too many, when, of how many, room for, for how long
    cases = [(alive & (standing.phase == place), standing.empty(place)) for place in range(len(standing.phases))]
    for which, empty in [*cases, (alive, standing.empty_for_any())]:
        worst = max(worst, _most_too_many(standing, which, empty), key=lambda case: case[0])
    too_many, at, pods, room, lasted = worst
    finding = "Never were more pods admitted than the nodes can hold at the same time."
    examples: list[dict[str, Any]] = []
    if too_many:
        examples = _without_a_place(standing, alive, at)
        finding = (
            f"At {_seconds(seen, at)} s {pods} admitted pods were not over, and the nodes can hold {room} of them at the same "
            f"time: {too_many} too many. More were admitted than can stand for {_seconds_of(lasted)} s in all."
        )
    extra = (
        {"at_s": _seconds(seen, at), "pods": pods, "room": room, "lasted_s": _seconds_of(lasted)} if too_many else {}
    )
    return _audit("over-admission", finding, too_many, examples, **extra)


def _most_too_many(standing: Standing, which: Mask, empty: Steps) -> tuple[int, int, int, int, int]:
    """The worst moment of these pods against what empty nodes could hold. Pods that fit no node at all are another finding."""
    created, gone = standing.created[which], standing.gone[which]
    if not len(created):
        return (0, 0, 0, 0, 0)
    ones = np.ones(len(created), dtype=np.int64)
    pods = Steps.of(np.concatenate((created, gone)), np.concatenate((ones, -ones)))
    at = np.unique(np.concatenate((pods.at, empty.at)))
    there, room = pods.when(at), empty.when(at)
    over = np.where(room > 0, np.maximum(there - room, 0), 0)
    worst = int(over.argmax())
    until = np.append(at[1:], max(int(at[-1]), standing.seen.end_ns))
    lasted = int((until - at)[over > 0].sum())
    return int(over[worst]), int(at[worst]), int(there[worst]), int(room[worst]), lasted


def _without_a_place(standing: Standing, alive: Mask, at: int) -> list[dict[str, Any]]:
    """Workloads with pods that stood nowhere at that moment."""
    nowhere = alive & (standing.created <= at) & (standing.gone > at) & (standing.bound > at)
    numbers, counts = np.unique(standing.workload[nowhere], return_counts=True)
    names = _names(standing.seen)
    pairs = zip(numbers[:EXAMPLES].tolist(), counts[:EXAMPLES].tolist(), strict=True)
    return [{"workload": names[number], "pods_without_a_place": count} for number, count in pairs]


def _declared_otherwise(standing: Standing) -> Audit:
    seen = standing.seen
    if ADMITTED.name not in seen.workloads.columns:
        return _audit("declared otherwise", _NO_QUEUE, 0, [])
    counts = dict(seen.workloads.group_by("phase").len().rows())
    examples: list[dict[str, Any]] = []
    count = 0
    for name, phase in zip(standing.phases, standing.details, strict=True):
        asked, told = phase.get("requests") or {}, phase.get("declares")
        if told is None or not counts.get(name):
            continue
        differ = [r for r in sorted({*asked, *told}) if asked.get(r, 0) != told.get(r, 0)]
        if differ:
            count += int(counts[name])
            what = {r: {"declared": told.get(r, 0), "asked": asked.get(r, 0)} for r in differ}
            examples.append({"phase": name, "workloads": int(counts[name]), "differ": what})
    finding = "The queue was told what the pods ask for."
    if count:
        first = examples[0]
        resource, amounts = next(iter(first["differ"].items()))
        finding = (
            f"For {_some(count, 'workload', 'workloads')} the queue was told other requests than the pods have: {first['phase']} "
            f"declares {_amount(resource, amounts['declared'])}, and its pods ask for {_amount(resource, amounts['asked'])}."
        )
    return _audit("declared otherwise", finding, count, examples[:EXAMPLES])


def _gangs_in_part(standing: Standing) -> Audit:
    seen = standing.seen
    gangs = np.array([bool(phase.get("gang")) for phase in standing.details], dtype=bool)
    pods = (
        np.flatnonzero((standing.bound != NEVER) & gangs[standing.phase]) if len(gangs) else np.zeros(0, dtype=np.int64)
    )
    lost = pods[standing.lost[pods] != NEVER]
    workload = np.concatenate((standing.workload[pods], standing.workload[lost]))
    at = np.concatenate((standing.bound[pods], standing.lost[lost]))
    change = np.where(np.arange(len(at)) < len(pods), 1, -1)
    order = np.lexsort((change, at, workload))
    workload, at, change = workload[order], at[order], change[order]
    size, over, ended = _per_workload(seen)
    if not len(workload):
        return _audit("gang in part", "No gang stood in part.", 0, [], at_end=0)
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
    names = _names(seen)
    examples = [
        {
            "workload": names[number],
            "placed": int(most[number]),
            "of": int(size[number]),
            "for_s": _seconds_of(int(spent[number])),
            "at_end": bool(still[number]),
        }
        for number in found[:EXAMPLES].tolist()
    ]
    finding = "No gang stood in part for longer than it takes to start."
    if len(found):
        first = examples[0]
        finding = (
            f"{_some(len(found), 'gang', 'gangs')} started in part: {first['workload']} held room for {first['placed']} of its "
            f"{first['of']} pods for {first['for_s']} s; {int(still[found].sum())} still did at the end."
        )
    return _audit("gang in part", finding, len(found), examples, at_end=int(still[found].sum()))


def _head_of_line(standing: Standing) -> Audit:
    seen = standing.seen
    if why := _nothing_to_hold_against(standing):
        return _audit("head of line", why, 0, [])
    found = Line(standing).blockings()
    names = seen.workloads["workload"]
    examples = [
        {
            "head": names[one.head],
            "from_s": _seconds(seen, one.since),
            "until_s": _seconds(seen, one.until),
            "behind": len(one.behind),
            "first": names[int(one.behind[0])],
            "blocked_s": _seconds_of(int(one.lasted[0])),
        }
        for one in found[:EXAMPLES]
    ]
    count = len({row for one in found for row in one.behind.tolist()})
    finding = "No workload that would have fitted waited for longer than a minute behind one that did not."
    if count:
        first, place = examples[0], standing.phases.index(seen.workloads["phase"][found[0].head])
        more = f", and {_some(len(found) - 1, 'other head', 'other heads')} likewise" if len(found) > 1 else ""
        pods = int(seen.workloads["pods"][found[0].head])
        waited = f"{first['first']}{f' and {n} more' if (n := first['behind'] - 1) else ''}"
        finding = (
            f"{_some(count, 'workload waited', 'workloads waited')} behind one that did not fit although "
            f"{'it' if count == 1 else 'each of them'} would have fitted: {first['head']} ({_some(pods, 'pod', 'pods')} of "
            f"{_asks(standing, place)}) was first in the queue from {first['from_s']} s to {first['until_s']} s, and {waited} "
            f"waited behind it for up to {first['blocked_s']} s{more}.{_instead(seen)}"
        )
    return _audit("head of line", finding, count, examples)


def _instead(seen: Lifecycle) -> str:
    """What to change, where a setting of the stack makes the queue wait for its head."""
    if (seen.trial.document.get("settings") or {}).get("kueue", {}).get("strategy") != "StrictFIFO":
        return ""
    return " Kueue lets others pass a head that does not fit with settings: {kueue: {strategy: BestEffortFIFO}}."


def _overtaken(standing: Standing) -> Audit:
    seen = standing.seen
    workloads = seen.workloads
    _, over, _ = _per_workload(seen)
    number = workloads["number"].to_numpy()
    submitted, size = workloads[SUBMITTED.name].to_numpy(), workloads["pods"].to_numpy()
    has_started = SCHEDULED.name in workloads.columns
    started = workloads[SCHEDULED.name].fill_null(NEVER).to_numpy() if has_started else np.full(len(number), NEVER)
    waited = np.where(started == NEVER, over[number], started)
    numbers = {name: place for place, name in enumerate(standing.phases)}
    phase = workloads["phase"].replace_strict(numbers, default=-1, return_dtype=pl.Int64).to_numpy()
    earliest = np.full(len(number), NEVER)
    for place in range(len(standing.phases)):
        rivals = np.flatnonzero(np.isin(phase, _no_smaller(standing, place)) & (started != NEVER))
        rivals = rivals[np.argsort(submitted[rivals], kind="stable")]
        mine = np.flatnonzero(phase == place)
        for pods in np.unique(size[mine]).tolist():
            later = rivals[size[rivals] >= pods]
            of_size = mine[size[mine] == pods]
            first_of_rest = np.append(np.minimum.accumulate(started[later][::-1])[::-1], NEVER)
            earliest[of_size] = first_of_rest[np.searchsorted(submitted[later], submitted[of_size], side="right")]
    behind = np.where(earliest == NEVER, 0, waited - np.where(earliest == NEVER, 0, earliest))
    found = np.flatnonzero(behind > TOGETHER_NS)
    found = found[np.argsort(-behind[found], kind="stable")]
    examples = []
    for row in found[:EXAMPLES].tolist():
        rivals = (
            np.isin(phase, _no_smaller(standing, int(phase[row]))) & (size >= size[row]) & (submitted > submitted[row])
        )
        ahead = np.flatnonzero(rivals & (started < waited[row] - TOGETHER_NS))
        examples.append({
            "workload": workloads["workload"][row],
            "by": len(ahead),
            "first": workloads["workload"][int(ahead[np.argmin(started[ahead])])],
            "behind_s": _seconds_of(int(behind[row])),
            "started": bool(started[row] != NEVER),
        })  # fmt: skip
    finding = "No workload was overtaken by a later one that asks for as much."
    if len(found):
        first = examples[0]
        how = "started" if first["started"] else "still had not started"
        finding = (
            f"{_some(len(found), 'workload was', 'workloads were')} overtaken by later ones that ask for no less: "
            f"{first['workload']} by {first['by']}; it {how} {first['behind_s']} s after {first['first']} did."
        )
    return _audit("overtaken", finding, len(found), examples)


def _no_smaller(standing: Standing, place: int) -> Numbers:
    """Phases whose pods ask for as much of everything and have no higher priority: they have no right to go first."""
    asks = (standing.requests >= standing.requests[:, [place]]).all(axis=0)
    priority = np.array([int(phase.get("priority", 0)) for phase in standing.details], dtype=np.int64)
    return np.flatnonzero(asks & (priority <= priority[place]))


def _per_workload(seen: Lifecycle) -> tuple[Numbers, Numbers, Mask]:
    """By number: its pods, when it was over (or the trial), and whether it was over before the trial."""
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


def _names(seen: Lifecycle) -> dict[int, str]:
    return dict(seen.workloads.select("number", "workload").rows())


def _pod(standing: Standing, pod: int, why: str) -> dict[str, Any]:
    row = standing.frame.row(pod, named=True)
    node = standing.names[row["node"]]
    return {"pod": row["name"], "node": node, "at_s": _seconds(standing.seen, row[SCHEDULED.name]), "why": why}


def _asks(standing: Standing, place: int) -> str:
    asked = standing.details[place].get("requests") or {}
    return ", ".join(_amount(name, int(amount)) for name, amount in asked.items() if amount) or "nothing"


def _amount(resource: str, amount: int) -> str:
    return f"{resource} {format_quantity(amount, resource) if resource != PODS else amount}"


def _some(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _seconds(seen: Lifecycle, at: int) -> float:
    return _seconds_of(at - seen.first_ns)


def _seconds_of(nanoseconds: int) -> float:
    return round(nanoseconds / SECOND, 3)


def _audit(name: str, finding: str, count: int, examples: list[dict[str, Any]], **more: Any) -> Audit:
    return {"audit": name, "finding": finding, "count": count, "examples": examples, **more}
