"""What a scenario asks of a trace: the part, the speed, and what its names, fractions and gaps become."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.traces.arrivals import Arrivals, arrange, arrivals
from seatrial.traces.formats import FORMATS
from seatrial.traces.options import DROP, IN_MILLI, NameMap, TraceOptions, TraceSample
from seatrial.traces.problem import TraceProblem
from seatrial.traces.reading import Trace
from seatrial.traces.selecting import select
from tests.traces import samples

S = 1_000_000_000
PLAIN = TraceOptions()


def of_swf(tmp_path: Path, options: TraceOptions = PLAIN, lines: list[str] | None = None) -> Arrivals:
    return arrivals(samples.swf(tmp_path / "t.swf", lines), options)


def seconds(times: np.ndarray) -> list[float]:
    return [at / S for at in times.tolist()]


def test_jobs_are_due_after_the_first_and_processors_are_pods_that_run_together(tmp_path: Path) -> None:
    of = of_swf(tmp_path)
    assert seconds(of.due) == [0, 10, 10, 60]
    assert of.pods.tolist() == [4, 1, 4, 4]
    assert seconds(of.durations) == [60, 60, 0, 60]
    assert seconds(of.waits) == [10, 10, 10, 10]
    [asked] = of.asked
    assert (asked.cpu_milli, asked.gang) == (1000, True)


def test_speed_divides_arrivals_and_durations(tmp_path: Path) -> None:
    of = of_swf(tmp_path, replace(PLAIN, speed=10.0))
    assert (seconds(of.due), seconds(of.durations)) == ([0, 1, 1, 6], [6, 6, 0, 6])


def test_fit_into_makes_the_last_arrival_then(tmp_path: Path) -> None:
    of = of_swf(tmp_path, replace(PLAIN, into=6 * S))
    assert (seconds(of.due)[-1], of.speed) == (6, 10)
    part = of_swf(tmp_path, replace(PLAIN, into=6 * S, since=5 * S))
    assert seconds(part.due) == pytest.approx([6 * 5 / 55, 6 * 5 / 55, 6])


def test_a_window_begins_at_its_own_beginning(tmp_path: Path) -> None:
    of = of_swf(tmp_path, replace(PLAIN, since=5 * S, until=60 * S))
    assert seconds(of.due) == [5, 5]
    dated = of_swf(tmp_path, replace(PLAIN, since="1996-09-23T12:02:16", until="1996-09-23T12:03:00"))
    assert seconds(dated.due) == [5, 5], "the trace begins at 12:02:11 UTC"
    early = of_swf(tmp_path, replace(PLAIN, since="1996-09-23", until="1996-09-23T12:03:00"))
    assert seconds(early.due) == [0, 10, 10]


@pytest.mark.parametrize(
    ("options", "said", "option"),
    [
        (replace(PLAIN, since=3600 * S), "no job between", "from"),
        (replace(PLAIN, since=9 * S, until=5 * S), "not after", "until"),
        (replace(PLAIN, since="2017-13-09"), "is no date", "from"),
        (replace(PLAIN, until="1990-01-01"), "no job between", "until"),
        (replace(PLAIN, until=0), "no job between", "until"),
    ],
)
def test_a_window_without_jobs_is_a_mistake(tmp_path: Path, options: TraceOptions, said: str, option: str) -> None:
    with pytest.raises(TraceProblem, match=said) as caught:
        of_swf(tmp_path, options)
    assert caught.value.option == option


def test_a_date_needs_a_trace_that_knows_its_day(tmp_path: Path) -> None:
    with pytest.raises(TraceProblem, match="does not say on which day"):
        arrivals(samples.openb(tmp_path / "p.csv"), replace(PLAIN, since="2023-01-01"))


def test_head_keeps_the_earliest(tmp_path: Path) -> None:
    of = arrivals(samples.philly(tmp_path / "p.csv"), replace(PLAIN, head=2))
    assert seconds(of.due) == [0, 60]


def test_gpus_of_a_job_are_spread_evenly_over_pods(tmp_path: Path) -> None:
    of = arrivals(samples.philly(tmp_path / "p.csv"), PLAIN)
    assert of.pods.tolist() == [2, 1, 1]
    assert [of.asked[place].gpus for place in of.shape.tolist()] == [6, 1, 2]


def test_what_rounding_up_adds_is_said(tmp_path: Path) -> None:
    options = replace(PLAIN, processors_per_pod=3)
    of = of_swf(tmp_path, options)
    assert [(pods, of.asked[place].cpu_milli) for pods, place in zip(of.pods.tolist(), of.shape.tolist(), strict=True)] == [
        (2, 2000), (1, 1000), (2, 2000), (2, 2000)
    ]  # fmt: skip
    alone = of_swf(tmp_path, replace(options, share_nodes=False))
    assert {asked.cpu_milli for asked in alone.asked} == {3000}
    assert alone.notes == ("4 jobs with more processors in whole pods than in the trace: 8 processors more in all",)


def test_fractions_of_a_gpu_become_what_was_asked_for(tmp_path: Path) -> None:
    path = samples.openb(tmp_path / "p.csv")
    up, milli, drop = (arrivals(path, replace(PLAIN, fractions=way)) for way in ("up", IN_MILLI, DROP))
    assert [asked.gpus for asked in up.asked] == [1, 2, 0]
    assert up.notes == ("1 job asking for a fraction of a GPU: rounded up, 0.5 GPUs more in all",)
    assert [(asked.gpus, asked.gpu_milli) for asked in milli.asked] == [(0, 500), (0, 2000), (0, 0)]
    assert (drop.count, drop.notes) == (2, ("1 job left out: a fraction of a GPU",))


def test_in_thousandths_whole_gpus_are_counted_so_where_no_job_asks_for_a_fraction_too(tmp_path: Path) -> None:
    of = arrivals(samples.philly(tmp_path / "p.csv"), replace(PLAIN, fractions=IN_MILLI))
    assert [(of.asked[place].gpus, of.asked[place].gpu_milli) for place in of.shape.tolist()] == [
        (0, 6000), (0, 1000), (0, 2000)
    ]  # fmt: skip


def test_unknown_durations_and_sizes_are_left_out_or_assumed(tmp_path: Path) -> None:
    lines = [samples.swf_line(1, 0), samples.swf_line(2, 1, run=-1), samples.swf_line(3, 2, processors=-1)]
    without = of_swf(tmp_path, lines=lines)
    assert (without.count, without.notes) == (1, ("1 job left out: duration unknown", "1 job left out: size unknown"))
    assumed = of_swf(tmp_path, replace(PLAIN, unknown_duration=5 * S, unknown_size=2), lines)
    assert (seconds(assumed.durations), assumed.pods.tolist()) == ([60, 5, 60], [4, 4, 2])
    assert len(assumed.notes) == 2, "what was assumed is said"


def test_a_trace_of_unknown_sizes_alone_has_no_jobs_of_one_pod_that_ask_for_nothing(tmp_path: Path) -> None:
    lines = [samples.swf_line(1, 0, processors=-1), samples.swf_line(2, 5, processors=-1)]
    with pytest.raises(TraceProblem, match=r"no job of t\.swf is left: 2 jobs left out: size unknown"):
        of_swf(tmp_path, lines=lines)
    assert of_swf(tmp_path, replace(PLAIN, unknown_size=3), lines).pods.tolist() == [3, 3]
    known = [samples.swf_line(3, 60), *lines]
    with pytest.raises(TraceProblem, match="size unknown"):
        of_swf(tmp_path, replace(PLAIN, until=30 * S), known)


def test_jobs_cancelled_before_they_ran_are_left_out(tmp_path: Path) -> None:
    lines = [samples.swf_line(1, 0), samples.swf_line(2, 1, run=0, status=5), samples.swf_line(3, 2, status=5)]
    of = of_swf(tmp_path, lines=lines)
    assert (of.count, of.notes) == (2, ("1 job left out: cancelled before they ran",))


def test_scaled_jobs_have_at_least_one_pod(tmp_path: Path) -> None:
    of = of_swf(tmp_path, replace(PLAIN, sizes=0.25, durations=2.0))
    assert (of.pods.tolist(), seconds(of.durations)) == ([1, 1, 1, 1], [120, 120, 0, 120])
    assert of.notes == ("1 job smaller than a pod after scaling: of one pod",)


def test_a_sample_by_user_keeps_all_jobs_of_some_users(tmp_path: Path) -> None:
    lines = [samples.swf_line(job, job, user=job % 10) for job in range(200)]
    of = of_swf(tmp_path, replace(PLAIN, sample=TraceSample(0.3, "user")), lines)
    assert of.count == 60
    assert of.jobs["user"].n_unique() == 3
    again = of_swf(tmp_path, replace(PLAIN, sample=TraceSample(0.3, "user", 2)), lines)
    assert set(again.jobs["user"]) != set(of.jobs["user"]), "another seed keeps others"
    nobodys = of_swf(
        tmp_path, replace(PLAIN, sample=TraceSample(0.3, "user")), [*lines, samples.swf_line(201, 5, user=-1)]
    )
    assert (nobodys.count, nobodys.notes[-1]) == (60, "1 job left out: user unknown")
    by_job = of_swf(tmp_path, replace(PLAIN, sample=TraceSample(0.5, "job")), lines)
    assert 70 < by_job.count < 130


def test_jobs_go_to_the_queue_of_their_name_or_where_they_are_mapped(tmp_path: Path) -> None:
    path = samples.philly(tmp_path / "p.csv")
    same = arrivals(path, replace(PLAIN, queues=("aaa", "bbb")))
    assert [same.queues[place] for place in same.queue.tolist()] == ["bbb", "aaa", "aaa"]
    mapped = arrivals(
        path, replace(PLAIN, queues=("red", "blue"), queue=NameMap("queue", (("bbb", "red"), ("*", "blue"))))
    )
    assert [mapped.queues[place] for place in mapped.queue.tolist()] == ["red", "blue", "blue"]
    fixed = arrivals(path, replace(PLAIN, queues=("red", "blue"), fixed_queue="blue"))
    assert [fixed.queues[place] for place in fixed.queue.tolist()] == ["blue"] * 3


def test_a_job_without_a_queue_is_a_mistake_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(TraceProblem, match=r"2 jobs of p\.csv with a queue that is no queue: 'aaa'") as caught:
        arrivals(samples.philly(tmp_path / "p.csv"), replace(PLAIN, queues=("bbb",)))
    assert "map: {queue: {by: queue, to: {'*': bbb}}}" in caught.value.remedy


def test_users_are_spread_evenly_and_always_alike(tmp_path: Path) -> None:
    lines = [samples.swf_line(job, job, user=job % 9) for job in range(90)]
    options = replace(PLAIN, queues=("a", "b", "c"), queue=NameMap("user", (("*", "each"),)))
    of = of_swf(tmp_path, options, lines)
    assert np.bincount(of.queue).tolist() == [30, 30, 30]
    assert of.queue.tolist() == of_swf(tmp_path, options, lines).queue.tolist()


def test_priorities_come_from_a_mapping(tmp_path: Path) -> None:
    options = replace(PLAIN, priority=NameMap("class", (("LS", "100"), ("*", "1"))))
    of = arrivals(samples.openb(tmp_path / "p.csv"), options)
    assert [of.asked[place].priority for place in of.shape.tolist()] == [100, 1, 100]


def test_more_than_fifty_classes_are_grouped(tmp_path: Path) -> None:
    lines = [samples.swf_line(job, job, user=job % 60) for job in range(300)]
    of = of_swf(tmp_path, replace(PLAIN, classes=NameMap("user")), lines)
    assert (len(of.classes), of.classes[-1]) == (50, "others")
    assert int((of.class_of == 49).sum()) == 55


def test_many_different_amounts_of_memory_are_rounded_up_and_that_is_said(tmp_path: Path) -> None:
    lines = [samples.swf_line(job, job, memory=1_000_000 + 7919 * job, processors=1) for job in range(2000)]
    of = of_swf(tmp_path, lines=lines)
    asked = np.array([of.asked[place].memory_bytes for place in of.shape.tolist()])
    exact = np.array([(1_000_000 + 7919 * job) * 1024 for job in range(2000)])
    assert len(of.asked) <= 400
    assert (asked >= exact).all() and (asked <= exact * 1.5).all()
    assert "2,000 different pods: memory rounded up" in of.notes[0]


def test_a_file_that_has_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    path = samples.swf(tmp_path / "t.swf")
    with pytest.raises(TraceProblem, match="has changed since the scenario was read"):
        arrivals(path, PLAIN, (1, 2))


JOBS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(1, 300), st.integers(0, 4000)),
    min_size=1,
    max_size=40,
)


@given(jobs=JOBS, speed=st.floats(0.01, 1000), per_pod=st.integers(1, 64), sizes=st.floats(0.1, 4))
def test_no_job_is_lost_or_becomes_smaller(
    jobs: list[tuple[int, int, int, int]], speed: float, per_pod: int, sizes: float
) -> None:
    """Whatever is asked: due times are in order, durations are milliseconds, pods hold at least the processors of the job."""
    table = pl.DataFrame(jobs, schema=["submit_ns", "duration_ns", "processors", "memory_bytes"], orient="row")
    frame = table.with_columns(pl.col("submit_ns", "duration_ns") * S).lazy()
    from seatrial.traces.columns import completed

    whole = completed(frame).collect()
    trace = Trace(
        Path("t"), FORMATS["swf"], whole.drop("fault"), whole.filter(pl.lit(False)).select("line", "fault"), 0
    )
    options = replace(PLAIN, speed=speed, processors_per_pod=per_pod)
    of = arrange(trace, select(trace, options), options)
    assert of.count == len(jobs)
    assert (np.diff(of.due) >= 0).all() and of.due[0] == 0
    assert (of.durations % 1_000_000 == 0).all()
    cpu = np.array([of.asked[place].cpu_milli for place in of.shape.tolist()])
    processors = np.array([row[2] for row in sorted(jobs, key=lambda row: row[0])])
    assert (of.pods * cpu >= processors * 1000).all()
    assert (cpu <= per_pod * 1000).all()
    scaled = arrange(trace, select(trace, replace(options, sizes=sizes)), options)
    assert (scaled.pods >= 1).all()
