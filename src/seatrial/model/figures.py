"""The table of figures: everything that is known about a column of summary.csv but how it is computed.

Expectations, comparisons, the terminal, the page, OpenMetrics and docs/figures.md read this table. A new figure is one entry here
and one function under the same name in `analysis.trial_figures`.

A figure of a part of a trial is asked for by a group: `p99_s(phase=prod)` is the p99 of one submit phase, `p99_s(queue=red)` that
of one queue. A figure lists the groups that it can be asked by. Of identities the group may be omitted: `rejected(tenant)` is
`rejected(identity=tenant)`.

Figures of a shared fleet are columns of summary.csv only where there is something to tell (SHARED).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from seatrial.model import doubts

COUNT, PEAK, TIME, RATE, RATIO, FLAG, TEXT = "count", "peak", "time", "rate", "ratio", "flag", "text"
MORE, LESS = "more", "less"

PHASE, IDENTITY, QUEUE, CLASS = "phase", "identity", "queue", "class"
GROUPS = {PHASE: "phases", IDENTITY: "identities", QUEUE: "queues", CLASS: "classes"}
WORKLOADS = (PHASE, QUEUE, CLASS)  # groups of workloads

# What a trial must have for a figure to be there.
COMPLETION = "every workload completed"
REQUESTS = "the scenario sends API requests"
GPUS = "nodes have GPUs"
AUDITS = "the trial was audited"
LOCAL = "it ran on `local`"
SHARED = "the scenario has queues or classes, or workloads were evicted"
QUEUES = "the scenario has queues"
COMPETED = "queues competed: two or more had demand, together beyond the quota"

_WORDS = {TIME: ("slower", "faster"), RATE: ("faster", "slower"), COUNT: ("more", "fewer")}
_DOUBTED_AS = {TIME: doubts.TIMES, RATE: doubts.RATES, RATIO: doubts.RATES}
_GROUPED = re.compile(rf"(\w+)\((?:({'|'.join(GROUPS)})=)?(.*)\)", re.DOTALL)

Value = float | str | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A column of summary.csv."""

    name: str
    kind: str
    unit: str
    about: str  # in a few words
    detail: str = ""  # how it is defined exactly, and when it is empty
    better: str = ""  # MORE or LESS; empty where neither is: comparisons leave it out
    needs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    heading: str = ""  # of its column on the page and on a terminal, without the unit; empty: it is not shown there
    verdicts: tuple[str, str] = (
        "",
        "",
    )  # a comparison's words for more and for less of it, where the kind's do not fit
    while_running: bool = False  # steps may expect it: it is known before the trial ends
    label: bool = False  # tells trials apart; expectations do not name it
    audit: str = ""  # the audit in trial.json that counts it
    in_parts: bool = False  # known only per member of a group: not a column of summary.csv

    @property
    def shared(self) -> bool:
        """A column of summary.csv only in studies of shared fleets."""
        return SHARED in self.needs or QUEUES in self.needs or COMPETED in self.needs

    @property
    def exact(self) -> bool:
        """Counted or said, not measured: a gate must hold in every repeat. Others are judged by their interval over repeats."""
        return self.kind in (COUNT, PEAK, FLAG, TEXT)

    @property
    def doubted_as(self) -> str:
        """The kind of figures (`doubts.KINDS`) that a reason against a trial must touch to touch this one."""
        return _DOUBTED_AS.get(self.kind, doubts.COUNTS)

    @property
    def words(self) -> tuple[str, str]:
        """The words for more and for less of it."""
        return self.verdicts if any(self.verdicts) else _WORDS.get(self.kind, ("more", "less"))

    @property
    def title(self) -> str:
        """The heading with its unit: `created /s`."""
        heading = self.heading or self.name.removesuffix("_per_s").removesuffix("_s").replace("_", " ")
        return f"{heading} {self.unit}" if self.unit and self.kind in (TIME, RATE) else heading


def _turnaround(percent: int) -> Figure:
    return Figure(
        f"p{percent}_s", TIME, "s", f"{percent}th percentile of turnaround, from submitted to completed",
        "Percentile of `turnaround_s` of completed workloads by nearest rank, the ⌈p·n⌉-th smallest: a value that some workload "
        "had. Of fewer than 100 workloads p99 is the largest",
        LESS, (COMPLETION,), WORKLOADS, f"p{percent}",
    )  # fmt: skip


