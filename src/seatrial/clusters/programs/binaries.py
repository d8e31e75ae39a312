"""The programs of a cluster: ready-made ones if the user has them, else built once from pinned Go modules and cached.

The name of a cache entry is a hash of what determines the binary: the sums of the module's dependencies, our own sources, the Go
version, the platform and the flags. A binary appears under its name only when it is complete. Processes that need the same binary
at the same time build it once. Files of the module that a program needs beside it (its CRDs) are copied into the entry when it is
built.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from seatrial.clusters.programs.build_progress import BuildProgress, waiting_lock
from seatrial.clusters.programs.toolchain import Go, find_go
from seatrial.clusters.supervision.directories import cache_root, cannot_write, make_directory
from seatrial.clusters.supervision.spawning import tied_command
from seatrial.model.control_plane import GoBinary
from seatrial.model.errors import SetupProblem

_log = logging.getLogger(__name__)

ASSETS = "KUBEBUILDER_ASSETS"
_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")
_STRIP = "-s -w"
_NO_ROOM = "no space left on device"


def ensure_binaries(
    wanted: Sequence[GoBinary], given: Path | None = None, progress: BuildProgress | None = None
) -> dict[str, Path]:
    """Name → program, building what is missing.

    `given` (`--binaries`) must have all of them. The directory in KUBEBUILDER_ASSETS may have some: by convention it has no
    scheduler and no controller manager.
    """
    if given is not None:
        return _all_in(given.absolute(), wanted)
    found = _some_in(Path(os.environ[ASSETS]).absolute(), wanted) if os.environ.get(ASSETS) else {}
    missing = [binary for binary in wanted if binary.name not in found]
    return {**found, **_built(missing, progress or BuildProgress())} if missing else found


def _all_in(directory: Path, wanted: Sequence[GoBinary]) -> dict[str, Path]:
    found = _some_in(directory, wanted)
    missing = [binary.name for binary in wanted if binary.name not in found]
    if missing:
        raise SetupProblem(
            f"{directory} has no program called {' or '.join(missing)}",
            "Put all of them there under these names, or omit --binaries to have them built.",
        )
    return found


def _some_in(directory: Path, wanted: Sequence[GoBinary]) -> dict[str, Path]:
    paths = {binary.name: directory / binary.name for binary in wanted}
    return {name: path for name, path in paths.items() if path.is_file() and os.access(path, os.X_OK)}


def _built(wanted: Sequence[GoBinary], progress: BuildProgress) -> dict[str, Path]:
    go = find_go(progress)
    paths: dict[str, Path] = {}
    for number, binary in enumerate(wanted, 1):
        paths[binary.name] = path = cache_path(binary, go)
        if path.exists():
            continue
        make_directory(path.parent, "binaries")
        with waiting_lock(path.parent / "lock", binary.name, progress):
            if not path.exists():
                progress.begin(f"building {binary.name} ({number} of {len(wanted)})")
                _build(binary, go, path, progress)
                progress.done()
    return paths


def cache_path(binary: GoBinary, go: Go) -> Path:
    """Where the cache has the program, or will have it."""
    module = binary.module.parent if binary.module.name == "go" else binary.module
    return cache_root() / "bin" / f"{module.name}-{cache_key(binary, go)}" / binary.name


def cache_key(binary: GoBinary, go: Go) -> str:
    """Hash of everything that determines the binary."""
    parts = [(binary.module / name).read_bytes() for name in ("go.mod", "go.sum")]
    parts += [part.encode() for part in (go.version, go.platform, *_FLAGS, _ldflags(binary))]
    if binary.package == ".":  # a program of ours
        parts += [source.read_bytes() for source in sorted(binary.module.glob("*.go"))]
    parts += [part.encode() for part in (*binary.files, *(text for change in binary.replace for text in change))]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


def kept_files(binary: GoBinary, program: Path) -> list[Path]:
    """The files that `binary.files` names, from beside the program: in the cache, or in a directory of ready-made ones."""
    found = sorted((program.parent / f"{binary.name}.files").glob("*.yaml"))
    if binary.files and not found:
        raise SetupProblem(
            f"{program} comes without its manifests",
            f"Put those of its version ({', '.join(binary.files)}) into {program.parent / f'{binary.name}.files'}, or omit "
            "--binaries to have both built.",
        )
    return found


def _ldflags(binary: GoBinary) -> str:
    return " ".join([_STRIP, *(f"-X {variable}={value}" for variable, value in binary.stamps)])


def _build(binary: GoBinary, go: Go, path: Path, progress: BuildProgress) -> None:
    """Into a folder beside it, then renamed: a whole binary or none. We hold the lock, so older folders are stale."""
    for stale in path.parent.glob("build-*"):
        shutil.rmtree(stale, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent, ignore_cleanup_errors=True) as folder:
            result = Path(folder) / binary.name
            module = _patched(binary, go, Path(folder)) if binary.replace else binary.module
            status, output = _run_go(binary, go, module, result, progress)
            if status or not result.exists():
                progress.done("failed")
                raise _explain(binary, output, status)
            result.chmod(0o755)
            if binary.files:
                _keep_files(binary, go, path.parent / f"{binary.name}.files")
            result.replace(path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            raise cannot_write(path, binary.name, error) from error
        raise


def _keep_files(binary: GoBinary, go: Go, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    source = _module_of(binary, go)
    for pattern in binary.files:
        found = sorted(source.glob(pattern))
        if not found:
            raise SetupProblem(f"{binary.name}: its module has no {pattern}", "This is a defect of seatrial.")
        for file in found:
            shutil.copyfile(file, target / file.name)


def _module_of(binary: GoBinary, go: Go) -> Path:
    """The folder of the package's module in Go's cache."""
    asked = [str(go.program), "list", "-f", "{{.Module.Dir}}", binary.package]
    said = subprocess.run(
        asked, cwd=binary.module, env=go.env, capture_output=True, text=True, timeout=600, check=False
    )
    if said.returncode or not said.stdout.strip():
        raise _explain(binary, said.stderr, said.returncode)
    return Path(said.stdout.strip())


def _patched(binary: GoBinary, go: Go, folder: Path) -> Path:
    """A copy of our module folder that builds from a copy of the dependency with the texts replaced."""
    source, copy, module = _module_of(binary, go), folder / "source", folder / "module"
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    for made in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        made.chmod(0o755)  # Go's cache is read-only: without this only root could remove the copy
    for file, old, new in binary.replace:
        text = (copy / file).read_text()
        if old not in text:
            raise SetupProblem(f"{binary.name}: {file} has no {old!r} to replace", "This is a defect of seatrial.")
        (copy / file).write_text(text.replace(old, new))
    shutil.copytree(binary.module, module)
    named = ["list", "-f", "{{.Module.Path}}", binary.package]
    said = subprocess.run(
        [go.program, *named], cwd=binary.module, env=go.env, capture_output=True, text=True, check=True
    )
    change = f"-replace={said.stdout.strip()}={copy}"
    subprocess.run([go.program, "mod", "edit", change], cwd=module, env=go.env, capture_output=True, check=True)
    return module


def _run_go(binary: GoBinary, go: Go, module: Path, result: Path, progress: BuildProgress) -> tuple[int, str]:
    """Exit status and the last lines of output, through a pipe: a file would be empty when the disk is full."""
    arguments = ["build", *_FLAGS, "-ldflags", _ldflags(binary), "-o", str(result), binary.package]
    said: deque[str] = deque(maxlen=200)
    _log.info("building %s: %s", binary.name, shlex.join([str(go.program), *arguments]))
    with subprocess.Popen(
        tied_command(go.program, *arguments),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=module, env=go.env,
        text=True, errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout
        reader = threading.Thread(target=said.extend, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            while reader.is_alive():
                reader.join(0.5)
                progress.step()
            status = process.wait()
        except BaseException:
            process.kill()
            raise
    return status, "".join(said)


def _explain(binary: GoBinary, output: str, status: int) -> SetupProblem:
    last = "\n".join(output.splitlines()[-15:])
    if _NO_ROOM in output:
        return SetupProblem(
            f"the disk is full: {binary.name} could not be built\n{last}",
            f"Building takes about 3 GB in Go's caches (`go env GOCACHE GOMODCACHE`) and {cache_root()}; make room, "
            "or move them with GOCACHE, GOMODCACHE and XDG_CACHE_HOME.",
        )
    if "dial tcp" in output or "proxyconnect" in output or "TLS handshake" in output:
        return SetupProblem(
            f"the sources of {binary.name} could not be downloaded\n{last}",
            "Check the network, or set GOPROXY to a proxy for Go modules that this machine can reach.",
        )
    return SetupProblem(
        f"{binary.name} could not be built: go ended with status {status}\n{last}",
        f"Try it by hand: cd {binary.module} && CGO_ENABLED=0 go build {binary.package}. "
        "Or pass --binaries DIR with a ready-made one.",
    )
