"""A trial directory as bytes, on its way from the machine where the trial ran.

`trial.json` is written last: until then the directory is one that did not end, and `--resume` runs its trial again.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath

from seatrial.model.errors import SetupProblem
from seatrial.record.files import atomic_write
from seatrial.record.layout import TRIAL

LEVEL = 1  # of gzip: JSON lines shrink to a sixth, Parquet is compressed already


def pack(directory: Path) -> bytes:
    """All files of a trial."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=LEVEL) as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and not path.is_symlink():
                archive.add(path, str(path.relative_to(directory)), recursive=False)
    return packed.getvalue()


def unpack(packed: bytes, directory: Path) -> None:
    """Writes the files into a new directory; a name that leads out of it is refused."""
    directory.mkdir(parents=True)
    last: tuple[Path, bytes] | None = None
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        for member in archive:
            data = archive.extractfile(member)
            path = directory / _inside(member.name)
            if data is None:
                raise SetupProblem(f"{member.name} of a trial is no file", "which machine sent that?")
            if path == directory / TRIAL:
                last = path, data.read()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.read())
            path.chmod(member.mode & 0o777)
    if last:
        with atomic_write(last[0]) as part:
            part.write_bytes(last[1])


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SetupProblem(f"{name} of a trial leads out of its directory", "which machine sent that?")
    return path
