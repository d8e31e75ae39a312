"""Programs that end without inotify are not started where there is none left; whoever needs it is told before."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.clusters.supervision import inotify
from seatrial.clusters.supervision.supervisor import Supervisor
from seatrial.model.control_plane import Component, Ready
from seatrial.model.errors import SetupProblem

LIMITED = """
import os, resource
from seatrial.clusters.supervision import inotify
from seatrial.model.control_plane import Component
from pathlib import Path
held = len(os.listdir("/proc/self/fd")) - 1  # without the one that lists them
resource.setrlimit(resource.RLIMIT_NOFILE, (held + {left}, held + {left}))
{do}
"""
CHECK = (
    "inotify.check([Component('etcd', Path('a')), Component('watcher', Path('b'), must_watch={must})]); print('starts')"
)


def limited(left: int, do: str) -> subprocess.CompletedProcess[str]:
    """In a process that may open so many files more: an inotify instance is one."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED.format(left=left, do=do)], capture_output=True, text=True, check=False
    )


def test_it_counts_what_is_left_and_gives_it_back() -> None:
    twice = "print(inotify.free_instances(100), inotify.free_instances(100), inotify.free_instances(2))"
    assert limited(5, twice).stdout.split() == ["5", "5", "2"]


def test_a_program_that_watches_files_is_refused_before_the_start_and_told_what_to_do() -> None:
    refused = limited(inotify.PLANE, CHECK.format(must=1))
    assert "watcher: 8 inotify instances are left to this user, and 9 are needed" in refused.stderr
    assert "starts" in limited(inotify.PLANE + 1, CHECK.format(must=1)).stdout


def test_a_program_that_can_do_without_is_started() -> None:
    assert "starts" in limited(0, CHECK.format(must=0)).stdout


def test_one_that_ends_all_the_same_names_the_limit(tmp_path: Path) -> None:
    words = "import sys; sys.exit('panic: failed creating filewatcher: too many open files')"
    ends = Component("watcher", Path(sys.executable), ("-S", "-c", words), ready=Ready(), must_watch=1)

    async def main() -> None:
        supervisor = Supervisor(tmp_path, lambda name: tmp_path / f"{name}.log")
        with pytest.raises(SetupProblem) as problem:
            await supervisor.start([ends], {"watcher": Path(sys.executable)})
        assert "too many open files" in problem.value.message
        assert "fs.inotify.max_user_instances=1024" in problem.value.remedy

    asyncio.run(main())
