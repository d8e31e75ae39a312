"""How many inotify instances this user can still have.

Linux allows a user `fs.inotify.max_user_instances` of them, 128 by default, whatever the limit of open files is. A control plane
takes eight (counted below /proc/PID/fd: three each in the API server and the controller manager, two in kube-scheduler); without,
those look at their certificates from time to time. Volcano's scheduler and Kueue end with "too many open files" instead.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from seatrial.model.control_plane import Component
from seatrial.model.errors import SetupProblem

PLANE = 8
MOST = 3  # of a stack: Kueue's
LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
REMEDY = (
    "Raise it (`sysctl fs.inotify.max_user_instances=1024`, as root), or end other programs of this user that watch files: "
    "control planes (`seatrial cluster status`), editors, synchronisation of folders."
)


def free_instances(most: int) -> int:
    """How many more this user can have now, up to `most`: they are opened and closed again."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "inotify_init1"):
        return most  # not Linux
    opened: list[int] = []
    try:
        while len(opened) < most and (handle := library.inotify_init1(os.O_CLOEXEC)) >= 0:
            opened.append(handle)
    finally:
        for handle in opened:
            os.close(handle)
    return len(opened)


def too_few(free: int, needed: int) -> str:
    """The sentence about it."""
    limit = LIMIT.read_text().strip() if LIMIT.is_file() else "?"
    return f"{free} inotify instances are left to this user, and {needed} are needed (fs.inotify.max_user_instances is {limit})"


def check(components: Iterable[Component]) -> None:
    """Before anything is started: whether those that end without inotify get it after the control plane took what it takes."""
    watching = [component for component in components if component.must_watch]
    if not watching:
        return
    needed = PLANE + sum(component.must_watch for component in watching)
    free = free_instances(needed)
    if free < needed:
        raise SetupProblem(f"{', '.join(c.name for c in watching)}: {too_few(free, needed)}", REMEDY)
