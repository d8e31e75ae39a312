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
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Cluster, Stack
from seatrial.model.plan import Expectation, Submit, Trial, to_json
from seatrial.model.state import State
from seatrial.record import metrics, requests
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment, seal
from seatrial.record.submissions import Submissions
from seatrial.scenario import findings_of
from seatrial.scenario.expressions import Expression
from seatrial.steps.choreography import Ending, run_steps
from seatrial.study.fitting import memory_findings
from seatrial.study.interrupting import interruption

FORMAT = 1
PROGRESS_EVERY = 0.25  # s of real time
RATE_TOLERANCE = 0.95  # a client that reaches less of the rate asked for was itself the bottleneck

Told = Callable[[str, int, int, int, float], None]  # trial, submitted, completed, of, virtual seconds


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the study needs to know of a trial that is over."""

    trial: str
    outcome: str
    detail: str
    figures: dict[str, Any]
    failed_expectations: tuple[str, ...]
    expects_outcome: bool  # an expectation names the outcome, so that any outcome may be right
    set_up: bool = True  # false: it never began, because what it needs could not be built or started


def run_trial(trial: Trial, directory: Path, told: Told, alone: bool = True) -> Outcome:
    """The whole life of a trial; its directory is there, marked `running`, from the first moment. One that cannot be set up
    raises if it is alone, else it is `failed`: others may still run."""
    directory.mkdir(parents=True)
    started = time.time()
    stack = stacks.find(trial.setup.stack)
    record = _description(trial, stack)
    _write_json(directory / "trial.json", {**record, "outcome": "running"})
    ledger = Ledger(stack.stages, Segment(directory))
    submissions = Submissions(directory)
    cluster = cluster_for(trial, stack, ledger, submissions, directory)
    record["target"] = cluster.target()
    if record["target"]:  # before anything is made there, so that `seatrial clean -o OUT` finds it
        _write_json(directory / "trial.json", {**record, "outcome": "running"})
    try:
        ending, set_up = _run(cluster, trial, ledger, told, stack.releases(trial.setup.settings)), True
    except BaseException as problem:
        _write_json(directory / "trial.json", {**record, "target": cluster.target(), "outcome": "running"})
        if alone or not isinstance(problem, SetupProblem):
            raise
        ending, set_up = Ending("failed", f"{problem.message} ({problem.remedy})"), False
    submissions.close()
    ledger.close()
    seal(directory, ledger.nodes)
    requests.seal(directory)
    metrics.seal(directory)
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
        "submitted": len(ledger.workload_phase),
        "end_ns": cluster.now(),
        "sources": cluster.sources(),
        "validity": _validity(ending, cluster),
        "run": {
            "started": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="milliseconds"),
            "wall_s": round(time.time() - started, 3),
        },
    }
    if ending.outcome != "interrupted":
        from seatrial.analysis.audits import audits

        record["audits"] = audits(directory, record)
    _write_json(directory / "trial.json", record)
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


def _description(trial: Trial, stack: Stack) -> dict[str, Any]:
    submits = [phase for step in trial.steps for phase in step if isinstance(phase, Submit)]
    return {
        "format": FORMAT,
        "trial": trial.name,
        "number": trial.number,
        "scenario": trial.scenario,
        "on": trial.on,
        "setup": trial.setup.name,
        "stack": trial.setup.stack,
        "params": to_json(trial.params),
        "repeat": trial.repeat,
        "seed": trial.seed,
        "settings": to_json(trial.setup.settings),
        "client": to_json(trial.setup.client),
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
            }
            for submit in submits
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
        "audits": [],
        "run": {},
    }


def _run(cluster: Cluster, trial: Trial, ledger: Ledger, told: Told, releases: Sequence[int]) -> Ending:
    of = sum(submit.count for submit in trial.submits())
    stage = ledger.number
    over = Event()

    def watch() -> None:
        while not over.wait(PROGRESS_EVERY):
            told(
                trial.name,
                ledger.counts[stage["submitted"]],
                ledger.counts[stage["completed"]],
                of,
                cluster.now() / 1e9,
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
    expression = Expression.parse(expectation.text)
    try:
        if expression.evaluate(figures):
            return None
    except UsageProblem as problem:
        return f"`{expectation.text}` cannot be judged: {problem.message}"
    return f"`{expectation.text}` does not hold: {expression.explain(figures)}"


def _validity(ending: Ending, cluster: Cluster) -> dict[str, Any]:
    measured = cluster.validity()
    reasons = list(measured.pop("reasons"))
    rates = []
    for tally in ending.tallies:
        gaps = tally.count - 1
        wanted = gaps / (tally.wanted_ns / 1e9) if tally.wanted_ns else None
        achieved = gaps / (tally.took_ns / 1e9) if tally.took_ns else None
        rates.append({"phase": tally.phase, "wanted_per_s": wanted, "achieved_per_s": achieved})
        if wanted and achieved and achieved < RATE_TOLERANCE * wanted:
            reasons.append(f"{tally.phase}: {wanted:.4g}/s was asked for, the client reached {achieved:.4g}/s")
    return {"valid": not reasons, "reasons": reasons, "rates": rates, **measured}


def _judged(trial: Trial, directory: Path, record: dict[str, Any]) -> Outcome:
    """Interrupted, nothing is judged: the user wants to be gone."""
    from seatrial.analysis.api import of_identities
    from seatrial.analysis.directory import read_trial
    from seatrial.analysis.figures import figures

    interrupted = record["outcome"] == "interrupted"
    values = {} if interrupted else figures(directory)
    asked = {} if interrupted else of_identities(read_trial(directory))
    judged = []
    for expectation in () if interrupted else trial.expect:
        known = {**_nothing_sent(expectation), **asked, **trial.params, **values}
        wrong = judge(expectation, known)
        judged.append({**to_json(expectation), "holds": wrong is None, "explanation": wrong or ""})
    record["expect"] = judged
    _write_json(directory / "trial.json", record)
    return Outcome(
        trial.name,
        record["outcome"],
        record["detail"],
        values,
        tuple(f"{e['place']}: {e['explanation']}" for e in judged if not e["holds"]),
        any("outcome" in Expression.parse(e.text).names for e in trial.expect),
    )


def _nothing_sent(expectation: Expectation) -> dict[str, Any]:
    """What an expectation asks of an identity from whom nothing was seen: no counts, and no times."""
    names = (name for name in Expression.parse(expectation.text).names if "(" in name)
    return {name: None if name.partition("(")[0].endswith("_s") else 0 for name in names}


def _write_snapshot(path: Path, state: State) -> None:
    """Without a time in its header: the same seed gives the same bytes."""
    path.write_bytes(gzip.compress(json.dumps(to_json(state)).encode(), mtime=0))


def _write_json(path: Path, value: Any) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=1) + "\n")
    part.replace(path)
