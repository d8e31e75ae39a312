"""Figures of a load, from requests and measurements that were written as a run writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.api_load import ApiLoad, in_flight, measurements, nearest_rank
from seatrial.analysis.api_tables import api_table, by_identity, differences, rejections, unmatched
from seatrial.analysis.trial_figures import FUNCTIONS, Sample, asked_of
from seatrial.model.figures import FIGURES, REQUESTS, Value
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.record import metrics, request_log
from seatrial.record.metrics import MetricsLog
from seatrial.record.request_log import RequestLog
from seatrial.record.trial_record import TrialRecord


def trial(directory: Path, rows: list[dict[str, Any]], document: dict[str, Any] | None = None) -> TrialRecord:
    directory.mkdir(parents=True, exist_ok=True)
    log = RequestLog(directory)
    for row in rows:
        sent = row.get("sent", row["at"])
        log.add(
            row["at"], sent, row["took"], log.number(row.get("verb", "create")), log.number("configmaps"),
            log.number(row.get("who", "tenant")), row.get("code", 201), log.number(row.get("reason", "")),
            row.get("retry", -1.0), row.get("attempt", 1), log.number("load"), log.number(row.get("by", "client")),
        )  # fmt: skip
    log.close()
    whole = {
        "format": 1,
        "trial": directory.name,
        "setup": "a",
        "repeat": 1,
        "outcome": "completed",
        "validity": {"valid": True, "reasons": []},
        **(document or {}),
    }
    (directory / "trial.json").write_text(json.dumps(whole))
    return TrialRecord(directory, whole)


def of_requests(one: TrialRecord) -> dict[str, Value]:
    """All figures of a load of API requests."""
    return {name: FUNCTIONS[name](Sample(one)) for name, figure in FIGURES.items() if REQUESTS in figure.needs}


def some(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"at": n * 10 * MILLISECOND, "took": (n + 1) * MILLISECOND, **more} for n in range(count)]


def test_counts_and_percentiles_are_exact_and_of_what_was_answered_well(tmp_path: Path) -> None:
    rows = [
        *some(100),
        *some(7, code=429, reason="Too Many Requests", retry=1.0),
        *some(3, code=0, reason="the connection was lost", attempt=2),
        *some(2, code=404, reason="NotFound"),
        {"at": 0, "took": 60 * SECOND, "verb": "watch", "code": 200},
        *some(5, who="nodes", by="server", code=429),
    ]
    one = trial(tmp_path / "t", rows)
    found = of_requests(one)
    assert (found["requests"], found["rejected"], found["retried"], found["errors"]) == (113, 7, 3, 5)
    assert (found["api_p50_s"], found["api_p99_s"]) == (0.05, 0.099)
    assert isinstance(found["in_flight_max"], float) and found["in_flight_max"] >= 2
    asked = asked_of(one, ["rejected(nodes)", "rejected(tenant)", "api_p99_s(nodes)"])
    assert (asked["rejected(nodes)"], asked["rejected(tenant)"], asked["api_p99_s(nodes)"]) == (5, 7, None)


def test_sealing_changes_nothing(tmp_path: Path) -> None:
    one = trial(tmp_path / "t", some(20))
    before = request_log.requests(one.directory)
    request_log.seal(one.directory)
    assert request_log.requests(one.directory).equals(before)
    assert [p.name for p in one.directory.glob("requests*")] == ["requests.parquet"]


def test_a_torn_tail_is_cut_off(tmp_path: Path) -> None:
    one = trial(tmp_path / "t", some(20))
    [segment] = one.directory.glob("requests-*.seg")
    segment.write_bytes(segment.read_bytes()[:-5])
    assert request_log.requests(one.directory).height == 19


def test_a_trial_without_requests_has_empty_figures(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    one = TrialRecord(tmp_path / "t", {"setup": "a"})
    assert set(of_requests(one).values()) == {None}
    assert asked_of(one, ["rejected(nodes)", "api_p99_s(nodes)"]) == {"rejected(nodes)": 0, "api_p99_s(nodes)": None}
    assert api_table([one]).is_empty()


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60), st.sampled_from([50, 95, 99]))
def test_a_percentile_is_a_time_that_occurred_and_so_many_are_not_above(times: list[int], percent: int) -> None:
    found = nearest_rank(pl.Series(times, dtype=pl.Int64).sort(), percent)
    assert found is not None
    assert round(found * SECOND) in times
    assert sum(time <= found * SECOND + 1e-3 for time in times) * 100 >= percent * len(times)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 500)), min_size=1, max_size=40))
def test_in_flight_never_falls_below_zero_and_ends_there(spans: list[tuple[int, int]]) -> None:
    rows = pl.DataFrame(
        {"at_ns": [at for at, _ in spans], "sent_ns": [at for at, _ in spans], "took_ns": [took for _, took in spans]}
    )
    _, under_way = in_flight(rows)
    assert under_way[-1] == 0
    assert under_way.max() <= len(spans)


def served(directory: Path, looks: list[list[tuple[str, str, float]]]) -> None:
    log = MetricsLog(directory)
    for second, samples in enumerate(looks):
        log.add(second * SECOND, "kube-apiserver", samples)
        log.add(second * SECOND, "machine", [("cpu_busy_seconds", "", 100 + 1.5 * second), ("load_average", "", 3.0)])
    log.close()


def test_measurements_are_rates_of_the_servers_counters(tmp_path: Path) -> None:
    one = trial(tmp_path / "t", [{"at": 0, "took": 3 * SECOND}])
    served(
        one.directory,
        [
            [
                ("apiserver_request_total", "code=201,resource=configmaps,verb=POST", 1000.0 + 50 * s),
                ("apiserver_request_total", "code=429,resource=configmaps,verb=POST", 10.0 * s),
                ("apiserver_request_total", "code=200,resource=pods,verb=WATCH", 999.0 * s),
                ("apiserver_request_duration_seconds_sum", "verb=POST", 2.0 * s),
                ("apiserver_request_duration_seconds_count", "verb=POST", 10.0 * s),
                ("apiserver_current_inflight_requests", "request_kind=mutating", 40.0),
                ("apiserver_current_inflight_requests", "request_kind=readOnly", 2.0),
            ]
            for s in range(4)
        ],
    )
    metrics.seal(one.directory)
    means = dict(measurements(ApiLoad(one)).group_by("measurement").agg(pl.col("value").mean()).iter_rows())
    assert means["request duration"] == pytest.approx(0.2)
    assert means["in flight"] == 42
    assert means["CPU"] == pytest.approx(1.5)
    assert means["load average"] == 3
    assert means["request rate"] == pytest.approx(60, rel=0.2)
    assert means["rejected"] == pytest.approx(10)
    assert of_requests(one)["in_flight_max"] == 42


def test_without_the_servers_word_the_requests_themselves_are_measured(tmp_path: Path) -> None:
    rows = [{"at": n * 100 * MILLISECOND, "took": 200 * MILLISECOND, "code": 429 if n % 2 else 201} for n in range(30)]
    found = measurements(ApiLoad(trial(tmp_path / "t", rows)))
    means = dict(found.group_by("measurement").agg(pl.col("value").mean()).iter_rows())
    assert set(means) == {"request duration", "request rate", "in flight", "rejected"}
    assert means["request duration"] == pytest.approx(0.2)


def test_rejections_are_told_by_level_flow_and_reason_and_a_flow_without_requests_is_named(tmp_path: Path) -> None:
    schemas = {"flows": {"flow_schemas": ["tenants", "nobody"]}}
    one = trial(tmp_path / "t", some(5, code=429), schemas)
    flow = "flow_schema=tenants,priority_level=low"
    served(
        one.directory,
        [
            [
                ("apiserver_flowcontrol_dispatched_requests_total", flow, 100.0 + s),
                ("apiserver_flowcontrol_rejected_requests_total", f"{flow},reason=queue-full", 5.0 * s),
                ("apiserver_flowcontrol_request_wait_duration_seconds_sum", f"execute=true,{flow}", 3.0 * s),
                ("apiserver_flowcontrol_request_wait_duration_seconds_count", f"execute=true,{flow}", 1.0 * s),
            ]
            for s in range(3)
        ],
    )
    table = api_table([one])
    assert rejections(table) == [("a", "tenants", "low", "queue-full", 10.0)]
    assert unmatched(one) == ["nobody"]
    waited = table.filter(pl.col("statistic") == "wait_mean_s")["value"].to_list()
    assert waited == [3.0]
    [line] = by_identity([one])
    assert (line.who, line.means["requests"], line.means["rejected"]) == ("tenant", 5, 5)


def test_a_difference_is_larger_than_noise_only_if_the_runs_say_so(tmp_path: Path) -> None:
    trials = []
    for setup, took in (("a", 100), ("b", 300)):
        for repeat in range(4):
            rows = [
                {"at": n * 50 * MILLISECOND, "took": (took + 10 * repeat) * MILLISECOND, "code": 201}
                for n in range(100)
            ]
            trials.append(trial(tmp_path / f"{setup}{repeat}", rows, {"setup": setup, "repeat": repeat + 1}))
    found = {one.measurement: one for one in differences(api_table(trials)) if one.statistic == "mean"}
    assert found["request duration"].larger_than_noise is True
    assert found["request duration"].difference == pytest.approx(0.2, rel=0.05)
    assert found["rejected"].larger_than_noise is False
    lonely = {one.measurement: one for one in differences(api_table([trials[0], trials[4]])) if one.statistic == "mean"}
    assert lonely["request duration"].larger_than_noise is None
