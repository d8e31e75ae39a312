"""How far the figures of a trial on a real API server can be trusted, from what its parts measured."""

from __future__ import annotations

from typing import Any

from seatrial.clusters.live.request_load import RequestLoad
from seatrial.clusters.live.session import Session
from seatrial.clusters.live.watches import Watches
from seatrial.clusters.requests.metrics_scraper import MetricsScraper
from seatrial.kube import WatchState
from seatrial.model.doubts import RATES, TIMES, Doubt


def validity_of(
    session: Session,
    watches: Watches,
    requests: RequestLoad,
    scraper: MetricsScraper | None,
    client_priority: str,
) -> dict[str, Any]:
    """Validity for trial.json, with `reasons` against the figures."""
    ledger, observer, lag, phases = session.ledger, session.observer, watches.lag, requests.phases
    created = ledger.counts[ledger.number["created"]]
    sent = ledger.counts[ledger.number["submitted"]] - sum(observer.failures.values())
    missed = [gap.missed for gap in watches.gaps()]
    reasons = [Doubt(problem) for problem in session.problems]
    reasons += [Doubt(f"{death}: times include its absence", (TIMES, RATES)) for death in session.deaths]
    reasons += lag.reasons(phases.mean_ns() if phases else None)
    if any(missed):  # after a gap a list says what is so, but not since when
        reasons.append(Doubt(f"watches missed events in {sum(missed)} gaps", (TIMES, RATES)))
    if created < sent:
        reasons.append(Doubt(f"{sent} workloads were created and only {created} were seen"))
    machines = session.machines
    reasons += machines.doubts if machines else []
    refused = scraper.refused if scraper else {}
    return {
        "reasons": reasons + session.doubts,
        "refused": phases.notes() if phases else [],
        "not_measured": [f"{name} does not show its metrics ({why})" for name, why in refused.items()],
        "loop_lag_worst_ms": lag.worst / 1e6,
        "loop_lag_mean_ms": round(lag.mean / 1e6, 3),
        "client_cpu": round(lag.cpu, 4),
        "client_priority": client_priority,
        "objects_created": sent,
        "objects_seen": created,
        "not_submitted": observer.failures,
        "deaths": [*session.deaths, *session.mishaps],
        "watches": [_watch(state, observer.epoch) for state in watches.states],
        **({"load_machines": machines.rows} if machines else {}),
        **session.evidence,
    }


def _watch(state: WatchState, epoch: int) -> dict[str, Any]:
    gaps = [
        {
            "from_s": (gap.begin - epoch) / 1e9,
            "to_s": (gap.end - epoch) / 1e9,
            "reason": gap.reason,
            "missed": gap.missed,
        }
        for gap in state.gaps
    ]
    return {
        "resource": state.resource, "events": state.events, "relists": state.relists, "lag_worst_ms": state.lag_worst / 1e6,
        "gaps": gaps,
    }  # fmt: skip
