"""Kubeconfig files, merged by kubectl's rules; every value keeps its file and line.

A wrong kubeconfig is the most common reason that nothing works, so the files are read as YAML nodes, not as plain
dictionaries, and errors begin with `~/.kube/config:12:`.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from seatrial.model.errors import SetupProblem

_CHECK = "compare with `kubectl config view`, or write the file again with the tool that made it"


class Section:
    """One mapping of a kubeconfig. Its getters check types and report file and line."""

    def __init__(self, file: Path, node: yaml.MappingNode) -> None:
        self.file = file
        self.place = f"{file}:{node.start_mark.line + 1}"
        self.node = node
        self._nodes = {str(key.value): value for key, value in node.value if isinstance(key, yaml.ScalarNode)}

    def where(self, *keys: str) -> str:
        """`file:line` of the first of these values that exists, else of the section."""
        for key in keys:
            if key in self._nodes:
                return f"{self.file}:{self._nodes[key].start_mark.line + 1}"
        return self.place

    def _wrong(self, key: str, what: str) -> SetupProblem:
        return SetupProblem(f"{self.where(key)}: '{key}' {what}", _CHECK)

    def _node(self, key: str) -> yaml.Node | None:
        node = self._nodes.get(key)
        return None if node is None or node.tag == "tag:yaml.org,2002:null" else node

    def text(self, key: str) -> str:
        """A scalar; empty if it is missing."""
        node = self._node(key)
        if node is None:
            return ""
        if not isinstance(node, yaml.ScalarNode):
            raise self._wrong(key, "must be text")
        return str(node.value)

    def flag(self, key: str) -> bool:
        """A boolean; false if it is missing."""
        text = self.text(key).lower()
        if text not in ("", "true", "false"):
            raise self._wrong(key, f"must be true or false, not '{text}'")
        return text == "true"

    def texts(self, key: str) -> list[str]:
        """A list of scalars; empty if it is missing."""
        node = self._node(key)
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode) or not all(isinstance(n, yaml.ScalarNode) for n in node.value):
            raise self._wrong(key, "must be a list of texts")
        return [str(n.value) for n in node.value]

    def section(self, key: str) -> Section | None:
        """A mapping."""
        node = self._node(key)
        if node is None:
            return None
        if not isinstance(node, yaml.MappingNode):
            raise self._wrong(key, "must be a mapping")
        return Section(self.file, node)

    def sections(self, key: str) -> list[Section]:
        """A list of mappings; empty if it is missing."""
        node = self._node(key)
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode) or not all(isinstance(n, yaml.MappingNode) for n in node.value):
            raise self._wrong(key, "must be a list of mappings")
        return [Section(self.file, n) for n in node.value]

    def names(self) -> list[str]:
        """The keys of the mapping."""
        return list(self._nodes)

    def path(self, key: str) -> Path | None:
        """A path, resolved relative to the kubeconfig file."""
        text = self.text(key)
        return self.file.parent / Path(text).expanduser() if text else None

    def data(self, key: str) -> bytes:
        """The content of `KEY-data`, else of the file named by `KEY`; empty if both are missing."""
        text = self.text(f"{key}-data")
        if text:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise SetupProblem(f"{self.where(f'{key}-data')}: '{key}-data' is not base64", _CHECK) from None
        path = self.path(key)
        if path is None:
            return b""
        try:
            return path.read_bytes()
        except OSError as error:
            raise SetupProblem(
                f"{self.where(key)}: '{key}' names {path}, which cannot be read: {error.strerror}",
                "restore the file, or log in to the cluster again: that writes the kubeconfig",
            ) from None


class Kubeconfig:
    """All files merged. The first file that defines a name or value wins, as with kubectl."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self.clusters: dict[str, Section] = {}
        self.users: dict[str, Section] = {}
        self.contexts: dict[str, Section] = {}
        self.current = ""
        self.files: list[Path] = []
        for section in sections:
            self.files.append(section.file)
            for key, inner, found in (("clusters", "cluster", self.clusters), ("users", "user", self.users),
                                      ("contexts", "context", self.contexts)):  # fmt: skip
                for name, entry in _named(section, key, inner).items():
                    found.setdefault(name, entry)
            self.current = self.current or section.text("current-context")

    def __str__(self) -> str:
        return ", ".join(str(file) for file in self.files)

    def context(self, name: str | None, *, must_name: bool = False) -> tuple[str, Section]:
        """The context of this name; without a name the current or the only context, unless `must_name`."""
        if not self.contexts:
            raise SetupProblem(f"{self} has no contexts", "name the kubeconfig that kubectl uses for the cluster")
        remedy = f"pass --context with one of: {', '.join(sorted(self.contexts))}"
        if not name and must_name:
            raise SetupProblem(f"no context named, and the current context of {self} is not used by default", remedy)
        name = name or self.current or (next(iter(self.contexts)) if len(self.contexts) == 1 else "")
        if not name:
            raise SetupProblem(f"no context named, and {self} has no current-context", remedy)
        if name not in self.contexts:
            raise _unknown("context", name, self.contexts, str(self))
        return name, self.contexts[name]

    def cluster(self, context: Section) -> tuple[str, Section]:
        """The cluster of a context, with its name."""
        return _referred("cluster", context, self.clusters)

    def user(self, context: Section) -> tuple[str, Section | None]:
        """The user of a context, with its name; None for anonymous access."""
        return _referred("user", context, self.users) if context.text("user") else ("", None)

    def alone(self, name: str) -> dict[str, Any]:
        """A kubeconfig with this context only, for a program of ours that acts as the same user.

        Values stay as written, so that plugins and token files work; paths become absolute.
        """
        _, context = self.context(name)
        cluster_name, cluster = self.cluster(context)
        user_name, user = self.user(context)
        users = [{"name": user_name, "user": _plain(user)}] if user is not None else []
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster_name, "cluster": _plain(cluster)}],
            "users": users,
            "contexts": [{"name": name, "context": _plain(context)}],
            "current-context": name,
        }


