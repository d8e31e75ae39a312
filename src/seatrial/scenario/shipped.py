"""The scenarios that come with seatrial, and finding one by name or path."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import seatrial
from seatrial.model.errors import UsageProblem
from seatrial.scenario.nearest import remedy_for


class Shipped(NamedTuple):
    name: str
    about: str
    path: Path


def folder() -> Path:
    """Inside an installed package, or at the root of the checkout."""
    package = Path(seatrial.__file__).parent
    installed = package / "shipped"
    return installed if installed.is_dir() else package.parent.parent / "scenarios"


def files() -> dict[str, Path]:
    """Name → file. The name is the file's, so that looking one up reads none."""
    return {path.stem: path for path in sorted(folder().glob("*.yaml"))}


def shipped() -> list[Shipped]:
    from seatrial.scenario.document import read

    return [Shipped(name, read(path).about, path) for name, path in files().items()]


def find(where: str | Path) -> Path:
    """A file as given, else the scenario of that name that comes with seatrial.

    A directory of the same name (the output of the last run, most likely) does not hide it.
    """
    path = Path(where)
    known = files()
    try:
        if path.exists() and not (path.is_dir() and str(where) in known):
            return path
    except OSError as error:
        raise UsageProblem(
            f"{where}: {(error.strerror or str(error)).lower()}", "name a file that you can read"
        ) from None
    if str(where) in known:
        return known[str(where)]
    remedy = remedy_for(path.stem, known)
    raise UsageProblem(f"{where}: no such file, and no scenario of that name comes with seatrial", remedy)
