"""A digest of our sources: two processes with the same one run the same program, wherever they found it."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import seatrial

# Packages after a trial: they read its directory, and what they write is made again at the end of every run.
AFTERWARDS = ("cli", "report")
READ = (".py", ".yaml", ".mod", ".json")


@cache
def code() -> str:
    """A digest of our sources."""
    package = Path(seatrial.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        inside = path.relative_to(package)
        if path.suffix in READ and inside.parts[0] not in AFTERWARDS:
            digest.update(f"{inside}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
