"""A workload as a batch Job: what every stack creates, or puts into its own object."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from seatrial.kube.resources import CLAIMS, JOBS, SERVICES, Resource
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import (
    APPLICATION_ANNOTATION,
    CHECKPOINT_ANNOTATION,
    DURATION_ANNOTATION,
    GANG_LABEL,
    STUDY_LABEL,
    WORKLOAD_LABEL,
    priority_class,
)
from seatrial.model.plan import PodShape, Workload
from seatrial.model.units import MILLISECOND, SECOND, format_quantity

IMAGE = "seatrial.dev/none"  # fake nodes pull nothing
MOUNTED_AT = "/data"  # a workload's claim
_VOLUME = "seatrial-claim"


def api_object(
    resource: Resource, name: str, labels: Mapping[str, str], spec: Mapping[str, Any], until: str = ""
) -> Manifest:
    """One object with these labels and this spec."""
    meta = {"name": name, "labels": dict(labels)}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}
    return Manifest(resource, name, body, until)


def of_workload(resource: Resource, workload: Workload, labels: Mapping[str, str], spec: Mapping[str, Any]) -> Manifest:
    """An object named after the workload and marked as its own."""
    return api_object(resource, workload.name, {**labels, WORKLOAD_LABEL: workload.name}, spec)


def manifests(workload: Workload, labels: Mapping[str, str], scheduler: str = "") -> list[Manifest]:
    """A Job; a gang's with its Service."""
    return with_service(workload, labels, Manifest(JOBS, workload.name, job(workload, labels, scheduler)))


def with_service(workload: Workload, labels: Mapping[str, str], made: Manifest) -> list[Manifest]:
    """A gang gets a headless Service, by which its pods find each other, as a MiniCluster has."""
    if not workload.gang:
        return [made]
    spec = {"clusterIP": "None", "selector": {WORKLOAD_LABEL: workload.name}}
    return [of_workload(SERVICES, workload, labels, spec), made]


def in_group(
    workload: Workload,
    labels: Mapping[str, str],
    groups: Resource,
    spec: Mapping[str, Any],
    template: Mapping[str, Any],
) -> list[Manifest]:
    """A gang's group, created first, and its Job, whose pod template names the group by `template`."""
    made = manifests(workload, labels)
    if not workload.gang:
        return made
    named = [replace(m, body=with_template(m.body, template)) if m.resource == JOBS else m for m in made]
    return [of_workload(groups, workload, labels, spec), *named]


def priority_classes(
    kind: Resource, values: Sequence[int], labels: Mapping[str, str], more: Mapping[str, Any]
) -> list[Manifest]:
    """One object of this kind per value, with `more` fields, named after the study: such kinds are cluster-wide."""
    named = [(priority_class(labels.get(STUDY_LABEL, ""), value), value) for value in values]
    return [
        Manifest(
            kind,
            name,
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": name, "labels": dict(labels)},
                "value": value,
                **more,
                "description": "Made by seatrial for a trial; removed with it.",
            },
        )
        for name, value in named
    ]


