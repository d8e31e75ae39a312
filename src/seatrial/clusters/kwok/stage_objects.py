"""The stages that KWOK plays on fake nodes and their pods: those of a scenario, the default ones, or the user's own.

A scenario says how long a fake kubelet takes (`create`, `start`); how long a pod runs is in an annotation of the pod.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.labels import DURATION_ANNOTATION, UNREADY_ANNOTATION
from seatrial.model.plan import NodeGroup, Span
from seatrial.model.units import MILLISECOND

Expression = dict[str, Any]  # one of a stage's matchExpressions


def default_stages() -> str:
    """Nodes are Ready and pods run at once; pods of Jobs complete after their annotation `seatrial.dev/duration`."""
    return Path(__file__).with_name("stages.yaml").read_text()


def read_stages(file: Path) -> str:
    """A file of the user's, checked: KWOK dies with a Go stack trace on anything that is not YAML with stages."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupProblem(f"{file} cannot be read: {error}", "Name a file with KWOK stages.") from error
    try:
        documents = [d for d in yaml.safe_load_all(text) if d]
    except yaml.YAMLError as error:
        raise UsageProblem(f"{file} is not YAML: {error}", "Correct it there.") from error
    if not any(isinstance(d, dict) and d.get("kind") == "Stage" for d in documents):
        raise UsageProblem(f"{file} has no KWOK stage", "It needs documents with `kind: Stage`.")
    return text


def stages(groups: Iterable[NodeGroup]) -> str:
    """All stages as YAML for KWOK. Groups with the same times share their stages."""
    alike: dict[tuple[Span, Span], list[str]] = {}
    for group in groups:
        alike.setdefault((group.create, group.start), []).append(group.name)
    documents: list[dict[str, Any]] = [_node_ready(), _complete(), _delete()]
    for number, ((create, start), names) in enumerate(alike.items()):
        only = [] if len(alike) == 1 else [_on_nodes_of(names)]
        documents += _begin(number, create, start, only)
    return "\n---\n".join(json.dumps(document, indent=1) for document in documents) + "\n"


def _begin(number: int, create: Span, start: Span, only: list[Expression]) -> Iterator[dict[str, Any]]:
    """Bound → container being created → running; without a `create` delay there is no middle step, as on `sim`."""
    waiting: Expression = {"key": '.status.conditions.[] | select( .type == "Initialized" ) | .status'}
    if create != Span():
        expressions: list[Expression] = [_pending(), {**waiting, "operator": "NotIn", "values": ["True"]}, *only]
        yield _stage(f"pod-create-{number}", expressions, _delay(create), {"statusTemplate": _CREATING})
        expressions = [_pending(), {**waiting, "operator": "In", "values": ["True"]}, *only]
    else:
        expressions = [_pending(), *only]
    yield _stage(f"pod-start-{number}", expressions, _delay(start), {"statusTemplate": _RUNNING})


def _node_ready() -> dict[str, Any]:
    """KWOK manages nodes only if it has a stage for them; this one sets Ready again if something took it away."""
    ready = {
        "key": '.status.conditions.[] | select( .type == "Ready" ) | .status',
        "operator": "NotIn",
        "values": ["True"],
    }
    marked = {"key": f'.metadata.annotations["{UNREADY_ANNOTATION}"]', "operator": "DoesNotExist"}
    spec = {"resourceRef": {"apiGroup": "v1", "kind": "Node"}, "selector": {"matchExpressions": [ready, marked]},
            "next": {"statusTemplate": _READY}}  # fmt: skip
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": "node-ready"}, "spec": spec}


def _complete() -> dict[str, Any]:
    expressions: list[Expression] = [
        {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
        {"key": f'.metadata.annotations["{DURATION_ANNOTATION}"]', "operator": "Exists"},
    ]
    delay = {"durationMilliseconds": 0,
             "durationFrom": {"expressionFrom": f'.metadata.annotations["{DURATION_ANNOTATION}"]'}}  # fmt: skip
    return _stage("pod-complete", expressions, delay, {"statusTemplate": _SUCCEEDED})


def _delete() -> dict[str, Any]:
    gone = [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}]
    return _stage("pod-delete", gone, None, {"finalizers": {"empty": True}, "delete": True})


def _stage(
    name: str, expressions: list[Expression], delay: dict[str, Any] | None, then: dict[str, Any]
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchExpressions": expressions},
    }
    if delay:
        spec["delay"] = delay
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {**spec, "next": then},
    }


def _pending() -> Expression:
    return {"key": ".metadata.deletionTimestamp // .status.phase", "operator": "In", "values": ["Pending"]}


def _on_nodes_of(groups: list[str]) -> dict[str, Any]:
    """Nodes are called GROUP-INDEX."""
    return {"key": '.spec.nodeName | sub("-[0-9]+$"; "")', "operator": "In", "values": groups}


def _delay(span: Span) -> dict[str, Any]:
    delay = {"durationMilliseconds": span.least // MILLISECOND}
    return {**delay, "jitterDurationMilliseconds": span.most // MILLISECOND} if span.most > span.least else delay


_READY = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
  message: {{ .message | Quote }}
  reason: {{ .reason | Quote }}
  status: {{ .status | Quote }}
  type: {{ .type | Quote }}
{{ end }}
phase: Running
"""
# A KWOK that starts sees a pod twice, in its first list and in that of the node, and plays the older copy last. Its patch must
# change the pod, else no event follows and the pod's next stage stays cancelled: hence the nanoseconds in a message.
_CREATING = """
{{ $now := Now }}
conditions:
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: Initialized}
- {lastTransitionTime: {{ $now | Quote }}, status: "False", type: Ready}
containerStatuses:
{{ range .spec.containers }}
- {image: {{ .image | Quote }}, name: {{ .name | Quote }}, ready: false, restartCount: 0,
   state: {waiting: {reason: ContainerCreating, message: {{ $now | Quote }}}}}
{{ end }}
phase: Pending
startTime: {{ $now | Quote }}
"""
_RUNNING = """
{{ $now := Now }}
conditions:
{{ range tuple "Initialized" "Ready" "ContainersReady" }}
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: {{ . | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- {image: {{ .image | Quote }}, name: {{ .name | Quote }}, ready: true, restartCount: 0,
   containerID: {{ $now | Quote }}, state: {running: {startedAt: {{ $now | Quote }}}}}
{{ end }}
phase: Running
startTime: {{ or .status.startTime $now | Quote }}
"""
_SUCCEEDED = """
{{ $now := Now }}
{{ $root := . }}
containerStatuses:
{{ range $index, $item := .spec.containers }}
{{ $origin := index $root.status.containerStatuses $index }}
- {image: {{ $item.image | Quote }}, name: {{ $item.name | Quote }}, ready: false, restartCount: 0, started: false,
   state: {terminated: {exitCode: 0, reason: Completed, finishedAt: {{ $now | Quote }},
                        startedAt: {{ $origin.state.running.startedAt | Quote }}}}}
{{ end }}
phase: Succeeded
"""
