"""The busy API server on virtual time: limits against fairness, clients that obey, and what request phases leave behind."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.analysis.api_tables import unmatched
from seatrial.clusters.sim_cluster import SimCluster, needs_loaded_apiserver
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Delay, FlowObject, Scalar, Step, Trial
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.record.ledger import Ledger
from seatrial.record.metrics import metrics
from seatrial.record.request_log import requests
from seatrial.record.segments import Segment
from seatrial.record.submissions import Submissions
from seatrial.record.trial_record import TrialRecord
from seatrial.scenario.actions.send_requests import Requester, Requests
from seatrial.scenario.actions.wait import Wait, WaitForObjects
from seatrial.sim.apf_server import IN_FLIGHT, LONGEST_WAIT, TOO_MANY, ApfServer, Call, Limits
from seatrial.sim.fair_queuing import TIME_OUT
from seatrial.sim.flow_schemas import DEFAULT_LEVELS, DEFAULT_SCHEMAS, RequestInfo
from seatrial.sim.flow_schemas import UserInfo as Who
from seatrial.sim.kernel import Kernel
from seatrial.sim.shared_cores import Cores
from seatrial.steps.choreography import StepsResult, run_steps
from tests.sim.making import fakes, submit
from tests.sim.making import trial as plain

TENANT = Requester("tenant", "tenant")
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-${i}"}}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d-${i}"}, "spec": {"replicas": 2}}


# ── the parts ──


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=30), st.integers(1, 4))
def test_cores_are_shared_and_no_work_is_lost(jobs: list[tuple[int, int]], count: int) -> None:
    kernel = Kernel()
    cores = Cores(kernel, count)
    ended: dict[int, int] = {}

    def begin(number: int) -> None:
        cores.work(jobs[number][1] * MILLISECOND, end, number)

    def end(number: int) -> None:
        ended[number] = kernel.now

    for number, (at, _) in enumerate(jobs):
        kernel.at(at * MILLISECOND, begin, number)
    kernel.run(10 * SECOND)
    assert len(ended) == len(jobs)
    total = sum(amount for _, amount in jobs) * MILLISECOND
    assert cores.spent() == pytest.approx(total, abs=len(jobs) * 10)
    for number, (at, amount) in enumerate(jobs):
        alone = (at + amount) * MILLISECOND
        assert alone - 10 <= ended[number] <= at * MILLISECOND + total + 100, (
            "at most one core each, at worst all others"
        )


class _Answers:
    """A server, and what it answers to requests of one core-millisecond each."""

    def __init__(self, limits: Limits, cores: float = 1000) -> None:
        self.kernel = Kernel()
        self.server = ApfServer(self.kernel, limits, cores, 1)
        self.answers: list[tuple[int, int, str, int]] = []  # at, code, reason, Retry-After

    def send(
        self, who: str, verb: str = "create", groups: tuple[str, ...] = ("system:authenticated",), held: int = 0
    ) -> None:
        flow = self.server.flow(Who(who, groups), RequestInfo(verb, "configmaps", "", "a"))
        self.server.send(flow, MILLISECOND, 0, self._answered, None, held=held)

    def _answered(self, call: Call, code: int, reason: str, after: int) -> int:
        assert call.flow
        self.answers.append((self.kernel.now, code, reason, after))
        return code


def test_beyond_the_limit_everyone_but_masters_is_sent_away_for_a_second() -> None:
    run = _Answers(Limits(False, 2, 1))
    run.send("a", held=SECOND)
    run.send("b")
    run.send("c", "get")
    run.send("d", groups=("system:masters",))
    run.send("e", "watch")
    run.kernel.run(SECOND // 2)
    assert sorted((code, reason, after) for _, code, reason, after in run.answers) == [
        (200, "", 0), (200, "", 0), (200, "", 0), (TOO_MANY, IN_FLIGHT, 1),
    ]  # fmt: skip


def test_who_waits_a_quarter_of_the_requests_timeout_is_sent_away() -> None:
    run = _Answers(Limits(True, 1, 1, DEFAULT_LEVELS, DEFAULT_SCHEMAS))
    for _ in range(5):
        run.send("tenant", held=60 * SECOND)
    run.kernel.run(LONGEST_WAIT + 14 * SECOND)
    late = [(at, reason) for at, code, reason, _ in run.answers if code == TOO_MANY]
    assert late
    assert {reason for _, reason in late} == {TIME_OUT}
    assert all(LONGEST_WAIT <= at < LONGEST_WAIT + SECOND for at, _ in late)


def test_a_level_that_goes_on_sending_away_asks_for_more_and_more_patience() -> None:
    levels = [level for level in DEFAULT_LEVELS if level.name != "global-default"]
    schemas = [schema for schema in DEFAULT_SCHEMAS if schema.name != "global-default"]
    run = _Answers(Limits(True, 1, 1, levels, schemas))  # catch-all rejects at once
    for second in range(12):
        for n in range(30):
            run.kernel.at(second * SECOND + n * MILLISECOND, lambda _: run.send("x", held=30 * SECOND))
    run.kernel.run(13 * SECOND)
    asked = [after for _, code, _, after in run.answers if code == TOO_MANY]
    assert asked == sorted(asked)
    assert sorted(set(asked)) == [1, 2, 4, 8]


# ── whole trials ──


def phase(verb: str = "create", name: str = "load", count: int | None = 100, **more: Any) -> Requests:
    return Requests(name, verb, more.pop("objects", (MAP,)), count, **{"identity": TENANT, "workers": 4, **more})


def busy(
    *steps: Step, nodes: int = 20, settings: dict[str, Scalar] | None = None, namespaces: int = 0, **setup: Any
) -> Trial:
    made = plain(*steps, nodes=[fakes(nodes)], settings={"kube-apiserver": settings or {}})
    return dataclasses.replace(made, namespaces=namespaces, setup=dataclasses.replace(made.setup, **setup))


def least(column: pl.Series) -> float:
    return float(column.to_numpy().min())


def most(column: pl.Series) -> float:
    return float(column.to_numpy().max())


class Ran:
    def __init__(self, trial: Trial, directory: Path) -> None:
        stack = stacks.find("default")
        ledger, submissions = Ledger(stack.stages, Segment(directory)), Submissions(directory)
        self.cluster = SimCluster(trial, stack, ledger, submissions, directory)

        async def main() -> StepsResult:
            try:
                return await run_steps(self.cluster, trial, lambda *_: None)
            finally:
                await self.cluster.down()

        self.ending = self.cluster.run(main())
        self.rows = requests(directory)

    def of(self, identity: str, code: int | None = None) -> pl.DataFrame:
        rows = self.rows.filter(pl.col("identity") == identity)
        return rows if code is None else rows.filter(pl.col("code") == code)


STARVED: dict[str, Scalar] = {"max-requests-inflight": 4, "max-mutating-requests-inflight": 2}


@pytest.mark.parametrize("workers", [100, 400])
def test_fairness_keeps_heartbeats_and_scheduler_alive_while_the_load_queues(workers: int, tmp_path: Path) -> None:
    steps = (phase(count=None, lasting=12 * SECOND, workers=workers), submit(20))
    found = {}
    for fairness in ("off", "on"):
        (tmp_path / fairness).mkdir()
        found[fairness] = Ran(busy(steps, nodes=60, settings={**STARVED, "fairness": fairness}), tmp_path / fairness)
    off, on = found["off"], found["on"]
    for who in ("nodes", "kube-scheduler", "kube-controller-manager"):
        assert off.of(who, TOO_MANY).height > 0
        assert on.of(who, TOO_MANY).height == 0
    gaps = [ran.cluster.validity()["heartbeats"]["worst_s"] for ran in (off, on)]
    assert gaps[0] > gaps[1] + 1
    rejected = on.of("tenant", TOO_MANY)
    if workers == 100:
        assert rejected.is_empty(), "six queues of fifty hold them all"
        assert on.cluster._loaded is not None
        assert any(
            tally.waited for key, tally in on.cluster._loaded.server.tallies.items() if key[0] == "global-default"
        )
    else:
        assert set(rejected["reason"]) == {"queue-full"}


def test_a_client_sends_again_what_was_rejected_and_not_before_it_was_asked_to(tmp_path: Path) -> None:
    ran = Ran(busy((phase(count=200, workers=50),), settings={**STARVED, "fairness": "off"}), tmp_path)
    rows = ran.of("tenant")
    assert rows.filter(pl.col("code") == 201).height == 200
    assert rows.filter(pl.col("attempt") > 1).height == rows.filter(pl.col("code") == TOO_MANY).height > 0
    first = rows.filter(pl.col("code") == TOO_MANY).select((pl.col("at_ns") + pl.col("took_ns")).min()).item()
    assert least(rows.filter(pl.col("attempt") > 1)["at_ns"]) >= first + SECOND
    assert set(rows.filter(pl.col("code") == TOO_MANY)["retry_after_s"]) == {1.0}


def test_without_retry_what_is_rejected_stays_rejected(tmp_path: Path) -> None:
    ran = Ran(busy((phase(count=200, workers=50, retry=False),), settings={**STARVED, "fairness": "off"}), tmp_path)
    rows = ran.of("tenant")
    assert rows.height == 200
    assert most(rows["attempt"]) == 1
    assert rows.filter(pl.col("code") == TOO_MANY).height > 0


def test_what_is_created_is_there_until_it_is_deleted(tmp_path: Path) -> None:
    ran = Ran(
        busy(
            (phase(count=40, namespaces=4),),
            (phase("get", "gets", None, of="load", made=40, namespaces=4, lasting=SECOND),),
            (phase("list", "lists", 4, namespaces=4, limit=3),),
            (phase("delete", "some", 30, of="load", made=40, namespaces=4),),
            (phase("delete", "again", 40, of="load", made=40, namespaces=4),),
            (phase("create", "more", 8, namespaces=4),),
            (phase("deletecollection", "rest", 4, namespaces=4),),
            (WaitForObjects("gone", "gone", ("load", "more"), 0),),
            namespaces=4,
        ),
        tmp_path,
    )
    codes = {
        (p, c): n for p, c, n in ran.of("tenant").group_by("phase", "code").len().sort("phase", "code").iter_rows()
    }
    gets = codes.pop(("gets", 200))
    assert gets > 40
    assert codes == {
        ("load", 201): 40, ("lists", 200): 16, ("some", 200): 30, ("again", 200): 10, ("again", 404): 30,
        ("more", 201): 8, ("rest", 200): 4,
    }  # fmt: skip
    assert ran.ending.outcome == "completed"
    assert ran.cluster.validity()["refused"] == ["again: 30 of 40 requests were answered 404: NotFound"]


def test_deployments_come_up_and_their_pods_go_with_them(tmp_path: Path) -> None:
    load = phase(count=30, objects=(DEPLOYMENT, MAP))
    ran = Ran(
        busy(
            (load,),
            (WaitForObjects("up", "available", ("load",), 30),),
            (WaitForObjects("run", "pods-running", ("load",), 60),),
            (phase("delete", "down", 30, of="load", made=30, objects=(DEPLOYMENT, MAP)),),
            (
                WaitForObjects("empty", "pods-gone", ("load",), 0),
                WaitForObjects("gone", "gone", ("load",), 0, ("Deployment",)),
            ),
        ),
        tmp_path,
    )
    assert ran.ending.outcome == "completed"
    wrote = ran.rows.group_by("identity", "verb", "resource").len()
    seen = {(who, verb, what): n for who, verb, what, n in wrote.iter_rows()}
    assert seen["kube-controller-manager", "create", "pods"] == 60
    assert seen["kube-scheduler", "create", "pods/binding"] == 60
    assert seen["kube-controller-manager", "delete", "pods"] == 30 + 60, "ReplicaSets and pods"


def test_without_nodes_pods_never_run_and_the_wait_says_how_many(tmp_path: Path) -> None:
    until = WaitForObjects("run", "pods-running", ("load",), 6, timeout=30 * SECOND)
    ran = Ran(busy((phase(count=3, objects=(DEPLOYMENT,)),), (until,), nodes=0), tmp_path)
    assert (ran.ending.outcome, ran.ending.detail) == ("timeout", "run: after 30s 0 of 6 were pods-running")


def test_a_held_request_is_in_flight_and_costs_no_processor(tmp_path: Path) -> None:
    found = {}
    for name, delay in (("plain", None), ("delayed", Delay(500 * MILLISECOND))):
        (tmp_path / name).mkdir()
        trial = busy((phase(count=None, lasting=10 * SECOND, workers=150),), delay=delay)
        found[name] = Ran(trial, tmp_path / name)
    in_flight, cpu = {}, {}
    for name in found:
        said = metrics(tmp_path / name)
        mutating = said.filter(pl.col("labels") == "request_kind=mutating")
        in_flight[name] = most(mutating.filter(pl.col("metric") == "apiserver_current_inflight_requests")["value"])
        cpu[name] = most(said.filter(pl.col("metric") == "cpu_busy_seconds")["value"])
    assert in_flight["delayed"] >= 100
    assert cpu["delayed"] < cpu["plain"] / 2
    assert least(found["delayed"].of("tenant")["took_ns"]) >= 500 * MILLISECOND


def test_a_watch_stays_open_and_many_of_them_make_writes_wide(tmp_path: Path) -> None:
    steps = (
        phase("watch", "watchers", None, workers=60, lasting=8 * SECOND, namespaces=0),
        phase(count=None, lasting=6 * SECOND, workers=20),
    )
    ran = Ran(busy(steps, settings={"max-requests-inflight": 20, "max-mutating-requests-inflight": 20}), tmp_path)
    watches = ran.rows.filter(pl.col("verb") == "watch")
    assert watches.height == 60
    assert least(watches["took_ns"]) >= 7 * SECOND
    (tmp_path / "alone").mkdir()
    alone = Ran(
        busy(steps[1:], settings={"max-requests-inflight": 20, "max-mutating-requests-inflight": 20}),
        tmp_path / "alone",
    )
    assert ran.of("tenant", 201).height < alone.of("tenant", 201).height


def test_at_a_rate_a_request_counts_from_when_it_was_due(tmp_path: Path) -> None:
    ran = Ran(busy((phase(count=500, workers=1, per_s=100.0),)), tmp_path)
    rows = ran.of("tenant", 201)
    assert rows["at_ns"].to_list() == [n * SECOND // 100 for n in range(500)]
    assert (rows["sent_ns"] > rows["at_ns"]).all()


def test_the_same_seed_gives_the_same_requests(tmp_path: Path) -> None:
    tables = []
    for name in "ab":
        (tmp_path / name).mkdir()
        trial = busy((phase(count=300, workers=30), submit(10)), settings=STARVED)
        tables.append(Ran(trial, tmp_path / name).rows)
    assert tables[0].equals(tables[1])


def test_a_flow_schema_that_matches_nothing_is_named(tmp_path: Path) -> None:
    def schema(name: str, user: str) -> FlowObject:
        rule = {
            "subjects": [{"kind": "User", "user": {"name": user}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
        }
        spec = {"priorityLevelConfiguration": {"name": "workload-low"}, "matchingPrecedence": 600, "rules": [rule]}
        return FlowObject(name, spec)

    trial = busy((phase(count=10),), flow_schemas=(schema("mine", "tenant"), schema("nobodys", "nobody")))
    Ran(trial, tmp_path)
    assert unmatched(TrialRecord(tmp_path, {"flows": {"flow_schemas": ["mine", "nobodys"]}})) == ["nobodys"]


def test_what_a_server_would_not_follow_is_refused_before_the_load(tmp_path: Path) -> None:
    lost = FlowObject("mine", {"priorityLevelConfiguration": {"name": "bulk"}, "rules": []})
    with pytest.raises(SetupProblem, match="leads to the priority level 'bulk', which does not exist"):
        Ran(busy((phase(),), flow_schemas=(lost,)), tmp_path)
    with pytest.raises(
        SetupProblem, match="the flow schema 'mine' is not complete: it has no 'priorityLevelConfiguration'"
    ):
        Ran(busy((phase(),), flow_schemas=(FlowObject("mine", {"rules": []}),)), tmp_path)
    queuing = {"queues": 1024, "handSize": 8}
    level = FlowObject("bulk", {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}})
    with pytest.raises(SetupProblem, match="hands of 8 out of 1024 queues"):
        Ran(busy((phase(),), priority_levels=(level,)), tmp_path)


def test_a_trial_without_requests_keeps_the_plain_server() -> None:
    assert not needs_loaded_apiserver(plain((submit(),)))
    assert not needs_loaded_apiserver(plain((submit(),), settings={"kube-scheduler": {"qps": 5}}))
    assert needs_loaded_apiserver(plain((submit(),), settings={"kube-apiserver": {"max-requests-inflight": 10}}))
    assert needs_loaded_apiserver(busy((phase(),)))


def test_components_are_known_by_their_users(tmp_path: Path) -> None:
    ran = Ran(busy((submit(5),), (Wait("done", "completed"),), settings=STARVED), tmp_path)
    who = {(identity, seen_by) for identity, seen_by in ran.rows.select("identity", "seen_by").unique().iter_rows()}
    assert {(name, "server") for name in ("kube-scheduler", "kube-controller-manager", "nodes")} <= who
    assert ran.ending.outcome == "completed"
