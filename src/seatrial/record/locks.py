"""Locks on files and directories. The kernel releases them however the process ends."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE_S = 0.5  # `is_locked` of a reader holds the lock for microseconds
UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EBADF, errno.ENOSYS, errno.EINVAL)  # some network file systems


def is_locked(path: Path, flags: int = os.O_RDONLY) -> bool:
    """Whether a living process holds the lock."""
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class Locked(Exception):
    """Another living process holds the lock; `pid` is 0 where the system does not name it."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"held by process {pid}")
        self.pid = pid


@contextmanager
def hold(path: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Holds the lock of a file or directory; does nothing on a file system without locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _take(descriptor, path, patience_s)
        yield
    finally:
        os.close(descriptor)


def share(path: Path) -> None:
    """Shares the lock until this process ends: `hold` of another process waits for all who share it."""
    with suppress(OSError):  # a file system without locks
        fcntl.flock(os.open(path, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH)


def _take(descriptor: int, path: Path, patience_s: float) -> None:
    end = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise Locked(_holder(path)) from None
            time.sleep(0.01)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            return
        else:
            return


def _holder(path: Path) -> int:
    """The process that holds the lock, as Linux lists it; 0 elsewhere."""
    try:
        inode = str(path.stat().st_ino)
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        fields = line.split()  # 1: FLOCK ADVISORY WRITE 1234 fe:01:5678 0 EOF
        if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
            return int(fields[4])
    return 0
