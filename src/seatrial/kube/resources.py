"""Kinds of objects and the paths they live under, and requests for them as data.

A `Request` is made once and can be sent by any identity, measured, and sent again: it knows its verb and resource in
the words of the audit log, so that our counts and the server's can be compared line by line.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from seatrial.model.errors import UsageProblem


class Resource(msgspec.Struct, frozen=True):
    """One kind of object as the API serves it. The core group's name is empty."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Of one object, or of all in a namespace, or of all."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace:
            if not self.namespaced:
                raise UsageProblem(f"{self.kind} has no namespaces, but '{namespace}' was given", "leave it out")
            path += f"/namespaces/{quote(namespace, safe='')}"
        elif name and self.namespaced:
            raise UsageProblem(f"{self.kind} '{name}' needs a namespace", "give the namespace that it is in")
        path += f"/{self.plural}"
        if name:
            path += f"/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICES = Resource("", "v1", "services", "Service")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
JOBS = Resource("batch", "v1", "jobs", "Job")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"

RESEND, SETTLE, NEVER = "resend", "settle", "never"


class Request(msgspec.Struct, frozen=True, gc=False):
    """What to send. `again` says what a lost answer allows: send again, look first whether it was done, or neither."""

    verb: str
    resource: str
    method: str
    path: str
    body: bytes = b""
    content_type: str = ""
    keep: bool = True  # the answer's body, that is; errors keep theirs anyway
    timeout: float = 0.0  # 0: the client's
    again: str = RESEND
    name: str = ""  # of what a create makes

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def object_path(self) -> str:
        """Where to look for what a create made."""
        return f"{self.path}/{quote(self.name, safe='')}"


def get(resource: Resource, name: str, namespace: str = "", *, subresource: str = "", **query: object) -> Request:
    path = resource.path(namespace, name, subresource) + _query(query)
    return Request("get", _plural(resource, subresource), "GET", path)


def listing(resource: Resource, namespace: str = "", **query: object) -> Request:
    """`query` as the API has it: `limit`, `continue_`, `labelSelector`, `fieldSelector`, `resourceVersion`, …"""
    return Request("list", resource.plural, "GET", resource.path(namespace) + _query(query))


def create(
    resource: Resource, body: object, name: str, namespace: str = "", *, keep: bool = True, subresource: str = ""
) -> Request:
    """Without a name (generateName, or a review) a lost answer cannot be settled, so the request is never resent."""
    path = resource.path(namespace) if not subresource else resource.path(namespace, name, subresource)
    again = SETTLE if name and not subresource else NEVER
    return Request(
        "create", _plural(resource, subresource), "POST", path, encode(body), "application/json", keep, 0.0, again, name
    )


def replace(
    resource: Resource, body: object, name: str, namespace: str = "", *, subresource: str = "", keep: bool = True
) -> Request:
    path = resource.path(namespace, name, subresource)
    return Request("update", _plural(resource, subresource), "PUT", path, encode(body), "application/json", keep)


def patch(
    resource: Resource, body: object, name: str, namespace: str = "", *, how: str = MERGE, subresource: str = "",
    manager: str = "seatrial", force: bool = True, keep: bool = True,
) -> Request:  # fmt: skip
    """`how` is MERGE, STRATEGIC, APPLY or JSON_PATCH. A JSON patch is not resent: twice is not the same as once."""
    query = {"fieldManager": manager, "force": str(force).lower()} if how == APPLY else {}
    path = resource.path(namespace, name, subresource) + _query(query)
    again = NEVER if how == JSON_PATCH else RESEND
    return Request("patch", _plural(resource, subresource), "PATCH", path, encode(body), how, keep, 0.0, again)


def delete(
    resource: Resource, name: str, namespace: str = "", *, propagation: str = "Background", grace: int | None = None,
    uid: str = "",
) -> Request:  # fmt: skip
    return Request(
        "delete", resource.plural, "DELETE", resource.path(namespace, name), _delete_options(propagation, grace, uid),
        "application/json", keep=False,
    )  # fmt: skip


def delete_collection(
    resource: Resource,
    namespace: str = "",
    *,
    propagation: str = "Background",
    grace: int | None = None,
    **query: object,
) -> Request:
    return Request(
        "deletecollection", resource.plural, "DELETE", resource.path(namespace) + _query(query),
        _delete_options(propagation, grace, ""), "application/json", keep=False,
    )  # fmt: skip


def encode(body: object) -> bytes:
    """An object as JSON; bytes are taken to be that already."""
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _plural(resource: Resource, subresource: str) -> str:
    return f"{resource.plural}/{subresource}" if subresource else resource.plural


def _query(query: dict[str, Any]) -> str:
    given = {key.rstrip("_"): _text(value) for key, value in query.items() if value not in ("", None, 0)}
    return f"?{urlencode(given)}" if given else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _delete_options(propagation: str, grace: int | None, uid: str) -> bytes:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if uid:
        options["preconditions"] = {"uid": uid}
    return msgspec.json.encode(options)
