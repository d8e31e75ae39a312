"""A kind of object of the Kubernetes API, as plain data: stacks name their kinds by it, `kube` makes requests from it."""

from __future__ import annotations

from urllib.parse import quote

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
        """As `apiVersion` in an object: `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Of one object, or of all in a namespace, or of all."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace:
            if not self.namespaced:
                raise UsageProblem(f"{self.kind} has no namespaces, but '{namespace}' was given", "omit it")
            path += f"/namespaces/{quote(namespace, safe='')}"
        elif name and self.namespaced:
            raise UsageProblem(f"{self.kind} '{name}' needs a namespace", "give its namespace")
        path += f"/{self.plural}"
        if name:
            path += f"/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path
