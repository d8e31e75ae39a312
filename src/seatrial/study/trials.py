"""Runs one trial into its directory. A description goes in, a trial directory comes out; trials do not know each other."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import gzip
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from seatrial import stacks
from seatrial.model.doubts import RATES, TIMES, Doubt
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Cluster, Stack
from seatrial.model.plan import Expectation, Trial, to_json
from seatrial.model.state import State
from seatrial.record import metrics, requests
from seatrial.record.inventory import inventory
from seatrial.record.ledger import Ledger
from seatrial.record.merging import seal
from seatrial.record.segments import Segment
from seatrial.record.submissions import Submissions
from seatrial.scenario.expressions import Expression
from seatrial.steps.choreography import Ending, run_steps
from seatrial.study.describing import description, write_json
from seatrial.study.interrupting import interruption

PROGRESS_EVERY = 0.25  # s of real time
RATE_TOLERANCE = 0.95  # a client that reaches less of the rate asked for was itself the bottleneck
LATE_S = 0.5  # or 5 % of the time between two workloads: the mean rate alone hides stalls that are made up for later

Told = Callable[
    [str, int, int, int, float, int], None
]  # trial, submitted, completed, of, virtual seconds, requests sent


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the study needs to know of a trial that is over."""

    trial: str
    outcome: str
    detail: str
    figures: dict[str, Any]
    failed_expectations: tuple[str, ...]
    set_up: bool = True  # false: it never began, because what it needs could not be built or started


def run_trial(trial: Trial, directory: Path, told: Told, alone: bool = True) -> Outcome:
    """The whole life of a trial; its directory is there, marked `running`, from the first moment. One that cannot be set up
    raises if it is alone, else it is `failed`: others may still run."""
    directory.mkdir(parents=True)
    started = time.time()
    stack = stacks.find(trial.setup.stack)
    record = description(trial, stack)
    write_json(directory / "trial.json", {**record, "outcome": "running"})
    ledger = Ledger(stack.stages, Segment(directory))
    submissions = Submissions(directory)
    cluster = cluster_for(trial, stack, ledger, submissions, directory)
    record |= {"target": cluster.target(), "sources": cluster.sources()}
    if record["target"]:  # before anything is made there, so that `seatrial clean -o OUT` finds it
        write_json(directory / "trial.json", {**record, "outcome": "running"})

    def begun() -> None:
        """So that `seatrial sample` can go on where a killed run stopped."""
        record["wall_epoch_ns"] = cluster.wall_epoch
        write_json(directory / "trial.json", {**record, "outcome": "running"})

    try:
        ending, set_up = _run(cluster, trial, ledger, told, begun, stack.releases(trial.setup.settings)), True
    except BaseException as problem:
        write_json(directory / "trial.json", {**record, "target": cluster.target(), "outcome": "running"})
        if alone or not isinstance(problem, SetupProblem):
            raise
        ending, set_up = Ending("failed", f"{problem.message} ({problem.remedy})"), False
    submissions.close()
    ledger.close()
    found = cluster.sources()
    seal(directory, ledger.stages, [int(source["error_ns"]) for source in found])
    requests.seal(directory)
    metrics.seal(directory)
    record["files"] = inventory(directory)
    if ending.clog:
        _write_snapshot(directory / "snapshot-clog.json.gz", ending.clog.state)
    record |= {
        "target": cluster.target(),
        "nodes": cluster.node_spans(),
        "outcome": ending.outcome,
        "detail": ending.detail,
        "notes": to_json(ending.notes),
        "took": to_json(ending.took),
        "clog": ending.clog.as_json() if ending.clog else None,
        "stalls": to_json(ending.stalls),
        "submitted": len(ledger.workload_phase),
        "end_ns": cluster.now(),
        "sources": found,
        "wall_epoch_ns": cluster.wall_epoch,
        "validity": _validity(ending, cluster),
        "run": {
            "started": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="milliseconds"),
            "wall_s": round(time.time() - started, 3),
        },
    }
    if ending.outcome != "interrupted":
        from seatrial.analysis.audits import audits

        record["audits"] = audits(directory, record)
    write_json(directory / "trial.json", record)
    return dataclasses.replace(_judged(trial, directory, record), set_up=set_up)


