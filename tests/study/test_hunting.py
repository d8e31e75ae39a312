"""`make hunt`: the same properties on ten times as many cases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DRAWS = """
import atexit
import pytest
from hypothesis import given, settings, strategies as st

drawn = {"own": 0, "usual": 0}
atexit.register(lambda: print(f"drawn {drawn}", flush=True))

@pytest.mark.parametrize("twice", [1, 2])
@settings(max_examples=7, deadline=None)
@given(st.integers())
def test_with_a_number_of_its_own(twice, number):
    drawn["own"] += 1

@given(st.integers())
def test_with_the_usual_number(number):
    drawn["usual"] += 1
"""


def _drawn(folder: Path, *more: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", *more, "tests"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(line for line in done.stdout.splitlines() if line.startswith("drawn"))


def test_make_hunt_draws_ten_times_as_many_cases_of_every_property(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "any"
    folder.mkdir(parents=True)
    (folder / "test_draws.py").write_text(DRAWS)
    (tmp_path / "tests" / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: x\n    local: x\n")
    assert _drawn(tmp_path) == "drawn {'own': 14, 'usual': 100}"
    assert _drawn(tmp_path, "--hypothesis-profile", "hunt") == "drawn {'own': 140, 'usual': 1000}"
    assert "--hypothesis-profile hunt" in (ROOT / "Makefile").read_text()
