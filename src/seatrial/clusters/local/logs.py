"""Shows the logs of several components as one stream, and follows them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO


def show(files: Sequence[Path], follow: bool) -> None:
    """One file as it is; of several, each line with the component's name in front."""
    width = max((len(file.stem) for file in files), default=0)
    opened = [(file.stem.ljust(width) + " | " if len(files) > 1 else "", file.open(errors="replace")) for file in files]
    try:
        _pour(opened)
        while follow:
            time.sleep(0.2)
            _pour(opened)
            sys.stdout.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        for _, stream in opened:
            stream.close()


def _pour(opened: Sequence[tuple[str, IO[str]]]) -> None:
    for prefix, stream in opened:
        for line in stream:
            sys.stdout.write(f"{prefix}{line}" if line.endswith("\n") else f"{prefix}{line}\n")
