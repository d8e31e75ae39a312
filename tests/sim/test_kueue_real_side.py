"""The queues of a fleet as objects of Kueue, and Kueue's conditions as evictions. Nothing runs here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec import structs

from seatrial import stacks
from seatrial.kube.shapes import Condition, Meta, OwnerReference
from seatrial.kube.watching import LISTED
from seatrial.model.fleet import (
    ANY,
    FAIR_SHARING,
    LOWER,
    OTHER,
    PREEMPTED,
    RECLAIMED,
    TIMED_OUT,
    Cohort,
    Flavor,
    FlavorQuota,
    Fleet,
    Preemption,
    Queue,
)
from seatrial.model.labels import GROUP_LABEL, STUDY_LABEL
from seatrial.model.plan import NodeGroup, PodShape, Scalar, Setup, Taint, Trial, Workload
from seatrial.model.settings import CONTROL_PLANE, resolve
from seatrial.model.units import SECOND
from seatrial.observe.observer import Observer
from seatrial.record import merging
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.stacks.kueue.real import configuration
from seatrial.stacks.kueue.workload_conditions import (
    EvictionCount,
    QueuedWorkload,
    SchedulingStats,
    WorkloadSight,
    WorkloadStatus,
)

KUEUE = stacks.find("kueue")
LABELS = {STUDY_LABEL: "x"}
OLD = NodeGroup("old", 2, {"cpu": 4000}, {"gpu": "a100"}, (Taint("gpu", "yes"), Taint("soft", "", "PreferNoSchedule")))
NEW = NodeGroup("new", 2, {"cpu": 4000})
RED, BLUE = FlavorQuota("a100", {"cpu": 4000, "memory": 1 << 30}), FlavorQuota("a100", {"cpu": 4000}, {}, {"cpu": 1000})
FLEET = Fleet(
    queues=(
        Queue("red", (RED, FlavorQuota("h100", {"cpu": 8000}, {"cpu": 500})), "all"),
        Queue("blue", (BLUE,), "all", 2.5, borrows_first=False, preempts_first=True),
    ),
    cohorts=(Cohort("all", "top", (FlavorQuota("a100", {"cpu": 100}),)), Cohort("top")),
    flavors=(Flavor("a100", "old"), Flavor("h100", "new")),
    preemption=Preemption(LOWER, ANY, LOWER, 100),
)  # fmt: skip


def setup(fleet: Fleet = FLEET, **own: Scalar) -> Setup:
    table = (*CONTROL_PLANE, *KUEUE.settings)
    return Setup("kueue", "kueue", (OLD, NEW), settings=resolve(table, "as shipped", {"kueue": own}), fleet=fleet)


def made(fleet: Fleet = FLEET, **own: Scalar) -> dict[tuple[str, str], Mapping[str, Any]]:
    objects = KUEUE.real.prepare(setup(fleet, **own), {"cpu": 16000}, LABELS, "ns")
    return {(one.resource.kind, one.name): one.body["spec"] for one in objects}


def test_cluster_wide_objects_are_named_after_the_namespace_and_all_carry_the_label() -> None:
    objects = KUEUE.real.prepare(setup(), {}, LABELS, "ns")
    assert all(one.body["metadata"]["labels"] == LABELS for one in objects)
    assert all(one.name.startswith("ns-") for one in objects if not one.resource.namespaced)
    assert [(one.resource.kind, one.name) for one in objects] == [
        ("ResourceFlavor", "ns-a100"), ("ResourceFlavor", "ns-h100"), ("Cohort", "ns-all"), ("Cohort", "ns-top"),
        ("ClusterQueue", "ns-red"), ("ClusterQueue", "ns-blue"), ("LocalQueue", "red"), ("LocalQueue", "blue"),
    ]  # fmt: skip


def test_every_flavor_of_a_queue_has_every_resource_that_the_queue_has_a_quota_of() -> None:
    [group] = made()["ClusterQueue", "ns-red"]["resourceGroups"]
    assert group["coveredResources"] == ["cpu", "memory"]
    first, second = group["flavors"]
    assert first["resources"] == [{"name": "cpu", "nominalQuota": "4"}, {"name": "memory", "nominalQuota": "1Gi"}]
    assert second["resources"] == [
        {"name": "cpu", "nominalQuota": "8", "borrowingLimit": "500m"},
        {"name": "memory", "nominalQuota": "0"},
    ]


def test_a_flavor_names_the_labels_and_the_hard_taints_of_its_nodes() -> None:
    flavor = made()["ResourceFlavor", "ns-a100"]
    assert flavor["nodeLabels"] == {GROUP_LABEL: "old", "gpu": "a100"}
    assert flavor["nodeTaints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert "nodeTaints" not in made()["ResourceFlavor", "ns-h100"]


def test_rules_weights_and_limits_are_those_of_the_scenario() -> None:
    red, blue = (made()["ClusterQueue", f"ns-{name}"] for name in ("red", "blue"))
    assert red["preemption"] == {
        "withinClusterQueue": "LowerPriority",
        "reclaimWithinCohort": "Any",
        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
    }
    assert red["cohortName"] == "ns-all"
    assert red["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
    assert blue["flavorFungibility"] == {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"}
    assert (red["fairSharing"], blue["fairSharing"]) == ({"weight": "1"}, {"weight": "2.5"})
    assert blue["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] == "1"
    cohort = made()["Cohort", "ns-all"]
    assert cohort["parentName"] == "ns-top"
    assert cohort["resourceGroups"][0]["flavors"][0]["name"] == "ns-a100"


def test_a_scenario_without_queues_makes_the_one_queue_that_it_always_made() -> None:
    assert list(made(Fleet())) == [("ResourceFlavor", "ns"), ("ClusterQueue", "ns"), ("LocalQueue", "seatrial")]


@pytest.mark.parametrize(("wanted", "there"), [(True, False), (False, True)])
def test_a_kueue_with_other_fair_sharing_than_the_scenario_is_refused(wanted: bool, there: bool) -> None:
    fleet = replace(FLEET, preemption=Preemption(fair_sharing=wanted))
    [checked] = [one for one in KUEUE.real.prepare(setup(fleet), {}, LABELS, "ns") if one.check]
    assert checked.until == "Active"
    assert checked.check
    wrong = checked.check({"fairSharing": {}} if there else {})
    assert wrong
    assert f"the scenario has fair sharing {'on' if wanted else 'off'}" in wrong[0]
    assert checked.check({"fairSharing": {}} if wanted else {}) is None


def test_kueue_is_configured_with_fair_sharing_only_where_the_set_up_has_it() -> None:
    fair = replace(FLEET, preemption=Preemption(fair_sharing=True))
    assert "fairSharing" not in configuration(setup(), 1, 2)
    assert configuration(setup(fair), 1, 2)["fairSharing"]["preemptionStrategies"][0] == "LessThanOrEqualToFinalShare"


def rendered(workload: Workload) -> Mapping[str, Any]:
    [job] = [one for one in KUEUE.real.render(workload, LABELS) if one.resource.kind == "Job"]
    return job.body


def test_a_priority_is_a_label_of_the_job_and_no_class_of_its_pods() -> None:
    workload = Workload("w-0", "w", 0, 1, PodShape({"cpu": 1}, priority=50), SECOND, queue="red")
    [klass] = KUEUE.real.priority_classes(setup(), [50], LABELS, preempt=True)
    assert (klass.resource.kind, klass.body["value"]) == ("WorkloadPriorityClass", 50)
    body = rendered(workload)
    assert body["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == klass.name
    assert body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "red"
    assert "priorityClassName" not in body["spec"]["template"]["spec"]
    alone = rendered(structs.replace(workload, queue=""))
    assert "kueue.x-k8s.io/priority-class" not in alone["metadata"]["labels"]
    assert alone["spec"]["template"]["spec"]["priorityClassName"] == klass.name


@pytest.mark.parametrize(
    ("fleet", "own", "says"),
    [
        (FLEET, {"quota-cpu": "8"}, "this one has queues"),
        (replace(FLEET, preemption=Preemption(reclaim=ANY, while_borrowing=LOWER, fair_sharing=True)), {}, "no effect with fair"),
        (replace(FLEET, preemption=Preemption(while_borrowing=LOWER)), {}, "only where it may reclaim"),
        (replace(FLEET, flavors=(Flavor("a100", "oid"), Flavor("h100", "new"))), {}, "the set-up has old, new"),
    ],
)  # fmt: skip
def test_what_kueue_cannot_honour_is_refused_with_the_part_named(
    fleet: Fleet, own: dict[str, Scalar], says: str
) -> None:
    trial = Trial(1, "t", "local", setup(fleet, **own), {}, 1, 1, ())
    assert says in (KUEUE.refuses(trial) or "")
    assert KUEUE.refuses(replace(trial, setup=setup())) is None


# Conditions as Kueue v0.16.1 writes them.
AT, LATER = "2026-11-18T02:09:10Z", "2026-11-18T02:09:12Z"
MESSAGE = "Preempted to accommodate a workload (UID: uid-b, JobUID: job-b) due to …"


def conditions(**reasons: str) -> list[Condition]:
    return [Condition(kind, "True" if why else "False", why, MESSAGE, AT) for kind, why in reasons.items()]


def workload(name: str, said: list[Condition], evictions: int = 0) -> QueuedWorkload:
    stats = SchedulingStats([EvictionCount(evictions)])
    owner = OwnerReference("Job", name)
    return QueuedWorkload(Meta(uid=f"uid-{name}", owner_references=[owner]), WorkloadStatus(said, stats))


class Seen:
    """A ledger with the workloads a and b, and what watches of them show."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.ledger = directory, Ledger(KUEUE.stages, Segment(directory))
        self.observer, self._sight = Observer(self.ledger), WorkloadSight()
        for name in ("a", "b"):
            self.observer.workloads[name] = self.ledger.workload(self.ledger.phase("p"), 1)
        self.shows(1, "b", [])

    def shows(self, at: int, name: str, said: list[Condition], evictions: int = 0, event: str = "MODIFIED") -> None:
        self._sight.see(self.observer, at * SECOND, event, workload(name, said, evictions))

    def rows(self) -> list[tuple[Any, ...]]:
        self.ledger.close()
        return merging.read(self.directory, KUEUE.stages, []).evictions.select(
            pl.col("at_ns") // SECOND, "workload", "event", "reason", "by"
        ).rows()  # fmt: skip


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"Evicted": "Preempted", "Preempted": "InClusterQueue"}, PREEMPTED),
        ({"Evicted": "Preempted", "Preempted": "InCohortReclamation"}, RECLAIMED),
        ({"Evicted": "Preempted", "Preempted": "InCohortReclaimWhileBorrowing"}, RECLAIMED),
        ({"Evicted": "Preempted", "Preempted": "InCohortFairSharing"}, FAIR_SHARING),
        ({"Evicted": "PodsReadyTimeout"}, TIMED_OUT),
        ({"Evicted": "ClusterQueueStopped"}, OTHER),
    ],
)
def test_an_eviction_is_recorded_once_with_its_reason_and_who_gets_the_place(
    tmp_path: Path, said: dict[str, str], reason: str
) -> None:
    seen = Seen(tmp_path)
    seen.shows(2, "a", conditions(Admitted="Admitted"))
    seen.shows(3, "a", conditions(Admitted="Admitted", **said), 1)
    seen.shows(4, "a", conditions(Admitted="", **said), 1)
    seen.shows(5, "a", conditions(Admitted="", **said), 1, LISTED)
    assert seen.ledger.evicted == {0}
    assert seen.rows() == [(3, 0, "evicted", reason, 1)]


def test_two_evictions_within_a_second_are_two_and_an_admission_ends_each(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    out = conditions(Admitted="", Evicted="Preempted", Preempted="InClusterQueue")
    back = conditions(Admitted="Admitted", Evicted="", Preempted="")
    for at, (said, evictions) in enumerate([(out, 1), (back, 1), (back, 1), (out, 2), (back, 2)], 2):
        seen.shows(at, "a", said, evictions)
    assert not seen.ledger.evicted
    assert [(row[0], row[2]) for row in seen.rows()] == [
        (2, "evicted"), (3, "readmitted"), (5, "evicted"), (6, "readmitted"),
    ]  # fmt: skip


def test_a_first_admission_is_no_readmission(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    seen.shows(2, "a", conditions(Admitted="Admitted"))
    assert not seen.rows()
