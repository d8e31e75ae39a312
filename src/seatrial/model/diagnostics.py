"""Logging (`-v`, SEATRIAL_LOG) and quiet mode (`-q`) of commands.

The log is the standard `logging` below the logger `seatrial`, and off by default. Headers, bodies and environments are never
logged: they hold tokens and keys.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from collections.abc import Sequence

from seatrial.model.errors import UsageProblem, cut

VARIABLE = "SEATRIAL_LOG"
LEVELS = ("warning", "info", "debug")
_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"
_SECRET = re.compile(r"(?i)(token|password|passwd|secret|credential|api-?key)")
_FILE = re.compile(r"(?i)(file|dir|path|name|ttl|config|lookup|issuer|audiences|mode)$")  # options that are not secrets

logging.getLogger("seatrial").addHandler(logging.NullHandler())
_quiet = False


def be_quiet() -> None:
    """No progress and no findings from now on; results and errors stay."""
    global _quiet  # noqa: PLW0603
    _quiet = True


def is_quiet() -> bool:
    """Whether `-q` was given."""
    return _quiet


def logs_to_terminal() -> bool:
    """Whether log lines go to standard error, where redrawn progress lines would garble them."""
    return any(
        isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
        for handler in logging.getLogger("seatrial").handlers
    )


def raise_level(verbose: int) -> None:
    """Puts `-v` (info) or `-vv` (debug) into the environment, so that worker processes log the same; a file stays."""
    if verbose:
        _, _, file = os.environ.get(VARIABLE, "").partition(":")
        level = LEVELS[min(verbose, 2)]
        os.environ[VARIABLE] = f"{level}:{file}" if file else level


def start_log() -> None:
    """Starts the log that SEATRIAL_LOG asks for: `LEVEL` to standard error, or `LEVEL:FILE` appended to a file."""
    level, _, file = os.environ.get(VARIABLE, "").partition(":")
    if not level:
        return
    if level.lower() not in LEVELS:
        raise UsageProblem(f"{VARIABLE}={cut(level)}: no such level", f"choose {', '.join(LEVELS)}, or LEVEL:FILE")
    logger = logging.getLogger("seatrial")
    logger.setLevel(level.upper())
    for old in logger.handlers[1:]:
        logger.removeHandler(old)
    try:
        handler = logging.FileHandler(file, encoding="utf-8") if file else logging.StreamHandler(sys.stderr)
    except OSError as error:
        raise UsageProblem(f"{VARIABLE}: {cut(file)}: {error.strerror}", "name a file that can be written") from None
    handler.setFormatter(logging.Formatter(_FORMAT, "%Y-%m-%dT%H:%M:%S"))
    logger.addHandler(handler)


def command_line(words: Sequence[str]) -> str:
    """A command line for the log, with values of secret-like options masked."""
    shown: list[str] = []
    hide_next = False
    for word in words:
        option, equals, _ = word.partition("=")
        secret = option.startswith("-") and bool(_SECRET.search(option)) and not _FILE.search(option)
        shown.append(
            "***" if hide_next and not word.startswith("-") else f"{option}=***" if secret and equals else word
        )
        hide_next = secret and not equals
    return shlex.join(shown)
