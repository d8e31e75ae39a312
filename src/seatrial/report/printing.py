"""Text of others on our terminal: a name or message of a cluster may hold escape sequences, and rich lets them pass."""

from __future__ import annotations

import re

from rich.console import Console
from rich.text import Text

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and line feed


def printable(text: str, style: str = "") -> Text:
    """As it stands: no markup, no control characters."""
    return Text(CONTROL.sub("\N{REPLACEMENT CHARACTER}", text), style=style)


def print_line(console: Console, text: str, style: str = "") -> None:
    """Wrapped on a terminal; one line in a pipe, however long, for `grep` to find."""
    console.print(printable(text, style), soft_wrap=not console.is_terminal, highlight=False)
