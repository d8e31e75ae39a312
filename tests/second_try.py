"""Runs pytest; if at most two tests failed, each gets one second try, alone, and is named at the end in any case.

The real parts run on machines that others use too: 4,000 tests of which each fails once in ten thousand runs lose every third.
A test that passes only now is flaky, and that is a defect of the product or of the test: find out which. More than two failures get
no second try.

    python tests/second_try.py -n 2 --dist loadgroup -m local
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST = 2
FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: list[str]) -> int:
    """The exit status of pytest."""
    FAILED.unlink(missing_ok=True)
    status = _pytest(arguments)
    if status != 1:  # 1: tests failed; all else is no failure of a test
        return status
    failed = sorted(json.loads(FAILED.read_text()))
    if not 0 < len(failed) <= MOST or any("::" not in name for name in failed):
        return status
    print(f"\nSECOND TRY, alone, of what failed: {', '.join(failed)}", flush=True)
    status = _pytest(["-rs", "--timeout=600", *failed])
    if status == 0:
        print(f"FLAKY, passed in the second try; find out why: {', '.join(failed)}", flush=True)
    return status


def _pytest(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
