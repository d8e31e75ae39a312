"""Lets tests import each other's ways of making studies as `tests.…`, however pytest was started."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
