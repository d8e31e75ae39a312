"""The metrics that we keep of a component's `/metrics`.

An API server exposes 20,000 lines. We keep some thirty metrics, summed over the labels that we do not need: a few hundred numbers
per sample.
"""

from __future__ import annotations

import re

from seatrial.record.metrics import MetricSample

# Metric → the labels that are kept.
_FLOW = ("priority_level", "flow_schema")
KEPT: dict[str, tuple[str, ...]] = {
    "apiserver_request_total": ("verb", "resource", "code"),
    "apiserver_request_duration_seconds_sum": ("verb",),
    "apiserver_request_duration_seconds_count": ("verb",),
    "apiserver_request_duration_seconds_bucket": ("verb", "le"),
    "apiserver_current_inflight_requests": ("request_kind",),
    "apiserver_current_inqueue_requests": ("request_kind",),
    "apiserver_request_terminations_total": ("code",),
    "apiserver_flowcontrol_current_executing_requests": _FLOW,
    "apiserver_flowcontrol_current_executing_seats": _FLOW,
    "apiserver_flowcontrol_current_inqueue_requests": _FLOW,
    "apiserver_flowcontrol_current_inqueue_seats": _FLOW,
    "apiserver_flowcontrol_rejected_requests_total": (*_FLOW, "reason"),
    "apiserver_flowcontrol_dispatched_requests_total": _FLOW,
    "apiserver_flowcontrol_nominal_limit_seats": ("priority_level",),
    "apiserver_flowcontrol_current_limit_seats": ("priority_level",),
    "apiserver_flowcontrol_request_wait_duration_seconds_sum": (*_FLOW, "execute"),
    "apiserver_flowcontrol_request_wait_duration_seconds_count": (*_FLOW, "execute"),
    "apiserver_flowcontrol_request_wait_duration_seconds_bucket": ("priority_level", "le"),
    "apiserver_storage_size_bytes": (),
    "etcd_request_duration_seconds_sum": ("operation",),
    "etcd_request_duration_seconds_count": ("operation",),
    "rest_client_requests_total": ("code", "method"),
    "workqueue_depth": ("name",),
    "scheduler_pending_pods": ("queue",),
    "scheduler_schedule_attempts_total": ("result",),
    # Of all kubelets of a process together. The time from a pod's change to the status that the server has of it is `status_sync`.
    "kubelet_pleg_relist_duration_seconds_sum": (),
    "kubelet_pleg_relist_duration_seconds_count": (),
    "kubelet_pleg_relist_duration_seconds_bucket": ("le",),
    "kubelet_pleg_relist_interval_seconds_sum": (),
    "kubelet_pleg_relist_interval_seconds_count": (),
    "kubelet_pod_worker_duration_seconds_sum": ("operation_type",),
    "kubelet_pod_worker_duration_seconds_count": ("operation_type",),
    "kubelet_pod_worker_start_duration_seconds_sum": (),
    "kubelet_pod_worker_start_duration_seconds_count": (),
    "kubelet_pod_start_sli_duration_seconds_sum": (),
    "kubelet_pod_start_sli_duration_seconds_count": (),
    "kubelet_pod_start_sli_duration_seconds_bucket": ("le",),
    "kubelet_pod_status_sync_duration_seconds_sum": (),
    "kubelet_pod_status_sync_duration_seconds_count": (),
    "kubelet_runtime_operations_total": ("operation_type",),
    "kubelet_runtime_operations_errors_total": ("operation_type",),
    "kubelet_runtime_operations_duration_seconds_sum": ("operation_type",),
    "kubelet_runtime_operations_duration_seconds_count": ("operation_type",),
    "kubelet_evictions": ("eviction_signal",),
}
_LASTING = {"WATCH", "CONNECT"}  # long-running requests, left out of durations
_NAMES = {name.encode(): name for name in KEPT}
_LABEL = re.compile(rb'(\w+)="((?:[^"\\]|\\.)*)"')


def samples(text: bytes) -> list[MetricSample]:
    """The kept metrics of an exposition, summed over all other labels."""
    sums: dict[tuple[str, str], float] = {}
    cache: dict[bytes, str | None] = {}
    for line in text.split(b"\n"):
        name, brace, rest = line.partition(b"{")
        if not brace:
            name = line.partition(b" ")[0]
        metric = _NAMES.get(name)
        if metric is None:
            continue
        if brace:
            inside, _, tail = rest.rpartition(b"}")
            key = name + inside
            labels = cache[key] if key in cache else cache.setdefault(key, _labels(metric, inside))
            if labels is None:
                continue
            value = tail.split()[0]
        else:
            labels, value = "", line.split()[1]
        sums[metric, labels] = sums.get((metric, labels), 0.0) + float(value)
    return [(metric, labels, value) for (metric, labels), value in sums.items()]


def _labels(metric: str, inside: bytes) -> str | None:
    """The kept labels as text; None for a series that is left out."""
    found = {key.decode(): value.decode() for key, value in _LABEL.findall(inside)}
    if metric.startswith("apiserver_request_duration") and found.get("verb") in _LASTING:
        return None
    return ",".join(f"{key}={found[key]}" for key in sorted(KEPT[metric]) if key in found)
