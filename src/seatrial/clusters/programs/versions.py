"""The same program at another version, so that releases can be compared as two set-ups of one scenario.

Our pinned go.mod is the pattern; `go mod tidy` resolves the dependencies of the other version, and Go verifies their sums
against the checksum database. The resulting folder stays in the cache, pinned like our own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from seatrial.clusters.programs.build_progress import BuildProgress, waiting_lock
from seatrial.clusters.programs.toolchain import Go, find_go
from seatrial.clusters.supervision.directories import cache_root, cannot_write, make_directory
from seatrial.model.control_plane import GoBinary
from seatrial.model.errors import SetupProblem, UsageProblem

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)((?:-[0-9A-Za-z.-]+)?)")
_REQUIRED = re.compile(r"^require (\S+) (\S+)$", re.MULTILINE)
_REPLACED = re.compile(r"^(?:\t|replace )(\S+) => (\S+) (\S+)$", re.MULTILINE)


def at_version(binary: GoBinary, version: str, progress: BuildProgress | None = None) -> GoBinary:
    """The program at `version`, ready to be built; resolving its dependencies needs the network once."""
    match = _VERSION.fullmatch(version)
    if not match:
        raise UsageProblem(f"{binary.name}: '{version}' is not a version", "Write it like v1.35.2.")
    wanted = "v" + version.removeprefix("v")
    pinned = (binary.module / "go.mod").read_text()
    required = _REQUIRED.search(pinned)
    assert required is not None, f"{binary.module} requires nothing"
    if required[2] == wanted:
        return binary
    folder = cache_root() / "modules" / f"{binary.name}-{wanted}"
    make_directory(folder.parent, "modules")
    progress = progress or BuildProgress()
    with waiting_lock(folder.with_name(f"{folder.name}.lock"), f"the sums of {binary.name} {wanted}", progress):
        if not (folder / "go.sum").exists():
            progress.begin(f"resolving {binary.name} {wanted}")
            _resolve(binary, folder, _go_mod(pinned, required[1], required[2], wanted), find_go(progress))
            progress.done()
    stamps = tuple((variable, _stamp(variable, value, match)) for variable, value in binary.stamps)
    return replace(binary, module=folder, stamps=stamps)


def _go_mod(pinned: str, module: str, before: str, wanted: str) -> str:
    """Only the requirement and the replacements; the rest follows. Staging modules change with it: 1.36.3 ⇒ 0.36.3."""
    staged, staged_wanted = (re.sub(r"^v1\.", "v0.", v) for v in (before, wanted))
    replacements = [
        f"\t{old} => {new} {staged_wanted if at == staged else at}" for old, new, at in _REPLACED.findall(pinned)
    ]
    block = "replace (\n" + "\n".join(replacements) + "\n)\n" if replacements else ""
    go = re.search(r"^go .*$", pinned, re.MULTILINE)
    return f"module seatrial.test/tool\n\n{go[0] if go else 'go 1.26.0'}\n\nrequire {module} {wanted}\n\n{block}"


def _stamp(variable: str, value: str, version: re.Match[str]) -> str:
    major, minor, patch, suffix = version.groups()
    parts = {"gitVersion": f"v{major}.{minor}.{patch}{suffix}", "gitMajor": major, "gitMinor": minor}
    return parts.get(variable.rpartition(".")[2], value)


def _resolve(binary: GoBinary, folder: Path, go_mod: str, go: Go) -> None:
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir()
        (part / "go.mod").write_text(go_mod)
        (part / "tools.go").write_text(f'//go:build tools\n\npackage tools\n\nimport _ "{binary.package}"\n')
        done = subprocess.run(
            [go.program, "mod", "tidy"],
            cwd=part, env={**go.env, "GOFLAGS": "-mod=mod"}, text=True, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            last = "\n".join(done.stderr.splitlines()[-8:])
            raise SetupProblem(
                f"{binary.name} is not available at this version\n{last}",
                "Check that the version exists and that the network works, or name a `binary` instead.",
            )
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except OSError as error:
        raise cannot_write(folder, "modules", error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
