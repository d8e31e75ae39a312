"""Metrics of the simulated server, once a second of virtual time, by the names of a real one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from seatrial.model.units import SECOND
from seatrial.record.metrics import MetricSample, MetricsLog
from seatrial.sim.apf_borrowing import SeatBorrowing
from seatrial.sim.apf_server import READING, ApfServer

EVERY = SECOND
SERVER = "kube-apiserver"
# cleanVerb of k8s.io/apiserver, endpoints/metrics
_VERBS = {"create": "POST", "update": "PUT"}
_KINDS = ("readOnly", "mutating")


class Metering:
    """Samples the server's metrics into the trial's directory."""

    def __init__(self, directory: Path, server: ApfServer, cores: float) -> None:
        self._log, self._server, self._cores = MetricsLog(directory), server, cores
        self._closed = False
        server.kernel.at(server.kernel.now, self._sample)

    def _sample(self, _: object) -> None:
        if not self._closed:
            self._write()
            self._server.kernel.at(self._server.kernel.now + EVERY, self._sample)

    def close(self) -> None:
        """Writes the last sample."""
        self._write()
        self._closed = True
        self._log.close()

    def _write(self) -> None:
        server = self._server
        now, spent = server.kernel.now, server.cores.spent() / SECOND
        self._log.add(now, "machine", [("cpu_busy_seconds", "", spent), ("cpu_cores", "", float(self._cores))])
        self._log.add(now, SERVER, [*self._requests(), *(self._levels(server.borrowing) if server.borrowing else [])])

    def _requests(self) -> list[MetricSample]:
        server = self._server
        found: list[MetricSample] = []
        for kind, name in enumerate(_KINDS):
            label = f"request_kind={name}"
            found.append(("apiserver_current_inflight_requests", label, float(server.peak[kind])))
            server.peak[kind] = server.executing[kind]
        sums: defaultdict[tuple[str, str], float] = defaultdict(float)
        for (_, _, verb, resource), tally in server.tallies.items():
            label = f"verb={_VERBS.get(verb, verb.upper())}"
            sums["apiserver_current_inqueue_requests", f"request_kind={_KINDS[verb not in READING]}"] += tally.waiting
            for code, number in tally.codes.items():
                sums["apiserver_request_total", f"code={code},resource={resource},{label}"] += number
            sums["apiserver_request_duration_seconds_count", label] += tally.codes.total()
            sums["apiserver_request_duration_seconds_sum", label] += tally.took / SECOND
            sums["apiserver_request_terminations_total", "code=429"] += tally.refused.total()
        return found + [(metric, labels, value) for (metric, labels), value in sums.items()]

    def _levels(self, borrowing: SeatBorrowing) -> list[MetricSample]:
        sums: defaultdict[tuple[str, str], float] = defaultdict(float)
        for name, seats in borrowing.seats.items():
            label = f"priority_level={name}"
            sums["nominal_limit_seats", label] = borrowing.nominal(name)
            sums["current_limit_seats", label] = seats.limit
        for (level, schema, _, _), tally in self._server.tallies.items():
            labels = f"flow_schema={schema},priority_level={level}"
            sums["current_executing_requests", labels] += tally.executing
            sums["current_inqueue_requests", labels] += tally.waiting
            sums["dispatched_requests_total", labels] += tally.executed
            sums["request_wait_duration_seconds_count", f"execute=true,{labels}"] += tally.executed
            sums["request_wait_duration_seconds_sum", f"execute=true,{labels}"] += tally.waited / SECOND
            for reason, number in tally.refused.items():
                sums["rejected_requests_total", f"{labels},reason={reason}"] += number
        return [(f"apiserver_flowcontrol_{metric}", labels, value) for (metric, labels), value in sums.items()]
