"""Files that a process locks as long as it lives: the kernel takes the lock back however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def is_locked(path: Path, flags: int = os.O_RDONLY) -> bool:
    """Whether a living process holds its lock."""
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
