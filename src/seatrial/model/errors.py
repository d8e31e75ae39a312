"""One small tree of errors. Each carries what to do about it, and the exit status the command ends with.

The command line prints `message`, then `remedy`, and never a traceback for these. A `SeatrialError` that reaches a user
without a remedy is a defect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_ECHO = 80  # characters of user input in a message


def cut(text: str) -> str:
    """User input for a message; of a very long text its beginning and its end."""
    if len(text) <= LONGEST_ECHO:
        return text
    half = LONGEST_ECHO // 2 - 1
    return f"{text[:half]} … {text[-half:]}"


class SeatrialError(Exception):
    """Root of everything we raise on purpose."""

    exit_status = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def lines(self) -> list[str]:
        """The message and its remedy, a line each."""
        return [self.message, *([self.remedy] if self.remedy else [])]


class UsageProblem(SeatrialError):
    """The command or the scenario is wrong."""

    exit_status = 2


class SetupProblem(SeatrialError):
    """The environment is wrong: no cluster, no binary, no disk space."""

    exit_status = 3


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong in a file: where, what, and what to write instead."""

    file: str
    line: int
    column: int
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.what}" + (f" ({self.remedy})" if self.remedy else "")


class ScenarioProblem(UsageProblem):
    """All mistakes of a scenario."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(str(m) for m in mistakes))
        self.mistakes = tuple(mistakes)
