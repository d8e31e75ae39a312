"""Waiting for another process that does the same work, and saying so."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from seatrial.clusters.local.places import cannot_write
from seatrial.clusters.local.progress import Progress


@contextlib.contextmanager
def waiting_lock(path: Path, what: str, progress: Progress) -> Iterator[None]:
    """Holds the file's lock; while somebody else does, says once in a while that we wait for them."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_write(path, what, error) from error
    try:
        waited = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited:
                    progress.begin(f"waiting for another process that makes {what}")
                waited = True
                progress.step()
                time.sleep(0.1)
        if waited:
            progress.done()
        yield
    finally:
        os.close(descriptor)
