"""A ResourceQuota per queue: what the API server refuses, and how soon what ended is free again.

Facts (Kubernetes 1.36.3):
- Admission (apiserver, pkg/admission/plugin/resourcequota, checkQuotas) compares the usage in the quota's status with the limit. A
  pod that fits costs a write of that status inside the server; one that does not is refused with 403 and costs none.
- What a finished or deleted pod had is free only when the quota controller has written the status again
  (pkg/controller/resourcequota): a pod event puts the quota into its queue, one of 5 workers counts the pods in its cache and
  writes. The controller has a client of its own (20 QPS, burst 30), so with more than 20 busy quotas it falls behind. A write
  that meets one of the admission's is repeated (rate limiter of 5 ms, doubling).
- Nobody tells the Job controller: it tries again after its own back-off (`job_controller`).
- A terminating pod counts until it is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, MutableMapping, Sequence

from seatrial.model.fleet import Queue
from seatrial.model.plan import Scalar, Workload
from seatrial.model.units import MILLISECOND, format_quantity
from seatrial.sim.apiserver import WRITE, ApiClient, ApiServer
from seatrial.sim.kernel import Kernel

WORKERS = 5  # --concurrent-resource-quota-syncs
CONFLICT_RETRY, CONFLICT_RETRIES = 5 * MILLISECOND, 10  # ItemExponentialFailureRateLimiter; where we stop doubling
# The status write that admission waits for, inside the server: a third of what a client sees of a write. Not from a source.
ADMISSION_WRITE = 2 * MILLISECOND

_Usage = dict[str, int]


class _Quota:
    """The quota of one queue: limits, usage in its status, and usage of its pods."""

    __slots__ = ("conflicts", "dirty", "limits", "queued", "real", "used", "version")

    def __init__(self, queue: Queue) -> None:
        self.limits: _Usage = {}
        for quota in queue.quotas:
            for resource, amount in quota.nominal.items():
                self.limits[resource] = self.limits.get(resource, 0) + amount
        self.used: _Usage = dict.fromkeys(self.limits, 0)
        self.real: _Usage = dict.fromkeys(self.limits, 0)
        self.version = 0  # of the status, by writes of the admission
        self.conflicts = 0  # of the controller's writes, one after another
        self.queued = self.dirty = False  # in the controller's queue or with a worker; to be synced once more


class ResourceQuotas:
    """`said`: workload → why it waits; a refusal is noted there in the server's words."""

    def __init__(
        self,
        kernel: Kernel,
        api: ApiServer,
        settings: Mapping[str, Scalar],
        queues: Sequence[Queue],
        workloads: Sequence[Workload],
        said: MutableMapping[int, str],
    ) -> None:
        self._kernel, self._api, self._workloads, self._said = kernel, api, workloads, said
        self._client = ApiClient("resourcequota-controller", float(settings["qps"]), float(settings["burst"]))
        self._quotas = {queue.name: _Quota(queue) for queue in queues}
        self._queue: deque[_Quota] = deque()
        self._idle = WORKERS

    def used(self, queue: str) -> Mapping[str, int]:
        """The usage in the status of the queue's quota."""
        return self._quotas[queue].used

    def admits(self, number: int) -> bool:
        """A pod of the workload is created: counts it, or refuses it."""
        workload = self._workloads[number]
        quota = self._quotas[workload.queue]
        asked = {name: workload.shape.requests.get(name, 0) for name in quota.limits}
        over = [name for name in sorted(asked) if asked[name] and quota.used[name] + asked[name] > quota.limits[name]]
        if over:
            self._said[number] = _refusal(workload.queue, over, asked, quota)
            return False
        for name, amount in asked.items():
            quota.used[name] += amount
            quota.real[name] += amount
        quota.version += 1
        self._said.pop(number, None)
        return True

    def ended(self, number: int) -> None:
        """A pod of the workload finished, or is gone."""
        workload = self._workloads[number]
        quota = self._quotas[workload.queue]
        for name in quota.real:
            quota.real[name] -= workload.shape.requests.get(name, 0)
        self._enqueue(quota)

    # the controller

    def _enqueue(self, quota: _Quota) -> None:
        if quota.queued:
            quota.dirty = True
            return
        quota.queued = True
        self._queue.append(quota)
        self._take()

    def _take(self) -> None:
        while self._idle and self._queue:
            quota = self._queue.popleft()
            quota.dirty = False
            if quota.real == quota.used:
                self._done(quota)
                continue
            self._idle -= 1
            self._api.call(self._client, WRITE, self._written, (quota, dict(quota.real), quota.version))

    def _written(self, what: tuple[_Quota, _Usage, int]) -> None:
        quota, counted, version = what
        self._idle += 1
        if quota.version == version:
            quota.used, quota.conflicts = counted, 0
            self._done(quota)
        else:
            wait = CONFLICT_RETRY << min(quota.conflicts, CONFLICT_RETRIES)
            quota.conflicts += 1
            self._kernel.at(self._kernel.now + wait, self._retry, quota)
        self._take()

    def _retry(self, quota: _Quota) -> None:
        self._queue.append(quota)
        self._take()

    def _done(self, quota: _Quota) -> None:
        quota.queued = False
        if quota.dirty:
            self._enqueue(quota)


def _refusal(queue: str, over: Sequence[str], asked: _Usage, quota: _Quota) -> str:
    """As on real clusters (`clusters.live.watches.refusal`): the queue, then what the server says (CheckRequest: the exceeded
    resources only)."""
    said = ", ".join(
        f"{word}: " + ",".join(f"{_limited(name)}={format_quantity(amounts[name], name)}" for name in over)
        for word, amounts in (("requested", asked), ("used", quota.used), ("limited", quota.limits))
    )
    return f"waits for the quota of queue {queue}: {said}"


def _limited(resource: str) -> str:
    return resource if resource == "pods" else f"requests.{resource}"
