"""Kinds of objects, their paths, and requests for them as data.

A `Request` has its verb and resource in the words of the audit log, so that our counts and the server's can be compared
line by line.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from seatrial.model import api_resource

Resource = api_resource.Resource  # the type is the model's: stacks and manifests name their kinds by it


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICES = Resource("", "v1", "services", "Service")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
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
JSON = "application/json"

RESEND, LOOK_UP, NEVER = "resend", "look up", "never"


class Request(msgspec.Struct, frozen=True, gc=False):
    """What to send. `if_lost` says what follows a lost answer: resend, look up whether it was carried out, or neither."""

    verb: str
    resource: str
    method: str
    path: str
    body: bytes = b""
    content_type: str = ""
    keep: bool = True  # the body of the answer; errors keep theirs anyway
    timeout: float = 0.0  # seconds; 0: the client's
    if_lost: str = RESEND
    name: str = ""  # of the object that a create makes

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def object_path(self) -> str:
        """Path of the object that a create makes."""
        return f"{self.path}/{quote(self.name, safe='')}"


def get(resource: Resource, name: str, namespace: str = "") -> Request:
    """Reads one object."""
    return Request("get", resource.plural, "GET", resource.path(namespace, name))


def listing(resource: Resource, namespace: str = "", **query: object) -> Request:
    """Lists objects. `query` as in the API: `limit`, `continue_`, `labelSelector`, `fieldSelector`, `resourceVersion`…"""
    return Request("list", resource.plural, "GET", resource.path(namespace) + _query(query))


def create(
    resource: Resource, body: object, name: str, namespace: str = "", *, keep: bool = True, subresource: str = ""
) -> Request:
    """Creates an object. Without a name (generateName, or a review) it cannot be looked up, so it is never resent."""
    path = resource.path(namespace) if not subresource else resource.path(namespace, name, subresource)
    plural, if_lost = _plural(resource, subresource), LOOK_UP if name and not subresource else NEVER
    return Request("create", plural, "POST", path, encode(body), JSON, keep, if_lost=if_lost, name=name)


def replace(resource: Resource, body: object, name: str, namespace: str = "") -> Request:
    """Replaces an object."""
    return Request("update", resource.plural, "PUT", resource.path(namespace, name), encode(body), JSON)


def patch(
    resource: Resource, body: object, name: str, namespace: str = "", *, how: str = MERGE, subresource: str = ""
) -> Request:
    """`how` is MERGE, STRATEGIC, APPLY or JSON_PATCH. A JSON patch is not idempotent, so it is never resent."""
    query = {"fieldManager": "seatrial", "force": True} if how == APPLY else {}
    path = resource.path(namespace, name, subresource) + _query(query)
    if_lost = NEVER if how == JSON_PATCH else RESEND
    return Request("patch", _plural(resource, subresource), "PATCH", path, encode(body), how, if_lost=if_lost)


def delete(
    resource: Resource, name: str, namespace: str = "", *, propagation: str = "Background", uid: str = ""
) -> Request:
    """Deletes an object; with `uid` only that one, not a later one of the same name."""
    path, options = resource.path(namespace, name), _delete_options(propagation, uid)
    return Request("delete", resource.plural, "DELETE", path, options, JSON, keep=False)


def delete_collection(resource: Resource, namespace: str = "", **query: object) -> Request:
    """Deletes all objects that `query` selects."""
    path, options = resource.path(namespace) + _query(query), _delete_options("Background", "")
    return Request("deletecollection", resource.plural, "DELETE", path, options, JSON, keep=False)


def encode(body: object) -> bytes:
    """An object as JSON; bytes are returned as they are."""
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def plural_of(kind: str) -> str:
    """The plural of a kind in paths, by the rule that nearly all follow."""
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "ch")) else f"{name}s"


def _plural(resource: Resource, subresource: str) -> str:
    return f"{resource.plural}/{subresource}" if subresource else resource.plural


def _query(query: dict[str, Any]) -> str:
    given = {key.rstrip("_"): _text(value) for key, value in query.items() if value not in ("", None, 0)}
    return f"?{urlencode(given)}" if given else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _delete_options(propagation: str, uid: str) -> bytes:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    if uid:
        options["preconditions"] = {"uid": uid}
    return msgspec.json.encode(options)
