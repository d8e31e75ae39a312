"""Files that a command writes at its end: what is wrong with such a name is said before anything is run."""

from __future__ import annotations

import os
from pathlib import Path

from seatrial.model.errors import UsageProblem, cut


def check_file(option: str, path: Path | None) -> None:
    """Refuses a file that could not be written."""
    if path is None:
        return
    try:
        if path.is_dir():
            raise UsageProblem(f"{option} {path} is a directory", "name a file")
        if not path.parent.is_dir():
            raise UsageProblem(
                f"{option} {path}: there is no directory {path.parent}",
                f"make it (mkdir -p {path.parent}), or name another",
            )
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UsageProblem(f"{option} {path} cannot be written", "name another file")
    except OSError as error:
        raise UsageProblem(f"{option} {cut(str(path))}: {error.strerror}", "name another file") from None
