"""Where things are on the user's machine: one directory per cluster, one cache for binaries, as the XDG conventions
have it.

Everything a cluster owns is inside its directory (mode 0700), which makes taking it down complete by removing one
folder.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from seatrial.model.errors import SetupProblem, UsageProblem

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?")


def cache_root() -> Path:
    """For what can be made again: binaries, a Go tool chain."""
    return _base("XDG_CACHE_HOME", ".cache") / "seatrial"


def clusters_root() -> Path:
    """For what runs now: a folder per cluster."""
    return _base("XDG_STATE_HOME", ".local/state") / "seatrial" / "clusters"


def _base(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    if value and Path(value).is_absolute():  # a relative one is to be ignored, says the convention
        return Path(value)
    try:
        return Path.home() / default
    except RuntimeError:
        raise SetupProblem("there is no home directory", f"Set HOME or {variable}.") from None


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageProblem(
            f"'{name}' cannot be the name of a cluster",
            "Use at most 42 lower-case letters, digits, '-' and '.', with a letter or digit at both ends.",
        )
    return name


def make_directory(path: Path, what: str) -> Path:
    """Makes the directory, for the owner alone; says what to do where that cannot be done."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, what, error) from error
    return path


def cannot_write(path: Path, what: str, error: OSError) -> SetupProblem:
    return SetupProblem(
        f"cannot write {what} to {path}: {error.strerror}",
        "Make room or make it writable, or set XDG_CACHE_HOME and XDG_STATE_HOME to places that are.",
    )


def write_private(path: Path, content: bytes) -> None:
    """Readable by the owner alone from the first moment on: no window with the umask's mode."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        raise SetupProblem(f"cannot write {path}: {error.strerror}", "Make room or make it writable.") from error


@dataclass(frozen=True, slots=True)
class Layout:
    """The inside of a cluster's directory. The programs run in it, so files are named without their path."""

    directory: Path

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def lock(self) -> Path:
        return self.directory / "lock"

    @property
    def state(self) -> Path:
        return self.directory / "state.json"

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    @property
    def ca(self) -> Path:
        return self.pki / "ca.crt"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def certificate(self, identity: str) -> Path:
        return self.pki / f"{identity}.crt"

    def key(self, identity: str) -> Path:
        return self.pki / f"{identity}.key"

    def kubeconfig(self, identity: str) -> Path:
        return self.directory / "kubeconfig" / f"{identity}.yaml"
