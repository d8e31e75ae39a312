"""What all tests share: running the command line as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Seatrial = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [sys.executable, "-m", "seatrial"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first: a mistake shows within seconds, not after the control planes."""
    items.sort(
        key=lambda item: (item.get_closest_marker("local") is not None, item.get_closest_marker("slow") is not None)
    )


@pytest.fixture
def seatrial(tmp_path: Path) -> Seatrial:
    """`seatrial("run", …)` in an empty directory; 80 columns, no terminal."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
        return subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=tmp_path,
            env={**plain, "COLUMNS": "80", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