_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def _plain(section: Section) -> dict[str, Any]:
    data: dict[str, Any] = _data(section.node)
    for key in _PATHS:
        if data.get(key):
            data[key] = str((section.file.parent / Path(data[key]).expanduser()).absolute())
    plugin = data.get("exec")
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
        plugin["command"] = str((section.file.parent / plugin["command"]).absolute())
    return data


def _data(node: yaml.Node) -> Any:
    """Scalars stay text: a token of digits is not a number."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _data(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_data(item) for item in node.value]
    if node.tag == "tag:yaml.org,2002:null":
        return None
    return str(node.value).lower() == "true" if node.tag == "tag:yaml.org,2002:bool" else str(node.value)


def _referred(kind: str, context: Section, found: Mapping[str, Section]) -> tuple[str, Section]:
    name = context.text(kind)
    if not name:
        raise SetupProblem(f"{context.place}: the context has no '{kind}'", _CHECK)
    if name not in found:
        raise _unknown(kind, name, found, context.where(kind))
    return name, found[name]


def _unknown(kind: str, name: str, found: Mapping[str, Section], where: str) -> SetupProblem:
    near = difflib.get_close_matches(name, found, 1)
    have = ", ".join(sorted(found)) or f"(no {kind}s)"
    return SetupProblem(
        f"{where}: no {kind} '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""), f"it has: {have}"
    )


def _named(section: Section, key: str, inner: str) -> dict[str, Section]:
    found: dict[str, Section] = {}
    for entry in section.sections(key):
        name, content = entry.text("name"), entry.section(inner)
        if not name:
            raise SetupProblem(f"{entry.place}: an entry of '{key}' without a name", _CHECK)
        if name in found:
            raise SetupProblem(f"{entry.place}: duplicate '{name}' in '{key}'", "remove or rename one of them")
        if content is not None:
            found[name] = content
    return found


def read_kubeconfig(explicit: Path | None = None, environ: Mapping[str, str] | None = None) -> Kubeconfig:
    """The file given, else those of KUBECONFIG, else ~/.kube/config. Missing files of a list are skipped."""
    environ = os.environ if environ is None else environ
    if explicit is not None:
        files = [explicit]
    elif environ.get("KUBECONFIG"):
        files = [Path(name).expanduser() for name in environ["KUBECONFIG"].split(os.pathsep) if name]
    else:
        files = [Path(environ.get("HOME") or Path.home()) / ".kube" / "config"]
    there = [file for file in files if file.exists()]
    if not there:
        raise SetupProblem(
            f"no kubeconfig: {', '.join(str(f) for f in files)} "
            + ("does" if len(files) == 1 else "do")
            + " not exist",
            "pass --kubeconfig FILE or set KUBECONFIG; without a cluster `seatrial cluster up` makes one for --cluster",
        )
    return Kubeconfig([_read(file) for file in there])


def _read(file: Path) -> Section:
    try:
        node = yaml.compose(file.read_text("utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise SetupProblem(f"{file} cannot be read: {error.strerror}", "check its permissions") from None
    except UnicodeDecodeError:
        raise SetupProblem(f"{file} is not text in UTF-8", _CHECK) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "not YAML"
        raise SetupProblem(f"{file}:{mark.line + 1 if mark else 1}: malformed: {what}", _CHECK) from None
    if node is None:
        node = yaml.MappingNode("tag:yaml.org,2002:map", [], yaml.Mark(str(file), 0, 0, 0, None, 0))
    if not isinstance(node, yaml.MappingNode):
        raise SetupProblem(f"{file}:1: malformed: a kubeconfig is a mapping with clusters, users and contexts", _CHECK)
    section = Section(file, node)
    if section.text("kind") not in ("", "Config"):
        raise SetupProblem(f"{section.where('kind')}: this is a {section.text('kind')}, not a kubeconfig", _CHECK)
    return section
