"""The image of real containers, made here: one program of ours (`programs/go/pod`) and nothing else, 2 MB."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

IMAGE = "seatrial.dev/none:latest"  # what the pods of all stacks ask for
_ENTRYPOINT = "/pod"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_archive(program: Path, target: Path) -> None:
    """An archive for `ctr images import`, of one layer with one file. The same program gives the same bytes."""
    layer = _tar({_ENTRYPOINT.lstrip("/"): program.read_bytes()})
    machine = os.uname().machine
    config: dict[str, Any] = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": {"Entrypoint": [_ENTRYPOINT]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    parts = {"config.json": _json(config), "layer.tar": layer, "manifest.json": _json(manifest)}
    target.write_bytes(_tar(parts))


def _json(what: Any) -> bytes:
    return json.dumps(what).encode()


def _tar(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()
