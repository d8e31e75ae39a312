"""What a process needs to be ours: Python, libraries, and our own code. Two processes with the same passport write the same bytes.

It is read on other machines before anything else of ours is imported there, so this module imports only the standard library and
a digest.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version

from seatrial import __version__
from seatrial.model.source_code import code

DECIDING = ("numpy", "polars")  # their versions decide over bytes: they draw numbers and write Parquet
ABSENT = "absent"


@cache
def passport() -> dict[str, str]:
    """Name of a part → its version; `ABSENT` for a library that we need and that is not installed."""
    python = ".".join(platform.python_version_tuple()[:2])
    libraries = {name: _version(name) for name in _needed()}
    shown = {name: found for name, found in libraries.items() if name in DECIDING or found == ABSENT}
    return {"Python": python, "seatrial": __version__, "the code of seatrial": code(), **shown}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """In words, in what another machine's passport differs from ours."""
    return [
        f"{name} is {there.get(name) or 'there'}, here {here.get(name) or 'there'}"
        for name in sorted({*here, *there})
        if here.get(name) != there.get(name)
    ]


def _needed() -> list[str]:
    """The distributions that we require, without those of extras."""
    found = (re.match(r"[\w.-]+", line) for line in requires("seatrial") or () if "extra ==" not in line)
    return sorted({match[0] for match in found if match})


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ABSENT
