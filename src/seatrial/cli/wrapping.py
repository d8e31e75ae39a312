"""Sentences for people and for grep: on a terminal wrapped to its width, in a pipe one line each."""

from __future__ import annotations

import shutil
import sys
import textwrap

import typer


def tell(line: str, indent: int) -> None:
    """`indent` is where a second line begins, if there has to be one."""
    if sys.stdout.isatty():
        width = max(40, shutil.get_terminal_size().columns)
        line = textwrap.fill(
            line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
        )
    typer.echo(line.rstrip())