def with_template(job: Mapping[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    """The Job's body with more in its pod template."""
    return _merged(job, {"spec": {"template": template}})


def claim(workload: Workload, labels: Mapping[str, str]) -> list[Manifest]:
    """The volume claim it requests, if any; created before its pods look for it."""
    return [] if workload.claim is None else [of_workload(CLAIMS, workload, labels, dict(workload.claim))]


def job(workload: Workload, labels: Mapping[str, str], scheduler: str = "") -> dict[str, Any]:
    """The Job's body: Indexed for a gang (its pods then have stable names) and for pods with checkpoints (the next pod of an index
    continues), else as `kubectl create job` makes it.

    How long a gang's pods run is known only once all of them run, and that of pods with checkpoints once they run: the player of
    the application tells them then. The user's overlay overrides everything but our labels and annotations, by which a workload
    is found.
    """
    own = {**labels, WORKLOAD_LABEL: workload.name}
    played = workload.gang or workload.checkpoint > 0
    spec: dict[str, Any] = {
        "parallelism": workload.pods,
        "completions": workload.pods,
        "backoffLimit": 100,
        "template": {
            "metadata": {"labels": dict(own), "annotations": _times(workload, played)},
            "spec": pod_spec(workload.shape, scheduler, workload.duration),
        },
    }
    if workload.shape.priority:
        name = priority_class(labels.get(STUDY_LABEL, ""), workload.shape.priority)
        spec["template"]["spec"]["priorityClassName"] = name
    if played:
        spec["completionMode"] = "Indexed"
        spec["template"]["metadata"]["labels"][GANG_LABEL] = str(workload.pods if workload.gang else 1)
    if workload.gang:
        spec["template"]["spec"]["subdomain"] = workload.name
    made: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": workload.name, "labels": own},
        "spec": spec,
    }
    if workload.overlay:
        made = _overlaid(made, workload.overlay)
    if workload.claim is not None:
        _mount(made["spec"]["template"]["spec"], workload.name)
    return made


def _times(workload: Workload, played: bool) -> dict[str, str]:
    """Annotations of its pods: how long they run, and how often that is saved."""
    if workload.interactive:
        return {}
    times = {APPLICATION_ANNOTATION if played else DURATION_ANNOTATION: duration_text(workload.duration)}
    return {**times, CHECKPOINT_ANNOTATION: duration_text(workload.checkpoint)} if workload.checkpoint else times


def _mount(spec: dict[str, Any], name: str) -> None:
    """Mounts the claim in every container. Lists are copied: those of the overlay are shared by all workloads."""
    volume = {"name": _VOLUME, "persistentVolumeClaim": {"claimName": name}}
    mount = {"name": _VOLUME, "mountPath": MOUNTED_AT}
    spec["volumes"] = [*spec.get("volumes", ()), volume]
    spec["containers"] = [
        {**container, "volumeMounts": [*container.get("volumeMounts", ()), mount]} for container in spec["containers"]
    ]


def _overlaid(made: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    marks = {"metadata": made["metadata"], "spec": {"template": {"metadata": made["spec"]["template"]["metadata"]}}}
    return _merged(_merged(made, overlay), marks)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings are merged, everything else (lists too) is replaced by a copy of what is in `above`."""
    result = dict(below)
    for key, value in above.items():
        inner: Any = result.get(key)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        result[key] = _merged(inner, value) if both else copy.deepcopy(value)
    return result


def pod_spec(shape: PodShape, scheduler: str = "", duration: int = 0) -> dict[str, Any]:
    """The spec of one pod; `duration` is what a real image sleeps."""
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [_container(shape, duration)],
        "tolerations": [_toleration(t.key, t.operator, t.value, t.effect) for t in shape.tolerations],
    }
    if scheduler:
        spec["schedulerName"] = scheduler
    if shape.selector:
        spec["nodeSelector"] = dict(shape.selector)
    affinity = _affinity(shape)
    if affinity:
        spec["affinity"] = affinity
    return spec


def _container(shape: PodShape, duration: int) -> dict[str, Any]:
    """A real image gets no cpu or memory limit: with a few millicores a container takes minutes to start."""
    amounts = {name: format_quantity(amount, name) for name, amount in shape.requests.items()}
    if not shape.image:
        # An image without a tag would be pulled for every pod, and kubelets pull five times a second.
        policy = {"imagePullPolicy": "IfNotPresent"}
        return {"name": "main", "image": IMAGE, **policy, "resources": {"requests": amounts, "limits": amounts}}
    limits = {name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")}
    command = ["sleep", f"{duration / SECOND:g}"]
    return {
        "name": "main",
        "image": shape.image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "resources": {"requests": amounts, "limits": limits},
    }


def _affinity(shape: PodShape) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    if shape.affinity or shape.terms:
        terms = [{"key": key, "operator": "In", "values": list(values)} for key, values in shape.affinity]
        terms += [
            {"key": term.key, "operator": term.operator, **({"values": list(term.values)} if term.values else {})}
            for term in shape.terms
        ]
        required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    if shape.spread:
        same = {"matchLabelKeys": ["batch.kubernetes.io/job-name"], "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchExpressions": [{"key": WORKLOAD_LABEL, "operator": "Exists"}]}}  # fmt: skip
        affinity["podAntiAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": same}]
        }
    return affinity


def _toleration(key: str, operator: str, value: str, effect: str) -> dict[str, str]:
    given = {"key": key, "operator": operator, "value": value, "effect": effect}
    return {name: text for name, text in given.items() if text}


def duration_text(nanoseconds: int) -> str:
    """As Go's time.ParseDuration takes it."""
    return f"{nanoseconds // MILLISECOND}ms"
