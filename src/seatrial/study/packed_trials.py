"""A trial directory as bytes, on its way from the machine where the trial ran.

`trial.json` is written last: until then the directory is one that did not end, and `--resume` runs its trial again. Files that are
compressed already are stored: to squeeze a quarter out of Parquet cost three times as much as everything else.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path, PurePosixPath

from seatrial.model.errors import SetupProblem
from seatrial.record.files import atomic_write
from seatrial.record.layout import TRIAL

LEVEL = 1  # JSON lines shrink to a seventh
COMPRESSED = (".parquet", ".gz")


def pack(directory: Path) -> bytes:
    """All files of a trial."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compresslevel=LEVEL) as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and not path.is_symlink():
                kind = zipfile.ZIP_STORED if path.suffix in COMPRESSED else zipfile.ZIP_DEFLATED
                archive.write(path, str(path.relative_to(directory)), kind)
    return packed.getvalue()


def unpack(packed: bytes, directory: Path) -> None:
    """Writes the files into a new directory; a name that leads out of it is refused."""
    directory.mkdir(parents=True)
    last: tuple[Path, bytes] | None = None
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        for member in archive.infolist():
            path = directory / _inside(member.filename)
            data = archive.read(member)
            if path == directory / TRIAL:
                last = path, data
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(member.external_attr >> 16 & 0o777)
    if last:
        with atomic_write(last[0]) as part:
            part.write_bytes(last[1])


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SetupProblem(f"{name} of a trial leads out of its directory", "which machine sent that?")
    return path
