"""Runs one trial into its directory. A description goes in, a trial directory comes out; trials do not know each other."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import gzip
import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from seatrial import stacks
from seatrial.model.doubts import RATES, TIMES, Doubt
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Cluster, Stack, Tally
from seatrial.model.plan import Expectation, Trial, to_json
from seatrial.model.state import State
from seatrial.record import metrics, request_log
from seatrial.record.files import write_json
from seatrial.record.inventory import inventory
from seatrial.record.layout import TRIAL
from seatrial.record.ledger import Ledger
from seatrial.record.merging import seal
from seatrial.record.segments import Observations, Segment
from seatrial.record.submissions import Submissions
from seatrial.record.trial_record import RUNNING, TrialRecord
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.expressions import Expression
from seatrial.steps.choreography import StepsResult, run_steps
from seatrial.study.interruption import interruption
from seatrial.study.trial_document import description, stages_of

PROGRESS_EVERY = 0.25  # s of real time
RATE_TOLERANCE = 0.95  # a client that reaches less of the rate asked for was itself the bottleneck
LATE_S = 0.5  # or 5 % of the time between two workloads: a mean rate hides stalls that are caught up later

# Called with the trial's name, workloads submitted, completed and planned, virtual seconds, and requests sent.
ReportProgress = Callable[[str, int, int, int, float, int], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a trial beside its directory."""

    trial: str
    outcome: str
    detail: str
    figures: dict[str, Any]
    failed_expectations: tuple[str, ...]
    set_up: bool = True  # false: it did not begin, because something could not be built or started


def run_trial(
    trial: Trial, directory: Path, progress: ReportProgress, alone: bool = True, machine: str = ""
) -> Outcome:
    """Runs a trial into its directory, which is marked `running` from the first moment. A trial that cannot be set up raises if it
    is alone; otherwise it is `failed`, and others may still run. `machine`: where, if not on the caller's."""
    directory.mkdir(parents=True)
    started = time.time()
    stack = stacks.find(trial.setup.stack)
    record = description(trial, stack)

    def mark_running() -> None:
        write_json(directory / TRIAL, {**record, "outcome": RUNNING})

    mark_running()
    ledger = Ledger(stages_of(trial, stack), Segment(directory))
    submissions = Submissions(directory)
    cluster = cluster_for(trial, stack, ledger, submissions, directory)
    record |= {"target": cluster.target(), "sources": cluster.sources()}
    if record["target"]:  # before anything is created there, so that `seatrial clean -o OUT` finds it
        mark_running()

    def begun() -> None:
        """With the epoch `seatrial sample` can take over from a run that was killed."""
        record["wall_epoch_ns"] = cluster.wall_epoch
        mark_running()

    try:
        ending, set_up = _run(cluster, trial, ledger, progress, begun, stack.releases_of(trial)), True
    except BaseException as problem:
        record["target"] = cluster.target()
        mark_running()
        if alone or not isinstance(problem, SetupProblem):
            raise
        ending, set_up = StepsResult("failed", f"{problem.message} ({problem.remedy})"), False
    submissions.close()
    ledger.close()
    record["sources"] = sources = cluster.sources()
    observed = seal(directory, ledger.stages, [int(source["error_ns"]) for source in sources])
    request_log.seal(directory)
    metrics.seal(directory)
    _write_snapshots(directory, ending)
    replays = [name for name, phase in record["phases"].items() if "trace" in phase]
    record |= {"files": inventory(directory), **_results(cluster, ending, ledger, replays)}
    record["run"] = {
        "started": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="milliseconds"),
        "wall_s": round(time.time() - started, 3),
        **({} if set_up else {"set_up": False}),  # `--resume` runs it again
        **({"machine": machine} if machine else {}),
    }
    outcome = _judged(trial, TrialRecord(directory, record), record, observed)
    write_json(directory / TRIAL, record)
    return dataclasses.replace(outcome, set_up=set_up)


def _results(cluster: Cluster, ending: StepsResult, ledger: Ledger, replays: Collection[str]) -> dict[str, Any]:
    """Results of the steps and the cluster for trial.json."""
    return {
        "target": cluster.target(),
        "nodes": cluster.node_spans(),
        "outcome": ending.outcome,
        "detail": ending.detail,
        "notes": to_json(ending.notes),
        "took": to_json(ending.took),
        "clog": ending.clog.as_json() if ending.clog else None,
        "timed_out": ending.timed_out.as_json() if ending.timed_out else None,
        "stalls": to_json(ending.stalls),
        "submitted": len(ledger.workload_phase),
        "end_ns": cluster.now(),
        "wall_epoch_ns": cluster.wall_epoch,
        "validity": _validity(ending, cluster, replays),
    }


def cluster_for(trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path) -> Cluster:
    """The cluster of the kind that `--on` named."""
    if trial.on == "sim":
        from seatrial.clusters.sim_cluster import SimCluster

        return SimCluster(trial, stack, ledger, submissions, directory)
    if trial.on == "local":
        from seatrial.clusters.local.local_cluster import fresh_cluster, kept_cluster

        if trial.target.cluster:
            return kept_cluster(trial, stack, ledger, submissions, directory)
        return fresh_cluster(trial, stack, ledger, submissions, directory)
    from seatrial.clusters.attached.attached_cluster import attached_cluster

    return attached_cluster(trial, stack, ledger, submissions, directory)


