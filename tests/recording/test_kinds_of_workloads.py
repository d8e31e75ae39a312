"""What belongs together in a cluster is one job of the trace, whatever kind of object it belongs to."""

from __future__ import annotations

from typing import Any

import msgspec

from seatrial.kube.watching import ADDED, MODIFIED
from seatrial.model.units import MILLISECOND
from seatrial.observe.anonymising import NameHider
from seatrial.observe.describing import Describer
from seatrial.observe.recorded_shapes import RecordedJob, RecordedPod
from seatrial.observe.sightings import Sightings
from seatrial.record.recorded_trace import trace_of
from seatrial.record.recordings import SeenLine

Row = dict[str, Any]


class Seen:
    """A cluster whose objects are watched from the beginning; times in ms."""

    def __init__(self) -> None:
        self._lines: list[SeenLine] = []
        self._describer = Describer(NameHider(b""))
        self._sightings = Sightings(self._describer, 0, 0, self._lines.extend)

    def job(self, at: int, name: str, owner: str = "", *, over: str = "", **spec: int) -> None:
        """A Job as the API server shows it; `over`: Complete or Failed."""
        conditions = [{"type": over, "status": "True"}] if over else []
        document = {"metadata": meta(name, owner), "spec": spec, "status": {"conditions": conditions}}
        event = MODIFIED if over else ADDED
        self._sightings.job(at * MILLISECOND, event, msgspec.convert(document, RecordedJob))

    def pod(self, name: str, owner: str, created: int, bound: int, started: int, ended: int, cpu: str = "1") -> None:
        """The life of a pod."""
        requests = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
        for at, node, phase in (
            (created, "", "Pending"), (bound, "n", "Pending"), (started, "n", "Running"), (ended, "n", "Succeeded"),
        ):  # fmt: skip
            document = {
                "metadata": meta(name, owner), "spec": {**requests, "nodeName": node}, "status": {"phase": phase},
            }  # fmt: skip
            event = ADDED if at == created else MODIFIED
            self._sightings.pod(at * MILLISECOND, event, msgspec.convert(document, RecordedPod))

    def jobs(self) -> list[Row]:
        """The jobs of the trace; times in ms."""
        rows = trace_of(self._lines).to_dicts()
        return [
            {key.replace("_ns", ""): round(value / MILLISECOND) if key.endswith("_ns") else value
             for key, value in row.items() if value is not None}
            for row in rows
        ]  # fmt: skip


def meta(name: str, owner: str) -> Row:
    """Metadata of an object that belongs to `owner`, which is `Kind/name`."""
    kind, _, of = owner.partition("/")
    references = [{"kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}] if owner else []
    return {"name": name, "namespace": "team", "uid": f"uid-{name}", "ownerReferences": references}


def test_the_jobs_of_a_jobset_are_one_job_with_the_pods_of_all() -> None:
    seen = Seen()
    seen.job(1000, "workers", "JobSet/training", parallelism=2, completions=2)
    seen.job(1001, "leader", "JobSet/training", parallelism=1)
    for number, job in enumerate(("workers", "workers", "leader")):
        seen.pod(f"p{number}", f"Job/{job}", 1100, 1200, 1300, 5300)
    for job in ("workers", "leader"):
        seen.job(5400, job, "JobSet/training", over="Complete")
    [row] = seen.jobs()
    assert (row["job"], row["class"], row["pods"], row["outcome"]) == ("team/training", "JobSet", 3, "completed")
    assert (row["submit"], row["wait"], row["duration"]) == (1000, 200, 4000)


def test_a_jobset_that_was_started_again_is_as_large_as_before_and_ends_as_its_last_jobs_do() -> None:
    seen = Seen()
    for number, (begin, end, how) in enumerate(((0, 3000, "Failed"), (3100, 9000, "Complete"))):
        seen.job(begin, f"workers-{number}", "JobSet/training", parallelism=4, completions=4)
        seen.job(end, f"workers-{number}", "JobSet/training", over=how)
    [row] = seen.jobs()
    assert (row["pods"], row["outcome"]) == (4, "completed")


def test_pods_of_a_foreign_kind_are_one_job_that_waited_until_the_last_of_them_was_bound() -> None:
    seen = Seen()
    seen.pod("master", "PyTorchJob/mnist", 1000, 1100, 1200, 9000)
    seen.pod("worker", "PyTorchJob/mnist", 1010, 4000, 4100, 8900, cpu="3")
    [row] = seen.jobs()
    assert (row["job"], row["class"], row["pods"], row["cpu_milli"]) == ("team/mnist", "PyTorchJob", 2, 3000)
    assert (row["submit"], row["wait"], row["duration"]) == (1000, 3000, 7800)


def test_executors_belong_to_the_application_of_their_driver() -> None:
    seen = Seen()
    seen.pod("driver", "SparkApplication/etl", 1000, 1100, 1200, 9000)
    seen.pod("executor", "Pod/driver", 2000, 2100, 2200, 8000)
    [row] = seen.jobs()
    assert (row["job"], row["class"], row["pods"]) == ("team/etl", "SparkApplication", 2)


def test_a_job_whose_pods_run_one_after_another_keeps_its_width_and_its_work() -> None:
    seen = Seen()
    seen.job(0, "sweep", parallelism=2, completions=6)
    for number in range(6):
        begin = 100 + 1000 * (number // 2)
        seen.pod(f"p{number}", "Job/sweep", begin, begin + 10, begin + 20, begin + 900)
    seen.job(3100, "sweep", over="Complete")
    [row] = seen.jobs()
    assert (row["pods"], row["wait"], row["duration"]) == (2, 110, 3 * 880)


def test_a_chain_of_pods_of_a_foreign_kind_waits_for_the_first_of_them() -> None:
    seen = Seen()
    for number in range(3):
        begin = 1000 * number
        seen.pod(f"step{number}", "Workflow/nightly", begin, begin + 100, begin + 200, begin + 900)
    [row] = seen.jobs()
    assert (row["pods"], row["wait"], row["duration"]) == (1, 100, 3 * 700)


def test_what_a_daemon_set_runs_is_no_job_and_other_pods_without_a_job_are_one_each() -> None:
    seen = Seen()
    seen.pod("agent", "DaemonSet/agents", 0, 10, 20, 30)
    seen.pod("web-1", "ReplicaSet/web", 0, 10, 20, 30)
    seen.pod("web-2", "ReplicaSet/web", 0, 10, 20, 30)
    seen.pod("alone", "", 0, 10, 20, 30)
    assert sorted(row["job"] for row in seen.jobs()) == ["team/alone", "team/web-1", "team/web-2"]
