"""What a control plane consists of, as plain data that can be read, changed and only then started.

A stack amends these descriptions (another scheduler, one more controller, other flags) before anything runs, so they
must not depend on how they are run: this module imports nothing of seatrial and starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# Placeholder in objects for the certificate of the cluster's authority, which is made with the cluster.
CA_BUNDLE = "(the cluster's authority)"


@dataclass(frozen=True, slots=True)
class GoBinary:
    """A program that is an ordinary Go dependency: `module` is a folder with the go.mod and go.sum that pin it."""

    name: str
    module: Path
    package: str
    stamps: tuple[tuple[str, str], ...] = ()  # variable → value, set by the linker (`-X`)
    files: tuple[str, ...] = ()  # patterns below the package's Go module of what is kept beside the program (CRDs)
    replace: tuple[tuple[str, str, str], ...] = ()  # (file, old, new): built from a copy of the module with these texts


@dataclass(frozen=True, slots=True)
class Ready:
    """When a component is ready: it listens, and answers 200 on `path` (if there is one) within `deadline_s`.

    `port` 0 is whatever port the process itself chose. `socket` is a Unix socket in the cluster's directory.
    """

    path: str = ""
    port: int = 0
    socket: str = ""
    tls: bool = True
    deadline_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Component:
    """One process. It runs in the cluster's directory, so relative paths in `args` are relative to that."""

    name: str
    binary: GoBinary | Path
    args: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # started once these are ready, stopped before them
    ready: Ready | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    lock: str = ""  # a lock file of the process: another process that wants it is refused
    grace_s: float = 5.0  # between SIGTERM and SIGKILL
    must_watch: int = 0  # inotify instances without which it ends

    def flag(self, name: str, value: object) -> Component:
        """With the flag `name` set to `value`."""
        kept = tuple(a for a in self.args if a != name and not a.startswith(f"{name}="))
        return replace(self, args=(*kept, f"{name}={value}"))

    def value(self, name: str) -> str | None:
        """The value of a flag."""
        return next((a.partition("=")[2] for a in self.args if a.startswith(f"{name}=")), None)

    def gates(self, **gates: bool) -> Component:
        """With these feature gates added."""
        have = dict(pair.split("=", 1) for pair in (self.value("--feature-gates") or "").split(",") if pair)
        have.update({name: str(on).lower() for name, on in gates.items()})
        return self.flag("--feature-gates", ",".join(f"{k}={v}" for k, v in have.items()))


@dataclass(frozen=True, slots=True)
class Identity:
    """A user with a client certificate. `role` is a ClusterRole to bind, if any."""

    name: str
    user: str
    groups: tuple[str, ...] = ()
    role: str = ""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """All of it. `files` are written into the cluster's directory before anything starts; data becomes JSON."""

    url: str
    components: tuple[Component, ...]
    identities: tuple[Identity, ...]
    files: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict)
    objects: tuple[Mapping[str, Any], ...] = ()  # created by the administrator once the API server is ready
    manifests: tuple[GoBinary, ...] = ()  # programs whose `files` are created before these objects

    def component(self, name: str) -> Component:
        """The component of that name."""
        return next(c for c in self.components if c.name == name)

    def with_component(self, component: Component) -> ControlPlane:
        """With this component, replacing one of the same name."""
        if all(c.name != component.name for c in self.components):
            return replace(self, components=(*self.components, component))
        changed = tuple(component if c.name == component.name else c for c in self.components)
        return replace(self, components=changed)

    def without_component(self, name: str) -> ControlPlane:
        """Without the component of that name."""
        return replace(self, components=tuple(c for c in self.components if c.name != name))

    def with_file(self, name: str, content: str | Mapping[str, Any]) -> ControlPlane:
        """With a file in the cluster's directory; a mapping is written as YAML."""
        return replace(self, files={**self.files, name: content})

    def with_objects(self, *objects: Mapping[str, Any]) -> ControlPlane:
        """With objects that are applied once the API server is ready."""
        return replace(self, objects=(*self.objects, *objects))

    def with_manifests(self, binary: GoBinary) -> ControlPlane:
        """With everything in the program's `files`."""
        return replace(self, manifests=(*self.manifests, binary))

    def with_identity(self, identity: Identity) -> ControlPlane:
        """With a client certificate and a kubeconfig for this identity."""
        others = tuple(i for i in self.identities if i.name != identity.name)
        return replace(self, identities=(*others, identity))


@dataclass(frozen=True, slots=True)
class Override:
    """What a set-up names for one component: its own program or a version of ours, a configuration file, more flags."""

    binary: Path | None = None
    version: str = ""
    config: Path | None = None
    args: tuple[str, ...] = ()