def _run(
    cluster: Cluster, trial: Trial, ledger: Ledger, progress: ReportProgress, begun: Callable[[], None],
    releases: Sequence[int],
) -> StepsResult:  # fmt: skip
    """Runs the steps, while a thread reports progress."""
    of = sum(submit.count for submit in trial.phases(Submit))
    stage = ledger.number
    over = Event()

    def watch() -> None:
        known = False
        while not over.wait(PROGRESS_EVERY):
            if cluster.wall_epoch and not known:
                known = True
                begun()
            progress(
                trial.name,
                ledger.counts[stage["submitted"]],
                ledger.counts[stage["completed"]],
                of,
                cluster.now() / 1e9,
                cluster.sent(),
            )

    async def main() -> StepsResult:
        interruption.cancels(asyncio.current_task())
        try:
            return await run_steps(cluster, trial, judge, releases)
        finally:
            interruption.cancels(None)
            await cluster.down()

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return cluster.run(main())
    finally:
        over.set()
        watcher.join()


def judge(expectation: Expectation, figures: dict[str, Any]) -> str | None:
    """None if the expectation holds for these figures, else a sentence with the values."""
    return Expression.parse(expectation.text).why_not(figures)


def _validity(ending: StepsResult, cluster: Cluster, replays: Collection[str]) -> dict[str, Any]:
    measured = cluster.validity()
    reasons: list[Doubt] = list(measured.pop("reasons"))
    if ending.outcome == "interrupted":
        reasons.append(Doubt("it was interrupted"))
    rates = []
    for tally in ending.tallies:
        rate, doubt = (_replayed if tally.phase in replays else _kept_up)(tally)
        rates.append(rate)
        reasons += [doubt] if doubt else []
    return {"valid": not reasons, "reasons": to_json(reasons), "rates": rates, **measured}


def _kept_up(tally: Tally) -> tuple[dict[str, Any], Doubt | None]:
    """The rate of a phase, and what is wrong with it."""
    gaps = tally.count - 1
    wanted = gaps / (tally.wanted_ns / 1e9) if tally.wanted_ns else None
    achieved = gaps / (tally.took_ns / 1e9) if tally.took_ns else None
    late = tally.late_ns / 1e9
    rate = {"phase": tally.phase, "wanted_per_s": wanted, "achieved_per_s": achieved, "late_s": late}
    if wanted and achieved and achieved < RATE_TOLERANCE * wanted:
        short = f"{tally.phase}: {wanted:.4g}/s was asked for, the client reached {achieved:.4g}/s"
        return rate, Doubt(short, (TIMES, RATES))  # counts are true of the load that was sent
    if wanted and late > max(LATE_S, (1 - RATE_TOLERANCE) / wanted):
        behind = (
            f"{tally.phase}: workloads were sent up to {late:.3g} s after they were due; {wanted:.4g}/s was asked for"
        )
        return rate, Doubt(behind, (TIMES, RATES), late)
    return rate, None


def _replayed(tally: Tally) -> tuple[dict[str, Any], Doubt | None]:
    """A trace has no rate, but times: its jobs come in bursts."""
    rate, _ = _kept_up(tally)
    if tally.late_p50_ns is None or tally.late_p99_ns is None:
        return rate, None
    p50, p99 = tally.late_p50_ns / 1e9, tally.late_p99_ns / 1e9
    rate |= {"late_p50_s": p50, "late_p99_s": p99}
    behind = f"{tally.phase}: 1 in 100 jobs of the trace was sent {p99:.3g} s or more after it was due"
    return rate, Doubt(behind, (TIMES, RATES), p99) if p99 > LATE_S else None


def _judged(trial: Trial, seen: TrialRecord, record: dict[str, Any], observed: Observations | None) -> Outcome:
    """Adds audits and expectations to `record`. An interrupted trial is not judged: the user does not want to wait."""
    values: dict[str, Any] = {}
    judged = []
    if record["outcome"] != "interrupted":
        from seatrial.analysis.audits import audits_of
        from seatrial.analysis.stage_times import lifecycle
        from seatrial.analysis.trial_figures import asked_of, figures_of

        lived = lifecycle(seen, observed)
        record["audits"] = audits_of(lived)
        values = figures_of(lived)
        for expectation in trial.expect:
            expression = Expression.parse(expectation.text)
            if expression.references:
                continue  # compares trials: judged when all have ended
            asked = asked_of(seen, expression.asked, lambda _: lived)
            wrong = judge(expectation, {**trial.params, **values, **asked})
            judged.append({**to_json(expectation), "holds": wrong is None, "explanation": wrong or ""})
    record["expect"] = judged
    return Outcome(
        trial.name,
        record["outcome"],
        record["detail"],
        values,
        tuple(f"{e['place']}: {e['explanation']}" for e in judged if not e["holds"]),
    )


def _write_snapshots(directory: Path, ending: StepsResult) -> None:
    """Pods and nodes at a clog or timeout. The gzip header has no time: the same seed gives the same bytes."""
    for name, found in (("clog", ending.clog), ("timeout", ending.timed_out)):
        if found:
            data = gzip.compress(json.dumps(_snapshot(found.state)).encode(), mtime=0)
            (directory / f"snapshot-{name}.json.gz").write_bytes(data)


def _snapshot(state: State) -> Any:
    """The snapshot as JSON; queues are there only if the fleet has them."""
    found = to_json(state)
    if not state.fleet.queues:
        del found["fleet"]
    for workload in found["workloads"]:
        if not workload["queue"]:
            del workload["queue"]
    return found
