"""The logs of components: the end of one for an error message, or several shown and followed as one stream."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO


def show(files: Sequence[Path], follow: bool) -> None:
    """Prints one file as it is; of several files, each line with the component's name in front."""
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


def last_words(log: Path) -> str:
    """The last lines before a program died; of a Go program that panicked, those before its stack trace."""
    lines = tail(log, lines=1000, reach=65536).splitlines()
    trace = next((i for i, line in enumerate(lines) if line.startswith(("panic:", "goroutine "))), None)
    return "\n".join(lines[-15:] if trace is None else lines[: trace + 1][-15:])


def tail(log: Path, lines: int = 15, reach: int = 16384) -> str:
    """The last lines of a log; long lines are cut."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - reach))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line if len(line) <= 400 else line[:400] + " …" for line in text.splitlines()[-lines:])
