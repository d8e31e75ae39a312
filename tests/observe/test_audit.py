"""Times of the server's own log: each request's, and none later than what came of it."""

from __future__ import annotations

import json
from pathlib import Path

from seatrial.kube.shapes import Condition, Job, JobStatus, Meta
from seatrial.kube.watching import MODIFIED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.units import SECOND
from seatrial.observe import audit
from seatrial.observe.observer import see_job, see_pod
from tests.observe.test_doubt import EPOCH, WALL, known, observer, running_pod


def line(verb: str, resource: str, at: str, name: str, **more: object) -> str:
    """A request that was answered `at` seconds after 08:00."""
    plural, _, sub = resource.partition("/")
    ref = {"resource": plural, "subresource": sub, "namespace": "ns", "name": name}
    stamp = f"2027-01-15T08:00:{at}Z"
    return json.dumps({"verb": verb, "stageTimestamp": stamp, "objectRef": ref, "responseStatus": {"code": 200}} | more)


def test_a_request_that_is_answered_after_the_next_one_made_its_change_before_it(tmp_path: Path) -> None:
    seen = observer(tmp_path)
    seen.knows("load-0", seen.ledger.workload_as(0, 0, 1))
    done = Condition("Complete", "True", last_transition_time="2027-01-15T08:00:09Z")
    job = Job(Meta("load-0", labels={WORKLOAD_LABEL: "load-0"}), status=JobStatus(conditions=[done]))
    see_pod(seen, EPOCH + 6 * SECOND, MODIFIED, running_pod())
    see_job(seen, EPOCH + 9 * SECOND, MODIFIED, job)
    log = tmp_path / "audit.log"
    running = {"requestObject": {"status": {"phase": "Running"}}}
    complete = {"requestObject": {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}}
    log.write_text(
        "\n".join(
            [
                line("create", "pods/binding", "03.500", "load-0-x"),
                line("create", "pods", "03.700", "load-0-x"),
                line("create", "jobs", "03.600", "load-0"),
                line("patch", "pods/status", "05.000", "load-0-x", **running),
                line("patch", "pods/status", "06.000", "load-0-x", **running),
                line("update", "jobs/status", "04.900", "load-0", **complete),
                line("update", "jobs/status", "09.900", "load-0", **complete)[:-9],
            ]
        )
    )
    agreement = audit.merge(log, {"ns"}, seen, WALL)
    assert agreement.count == 5
    times = {stage: at for stage, (at, error) in known(tmp_path, seen).items() if error < 0.001}
    assert times == {"created": 3.5, "pods_created": 3.5, "scheduled": 3.5, "running": 4.9, "completed": 4.9}
