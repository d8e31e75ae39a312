"""Our directories on this machine, by the XDG conventions: one per local cluster, and a cache for programs.

Everything a cluster owns is in its directory (mode 0700): removing it removes the cluster.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from seatrial.model.errors import SetupProblem, UsageProblem

USER = "seatrial"  # the identity that the user and the load act as
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?")


def cache_root() -> Path:
    """The cache of rebuildable files: programs, a Go tool chain."""
    return _base("XDG_CACHE_HOME", ".cache") / "seatrial"


def clusters_root() -> Path:
    """Running clusters: a directory per cluster."""
    return _base("XDG_STATE_HOME", ".local/state") / "seatrial" / "clusters"


def salts_root() -> Path:
    """For the salts of recordings: beside them, anyone who gets a recording could find out its names."""
    return _base("XDG_STATE_HOME", ".local/state") / "seatrial" / "salts"


def _base(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    if value and Path(value).is_absolute():  # the convention says to ignore a relative path
        return Path(value)
    try:
        return Path.home() / default
    except RuntimeError:
        raise SetupProblem("there is no home directory", f"Set HOME or {variable}.") from None


def check_name(name: str) -> str:
    """Refuses what cannot be the name of a cluster."""
    if not _NAME.fullmatch(name):
        raise UsageProblem(
            f"'{name}' cannot be the name of a cluster",
            "Use at most 42 lower-case letters, digits, '-' and '.', with a letter or digit at both ends.",
        )
    return name


def make_directory(path: Path, what: str) -> Path:
    """Makes the directory, for the owner alone."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, what, error) from error
    return path


def cannot_write(path: Path, what: str, error: OSError) -> SetupProblem:
    """The error to raise, with what to do."""
    return SetupProblem(
        f"cannot write {what} to {path}: {error.strerror}",
        "Make room or make it writable, or set XDG_CACHE_HOME and XDG_STATE_HOME to writable directories.",
    )


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only the owner can read, from the first moment on, whatever the umask."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        raise SetupProblem(f"cannot write {path}: {error.strerror}", "Make room or make it writable.") from error


class Layout:
    """The files in a cluster's directory. Programs run in it, so their arguments name files without a path."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.name = directory, directory.name
        self.lock = directory / "lock"
        self.state = directory / "state.json"
        self.pki, self.logs = directory / "pki", directory / "logs"
        self.ca = self.pki / "ca.crt"
        self.audit_log = directory / "audit.log"

    def log(self, component: str) -> Path:
        """Output of a component."""
        return self.logs / f"{component}.log"

    def certificate(self, identity: str) -> Path:
        """Certificate of an identity, or one to serve with."""
        return self.pki / f"{identity}.crt"

    def key(self, identity: str) -> Path:
        """Private key to the certificate of the same name."""
        return self.pki / f"{identity}.key"

    def kubeconfig(self, identity: str = USER) -> Path:
        """The kubeconfig of an identity."""
        return self.directory / "kubeconfig" / f"{identity}.yaml"
