"""A phase's manifests as text with placeholders: filling one in takes about 2 µs, encoding the object again takes 30."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from seatrial.kube.resources import APPLY, MERGE, STRATEGIC, Request, Resource
from seatrial.model.labels import PHASE_LABEL
from seatrial.scenario.actions.send_requests import Requests

_METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}
_PATCHES = {"merge": MERGE, "strategic": STRATEGIC, "apply": APPLY}
_DELETE = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """One request of an item, with placeholders for the item's number and namespace."""

    verb: str
    resource: str  # as in the audit log
    method: str
    path: str
    content_type: str
    body: bytes
    keep: bool  # whether the body of the answer is wanted

    def request(self, number: int, namespace: str, timeout: float, more: str = "") -> Request:
        """The request of one item; `more` is appended to the query."""
        path = self.path % {"i": number, "namespace": namespace} + more
        body = self.body and self.body % {b"i": b"%d" % number, b"namespace": namespace.encode()}
        return Request(self.verb, self.resource, self.method, path, body, self.content_type, self.keep, timeout)


def template_of(
    phase: Requests, manifest: Mapping[str, Any], resource: Resource, labels: Mapping[str, str]
) -> RequestTemplate:
    """The request of `phase` for this manifest. `labels` are the study's."""
    verb = phase.verb
    named = verb in ("update", "patch", "get", "delete")
    namespace = "${namespace}" if resource.namespaced and phase.namespaces else ""
    path = resource.path(namespace and "NAMESPACE").replace("NAMESPACE", namespace)
    name = str((manifest.get("metadata") or {}).get("name", ""))
    if named:
        path += f"/{quote(name, safe='${}')}"
    path += _query(phase, labels)
    body: Any = None
    content_type = "application/json"
    own = {**labels, PHASE_LABEL: phase.of or phase.name}
    if verb in ("create", "update"):
        body = _merged(marked(manifest, own), phase.change or {})
    elif verb == "patch":
        content_type = _PATCHES[phase.how]
        body = dict(phase.change or {})
        if phase.how == "apply":
            body = {**body, "apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}
            body["metadata"] = {**body.get("metadata", {}), "name": name}
    elif verb in ("delete", "deletecollection"):
        body = _DELETE
    encoded = msgspec.json.encode(body) if body is not None else b""
    return RequestTemplate(
        verb,
        resource.plural,
        _METHODS.get(verb, "GET"),
        placeholders(path.encode(), 0).decode(),
        content_type,
        placeholders(encoded, phase.payload),
        verb == "list" and phase.limit > 0,
    )


def placeholders(text: bytes, payload: int) -> bytes:
    """`${i}` and `${namespace}` become placeholders of % formatting; `${payload}` is filled in."""
    text = text.replace(b"%", b"%%").replace(b"${i}", b"%(i)s").replace(b"${namespace}", b"%(namespace)s")
    return text.replace(b"${payload}", filling(payload)) if payload else text


def filling(length: int) -> bytes:
    """The same text every time, which compresses badly and needs no escaping in JSON or % formatting."""
    block, text = b"seatrial", b""
    while len(text) < length:
        block = hashlib.sha256(block).digest()
        text += base64.b32encode(block).rstrip(b"=")
    return text[:length]


def marked(manifest: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """The manifest with our labels, in its pod template too."""
    marked = _labelled(manifest, labels)
    spec = marked.get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    if isinstance(spec, Mapping) and isinstance(template, Mapping):
        marked["spec"] = {**spec, "template": _labelled(template, labels)}
    return marked


def _labelled(thing: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    metadata = dict(thing.get("metadata") or {})
    return {**thing, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        inner = merged.get(key)
        merged[key] = _merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return merged


def _query(phase: Requests, labels: Mapping[str, str]) -> str:
    """Requests for all objects of a kind select those of the phase in `of`, if it is given."""
    query: dict[str, object] = {}
    if phase.verb in ("list", "watch", "deletecollection") and phase.of:
        query["labelSelector"] = ",".join(f"{k}={v}" for k, v in {**labels, PHASE_LABEL: phase.of}.items())
    if phase.verb == "list":
        query |= {"resourceVersion": "0"} if phase.cached else {}
        query |= {"limit": phase.limit} if phase.limit else {}
    if phase.verb == "patch" and phase.how == "apply":
        query |= {"fieldManager": "seatrial", "force": "true"}
    if phase.verb == "watch":
        query["watch"] = "true"
    return f"?{urlencode(query)}" if query else ""