def _scheduling(percent: int, heading: str = "") -> Figure:
    return Figure(
        f"schedule_p{percent}_s", TIME, "s", f"{percent}th percentile of a pod's time from created to bound",
        "By nearest rank: the time of the scheduler and of everything that gates a pod", LESS, (), (PHASE,), heading,
    )  # fmt: skip


def _request_time(percent: int, heading: str = "") -> Figure:
    return Figure(
        f"api_p{percent}_s", TIME, "s", f"{percent}th percentile of a request's duration, from when it was due",
        "Exact, by nearest rank, to the whole answer, of successful requests; without watches",
        LESS, (REQUESTS,), (IDENTITY,), heading,
    )  # fmt: skip


def _audit(name: str, audit: str, unit: str, about: str, *needs: str) -> Figure:
    detail = f"Found by the audit `{audit}`; empty for a trial that was interrupted"
    return Figure(name, COUNT, unit, about, detail, LESS, (AUDITS, *needs), audit=audit)


def _wait(name: str, about: str, heading: str = "") -> Figure:
    return Figure(
        f"wait_{name}_s", TIME, "s", about,
        "Of all workloads except refused ones. A workload that never got a place counts with the time until it ended or "
        "the trial ended: a queue that starves must not look fast", LESS, (SHARED,), WORKLOADS, heading,
    )  # fmt: skip


_WAITED = "from submitted to the first admission; without a queue object, until all its pods were first bound"
_RESOURCES = {
    "": ("core-s", "core-seconds"),
    "_gpu": ("GPU-s", "GPU-seconds"),
    "_memory": ("GiB-s", "GiB-seconds of memory"),
}


def _amounts(
    name: str, about: str, detail: str, groups: tuple[str, ...], needs: str, better: str = ""
) -> tuple[Figure, ...]:
    """A figure in resource-seconds: of cores, of GPUs and of memory."""
    return tuple(
        Figure(f"{name}{suffix}_s", TIME, unit, f"{words} {about}", detail if not suffix else f"Like `{name}_s`", better, (needs,),
               groups, verdicts=("more", "less"))
        for suffix, (unit, words) in _RESOURCES.items()
    )  # fmt: skip


def _evictions(name: str, about: str, detail: str = "", heading: str = "") -> Figure:
    return Figure(name, COUNT, "evictions", about, detail, LESS, (SHARED,), WORKLOADS, heading)


