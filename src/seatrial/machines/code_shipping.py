"""Our code for workers on other machines: a copy that travels with the job, so that they run exactly what the caller runs.

Ray unpacks each of these folders on every machine and puts it in front of what is installed there. The metadata are shipped too:
stacks are found through entry points.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import Distribution, distribution, entry_points
from pathlib import Path

import seatrial

OURS = "seatrial"
METADATA = ("METADATA", "entry_points.txt")


@contextmanager
def shipped(stacks: Sequence[str]) -> Iterator[list[str]]:
    """Folders for Ray's `py_modules`: seatrial, and the packages of others that bring these stacks."""
    with tempfile.TemporaryDirectory(prefix="seatrial-code-") as name:
        folder = Path(name)
        _copy(Path(seatrial.__file__).parent, folder)
        _write_metadata(distribution(OURS), folder)
        for point in entry_points(group="seatrial.stacks"):
            if point.name in stacks and point.dist is not None and point.dist.name != OURS:
                _copy(_source_of(point.value), folder)
                _write_metadata(point.dist, folder)
        yield [str(path) for path in sorted(folder.iterdir())]


def _source_of(value: str) -> Path:
    """The top-level package, or the single module, that an entry point is in."""
    spec = importlib.util.find_spec(value.partition(":")[0].partition(".")[0])
    assert spec is not None and spec.origin, value
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin


def _copy(source: Path, folder: Path) -> None:
    """Without bytecode: it would change the digest by which machines know what they have already."""
    if source.is_dir():
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    else:
        shutil.copy(source, folder)


def _write_metadata(found: Distribution, folder: Path) -> None:
    home = folder / f"{found.name.replace('-', '_')}-{found.version}.dist-info"
    home.mkdir(exist_ok=True)
    for name in METADATA:
        (home / name).write_text(found.read_text(name) or "")