def cluster_for(trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path) -> Cluster:
    if trial.on == "sim":
        from seatrial.clusters.sim import SimCluster

        return SimCluster(trial, stack, ledger, submissions, directory)
    if trial.on == "local":
        from seatrial.clusters.local.cluster import KeptCluster, LocalCluster

        if trial.target.cluster:
            return KeptCluster(trial, stack, ledger, submissions, directory)
        return LocalCluster(trial, stack, ledger, submissions, directory)
    from seatrial.clusters.attached.cluster import AttachedCluster

    return AttachedCluster(trial, stack, ledger, submissions, directory)


def _run(
    cluster: Cluster, trial: Trial, ledger: Ledger, told: Told, begun: Callable[[], None], releases: Sequence[int]
) -> Ending:
    of = sum(submit.count for submit in trial.submits())
    stage = ledger.number
    over = Event()

    def watch() -> None:
        known = False
        while not over.wait(PROGRESS_EVERY):
            if cluster.wall_epoch and not known:
                known = True
                begun()
            told(
                trial.name,
                ledger.counts[stage["submitted"]],
                ledger.counts[stage["completed"]],
                of,
                cluster.now() / 1e9,
                cluster.sent(),
            )

    async def main() -> Ending:
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
    """None if the expectation holds for these figures, else a sentence that says what was found."""
    return Expression.parse(expectation.text).why_not(figures)


def _validity(ending: Ending, cluster: Cluster) -> dict[str, Any]:
    measured = cluster.validity()
    reasons: list[Doubt] = list(measured.pop("reasons"))
    if ending.outcome == "interrupted":
        reasons.append(Doubt("it was interrupted"))
    rates = []
    for tally in ending.tallies:
        gaps = tally.count - 1
        wanted = gaps / (tally.wanted_ns / 1e9) if tally.wanted_ns else None
        achieved = gaps / (tally.took_ns / 1e9) if tally.took_ns else None
        late = tally.late_ns / 1e9
        rates.append({"phase": tally.phase, "wanted_per_s": wanted, "achieved_per_s": achieved, "late_s": late})
        if wanted and achieved and achieved < RATE_TOLERANCE * wanted:
            short = f"{tally.phase}: {wanted:.4g}/s was asked for, the client reached {achieved:.4g}/s"
            reasons.append(Doubt(short, (TIMES, RATES)))  # counts are true of the load that was sent
        elif wanted and late > max(LATE_S, (1 - RATE_TOLERANCE) / wanted):
            behind = f"{tally.phase}: workloads were sent up to {late:.3g} s after they were due; {wanted:.4g}/s was asked for"
            reasons.append(Doubt(behind, (TIMES, RATES), late))
    return {"valid": not reasons, "reasons": to_json(reasons), "rates": rates, **measured}


def _judged(trial: Trial, directory: Path, record: dict[str, Any]) -> Outcome:
    """Interrupted, nothing is judged: the user wants to be gone."""
    from seatrial.analysis.directory import read_trial
    from seatrial.analysis.figures import asked_of, figures

    interrupted = record["outcome"] == "interrupted"
    values = {} if interrupted else figures(directory)
    judged = []
    for expectation in () if interrupted else trial.expect:
        expression = Expression.parse(expectation.text)
        if expression.references:
            continue  # about other trials as well: judged when all are there
        asked = asked_of(read_trial(directory), expression.asked)
        wrong = judge(expectation, {**trial.params, **values, **asked})
        judged.append({**to_json(expectation), "holds": wrong is None, "explanation": wrong or ""})
    record["expect"] = judged
    write_json(directory / "trial.json", record)
    return Outcome(
        trial.name,
        record["outcome"],
        record["detail"],
        values,
        tuple(f"{e['place']}: {e['explanation']}" for e in judged if not e["holds"]),
    )


def _write_snapshot(path: Path, state: State) -> None:
    """Without a time in its header: the same seed gives the same bytes."""
    path.write_bytes(gzip.compress(json.dumps(to_json(state)).encode(), mtime=0))