_ENTRIES = (
    Figure("scenario", TEXT, "", "name of the scenario", label=True),
    Figure("on", TEXT, "", "where it ran: `sim`, `local` or `kubeconfig`", label=True),
    Figure("setup", TEXT, "", "set-up", while_running=True),
    Figure("stack", TEXT, "", "stack of the set-up", while_running=True),
    Figure("repeat", COUNT, "", "number of the repeat, from 1", label=True),
    Figure("seed", COUNT, "", "seed of the study", label=True),
    Figure("nodes", COUNT, "nodes", "nodes that existed at any time"),
    Figure("workloads", COUNT, "workloads", "workloads that the steps would submit", groups=(PHASE,)),
    Figure("pods", COUNT, "pods", "pods of the submitted workloads", groups=WORKLOADS),
    Figure("submitted", COUNT, "workloads", "workloads submitted",
           "The sum of `completed`, `failed`, `deleted` and `pending`: each workload counts once, in this order", groups=WORKLOADS,
           while_running=True),
    Figure("completed", COUNT, "workloads", "workloads completed", "", MORE, groups=WORKLOADS, while_running=True),
    Figure("failed", COUNT, "workloads", "workloads that failed", "", LESS, groups=WORKLOADS, while_running=True),
    Figure("deleted", COUNT, "workloads", "workloads deleted before they completed", groups=WORKLOADS, while_running=True),
    Figure("pending", COUNT, "workloads", "workloads that have not ended", "", LESS, groups=WORKLOADS, while_running=True),
    Figure("outcome", TEXT, "", "how the trial ended",
           "`completed`, `clogged`, `timeout`, `failed`, `interrupted` or `damaged`, see [outcomes](study.md#outcomes)"),
    Figure("valid", FLAG, "", "whether all figures of the trial can be trusted",
           "False if the client was late or reached less than 95 % of the rate asked for, if events were missed, if it was "
           "interrupted, or if it has lost files since. `validity.reasons` in [trial.json](study.md#trialjson) name the "
           "affected figures"),
    Figure("total_s", TIME, "s", "from the first submission to the last completion",
           "Empty unless the outcome is `completed` and every planned workload completed: a stack that clogs must not look fast. "
           "Of a phase, a queue or a class, from its own first submission to its own last completion", LESS, (COMPLETION,),
           WORKLOADS, "total time"),
    Figure("rate_per_s", RATE, "/s", "workloads completed per second", "`completed` / `total_s`", MORE, (COMPLETION,), WORKLOADS),
    Figure("cpu_util", RATIO, "", "share of the nodes' cores that running containers had requested",
           "Core-seconds, from the first submission to the last completion, or to the end of the trial if not all completed. "
           "Counts requests, not usage", MORE, heading="cpu used"),
    Figure("gpu_util", RATIO, "", "share of the nodes' GPUs that running containers had requested",
           "Like `cpu_util`, of all resources whose name ends in `/gpu`", MORE, (GPUS,), heading="gpu used"),
    Figure("creation_per_s", RATE, "/s", "workloads per second that the server showed", "(n − 1) / (last − first) of n workloads",
           MORE, (), (PHASE,), "created"),
    Figure("dispatch_per_s", RATE, "/s", "workloads per second that the queue admitted, or whose pods were created",
           "(n − 1) / (last − first) of the n workloads that were admitted; without a queue, whose pods were all created",
           MORE, (), (PHASE,), "dispatched"),
    _turnaround(50), _turnaround(95), _turnaround(99),
    Figure("mean_s", TIME, "s", "mean turnaround of completed workloads", "", LESS, (COMPLETION,), WORKLOADS),
    Figure("max_s", TIME, "s", "longest turnaround of a completed workload", "", LESS, (COMPLETION,), WORKLOADS),
    Figure("held_idle_s", TIME, "core-s", "core-seconds that gangs held before all their pods ran", "From bound", LESS,
           heading="held idle", verdicts=("more", "less")),
    Figure("held_idle_gpu_s", TIME, "GPU-s", "GPU-seconds that gangs held before all their pods ran", "From bound", LESS,
           verdicts=("more", "less")),
    Figure("bound_per_s", RATE, "/s", "pods per second that were bound to a node", "(n − 1) / (last − first) of n pods", MORE, (),
           (PHASE,), "bound"),
    _scheduling(50), _scheduling(99, "scheduling p99"),
    Figure("end_s", TIME, "s", "from the first submission to the end of the trial"),
    Figure("trial", TEXT, "", "name of the trial's directory", label=True),
    Figure("evidence", TEXT, "", "source of the figures",
           "`real` (real components), `verified model` (a model [checked against them](fidelity.md)) or `unverified model`",
           label=True),
    Figure("clog", TEXT, "", "kind of the clog that was diagnosed; empty if nothing clogged"),
    Figure("stalls", COUNT, "", "times of 30 s or more without progress of any workload, after which the trial continued",
           "See [stalls](clogs.md#stalls)", LESS),
    Figure("stalled_s", TIME, "s", "total length of the stalls", "", LESS, verdicts=("longer", "shorter")),
    _audit("audit_misfit", "misfit", "pods", "pods bound to a node that they do not fit"),
    _audit("audit_aggregate", "aggregate admission", "workloads",
           "workloads that a queue admitted by the cluster's totals, although they fit on no node"),
    _audit("audit_overadmitted", "over-admission", "pods",
           "maximum of admitted, unfinished pods beyond the capacity of the nodes"),
    _audit("audit_declared", "declared otherwise", "workloads",
           "workloads whose declared requests differ from those of their pods"),
    _audit("audit_partial", "gang in part", "gangs", "gangs that were started in part"),
    _audit("audit_head_of_line", "head of line", "workloads",
           "workloads that would have fitted and waited behind the head of the queue, which did not fit"),
    _audit("audit_overtaken", "overtaken", "workloads", "workloads overtaken by later ones"),
    Figure("requests", COUNT, "requests", "requests that the load sent", "As they went over the wire", "", (REQUESTS,), (IDENTITY,),
           "requests"),
    Figure("rejected", COUNT, "requests", "requests answered with 429: too many requests", "", LESS, (REQUESTS,), (IDENTITY,),
           "rejected"),
    Figure("retried", COUNT, "requests", "retries", "", LESS, (REQUESTS,), (IDENTITY,)),
    Figure("errors", COUNT, "requests", "requests answered with another failure, or not at all", "", LESS, (REQUESTS,), (IDENTITY,),
           "errors"),
    Figure("requests_per_s", RATE, "/s", "successful requests per second",
           "From the first that was due to the last answer", MORE, (REQUESTS,), (), "answered"),
    _request_time(50, "request p50"), _request_time(95), _request_time(99, "request p99"),
    Figure("in_flight_max", PEAK, "requests", "maximum of requests that the server executed at the same time",
           "The server's own gauge, sampled once a second; without it, the client's requests in flight", LESS, (REQUESTS,)),
    Figure("queued_max", PEAK, "requests", "maximum of requests in the server's queues", "The server's own gauge", LESS,
           (REQUESTS,)),
    Figure("cpu_cores", RATE, "cores", "cores of the machine that were busy, on average", "", LESS, (REQUESTS,),
           verdicts=("more", "less")),
    Figure("pod_start_p99_s", TIME, "s", "99th percentile of the time from created to running, of pods of created objects", "",
           LESS, (REQUESTS,)),
    Figure("heartbeat_gap_s", TIME, "s", "longest time in which some node's lease was not renewed", "", LESS, (REQUESTS, LOCAL),
           heading="heartbeat gap", verdicts=("longer", "shorter")),
    _wait("mean", f"mean wait for a place: {_WAITED}"),
    _wait("p50", "50th percentile of the wait for a place", "wait p50"),
    _wait("p95", "95th percentile of the wait for a place"),
    _wait("p99", "99th percentile of the wait for a place", "wait p99"),
    _wait("max", "longest wait for a place"),
    _evictions("evicted", "times that a workload lost its place",
               "Each eviction counts, also of the same workload. The sum of the six below", "evicted"),
    _evictions("preempted", "evictions for a workload of a higher priority, in the same queue or by kube-scheduler",
               "Without `reclaimed` and `fair_sharing`, which Kueue calls preemption too: `evicted` has all"),
    _evictions("reclaimed", "evictions because a queue of the cohort reclaimed its own quota"),
    _evictions("fair_sharing", "evictions for a queue with a smaller share"),
    _evictions("timed_out", "evictions because pods did not run in time"),
    _evictions("node_gone", "evictions because a node was gone"),
    _evictions("evicted_other", "evictions for another reason"),
    *_amounts("work_lost", "of work lost to evictions",
              "Requests of each lost pod, from when it ran (of a gang, from when all its pods ran) until it was lost, "
              "without the time before its last checkpoint", WORKLOADS, SHARED, LESS),
    *_amounts("used", "that pods held on nodes",
              "Requests from bound until finished or lost, whether the container ran or not", WORKLOADS, SHARED),
    *_amounts("nominal", "of quota", "Nominal quota × the length of the trial, of all flavors", (QUEUE,), QUEUES),
    *_amounts("borrowed", "of quota held beyond the queue's own",
              "What a queue held beyond its nominal quota, from admission to eviction or release (without a queue object, from "
              "pods created to finished or lost). Flavors count together", (QUEUE,), QUEUES),
    *_amounts("lent", "of quota that others held",
              "Borrowed quota of a cohort counts as lent by all queues with unused quota, in proportion to it", (QUEUE,),
              QUEUES),
    Figure("share", RATIO, "", "share of its cohort's quota that a queue held, on average while it had demand",
           "Of the resource most in demand, see [fair share](#fair-share)", "", (QUEUES,), (QUEUE,), "share", in_parts=True),
    Figure("fair_share", RATIO, "", "fair share of its cohort's quota, on average while queues competed",
           "See [fair share](#fair-share)", "", (COMPETED,), (QUEUE,), "fair share", in_parts=True),
    Figure("share_error", RATIO, "", "share of the quota that the wrong queues held, while queues competed",
           "Half the sum over queues of the distance between what a queue held and its fair share, in proportion to the quota; of "
           "one queue, its own distance. See [fair share](#fair-share)", LESS, (COMPETED,), (QUEUE,), "share error"),
    Figure("jain", RATIO, "", "Jain's index of what queues held in proportion to their fair share, while they competed",
           "1 if all got the same part of their fair share, 1/n if one of n got everything. See [fair share](#fair-share)", MORE,
           (COMPETED,), (), "Jain's index"),
    _audit("audit_quota_exceeded", "quota exceeded", "queues",
           "queues and cohorts that held more than their quota plus their borrowing limit", SHARED),
    _audit("audit_kept_below", "kept below quota", "queues",
           "queues that did not get their own quota for 30 s or longer while others borrowed", SHARED),
    _audit("audit_inverted", "priority inversion", "workloads",
           "workloads that waited while a lower priority of the same queue got a place", SHARED),
    _audit("audit_freed_nothing", "freed nothing", "evictions",
           "evictions for a workload that did not get its place within a minute", SHARED),
    _audit("audit_evicted_again", "evicted again", "workloads", "workloads that were evicted three times or more", SHARED),
    _audit("audit_starved", "starvation", "workloads",
           "workloads that waited ten minutes and ten times as long as most while ten later ones got a place", SHARED),
)  # fmt: skip

FIGURES = {figure.name: figure for figure in _ENTRIES}

# summary.csv begins with the labels and the params, then with what is promised to be there; the others follow in the table's order.
LABELS = ("scenario", "on", "setup", "stack", "repeat", "seed")
_PROMISED = (
    "nodes", "workloads", "pods", "submitted", "completed", "outcome", "total_s", "rate_per_s", "dispatch_per_s", "p50_s", "p95_s",
    "p99_s", "cpu_util", "gpu_util", "held_idle_s", "valid",
)  # fmt: skip

# What an expectation, an answer and `compare --figure` may name.
NAMED = tuple(figure.name for figure in _ENTRIES if not figure.label)

# A verdict is given on these, where the scenario names no answer of its own: of workloads, and of a load of API requests.
TESTED = ("completed", "total_s", "dispatch_per_s", "p50_s", "p95_s", "p99_s")
TESTED_OF_REQUESTS = ("completed", "total_s", "p99_s", "api_p99_s", "requests_per_s", "rejected")

# Columns on a terminal, and those that a narrow one leaves out, the first one first.
ON_TERMINAL = ("creation_per_s", "dispatch_per_s", "cpu_util", "gpu_util", "p50_s", "p95_s", "p99_s")
LEFT_OUT_FIRST = ("creation_per_s", "p50_s", "cpu_util", "dispatch_per_s", "p95_s")


def columns(params: Iterable[str], shared: bool = False) -> list[str]:
    """The columns of summary.csv, in order; `shared`: with those of a shared fleet."""
    others = (
        figure.name
        for figure in _ENTRIES
        if figure.name not in (*LABELS, *_PROMISED) and not figure.in_parts and (shared or not figure.shared)
    )
    return [*LABELS, *params, *_PROMISED, *others]


def grouped(figure: str, group: str, member: str) -> str:
    """The name of a figure of one member of a group: `p99_s(phase=prod)`, `rejected(tenant)`."""
    return f"{figure}({member})" if group == IDENTITY else f"{figure}({group}={member})"


def split(name: str) -> tuple[str, str, str]:
    """Figure, group and member of a name; no group and no member for a figure of a whole trial."""
    found = _GROUPED.fullmatch(name)
    return (found[1], found[2] or IDENTITY, found[3]) if found else (name, "", "")


def is_asked(name: str) -> bool:
    """Whether a name is that of a figure that summary.csv may lack: of a member of a group, or of a shared fleet."""
    return "(" in name or (name in FIGURES and FIGURES[name].shared)


def find(name: str) -> Figure:
    """The entry of a figure, however it is grouped."""
    return FIGURES[split(name)[0]]
