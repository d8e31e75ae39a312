"""Output of commands: results to standard output, all else to standard error, less with `-q` and more with `-v`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from seatrial.model import diagnostics
from seatrial.model.errors import UsageProblem, cut

if TYPE_CHECKING:
    from rich.console import Console

VERBOSE: Any = typer.Option(
    0, "-v", "--verbose", count=True, show_default=False,
    help="Log started components and failed requests; -vv: every request. SEATRIAL_LOG does the same.",
)  # fmt: skip
QUIET: Any = typer.Option(False, "-q", "--quiet", help="No progress, no findings: only results and errors.")


def set_volume(verbose: int, quiet: bool) -> None:
    """Applies `-v` and `-q`, given before or after the command."""
    if quiet:
        diagnostics.be_quiet()
    diagnostics.raise_level(verbose)
    diagnostics.start_log()


def with_volume(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options `-v` and `-q`. A broken pipe (`| head`) ends it with 141: typer would make it 1, which is a
    failed expectation."""

    @functools.wraps(command)
    def louder(*args: Any, verbose: int, quiet: bool, **kwargs: Any) -> None:
        set_volume(verbose, quiet)
        try:
            command(*args, **kwargs)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python prints another error at exit
            raise typer.Exit(141) from None

    signature = inspect.signature(command, eval_str=True)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, default, kind in (("verbose", VERBOSE, int), ("quiet", QUIET, bool))
    ]
    louder.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])  # type: ignore[attr-defined]
    louder.__annotations__ = {**command.__annotations__, "verbose": int, "quiet": bool}
    return louder


def progress_console() -> Console:
    """For progress and findings: silent with `-q`, without redrawn lines if a log goes to the same terminal."""
    from rich.console import Console

    plain = False if diagnostics.logs_to_terminal() else None
    return Console(stderr=True, highlight=False, quiet=diagnostics.is_quiet(), force_terminal=plain)


def error_console() -> Console:
    """For messages that `-q` does not silence."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Prints sentences as they are, a line each."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)


def print_wrapped(line: str, indent: int) -> None:
    """Prints a sentence: on a terminal wrapped to its width, later lines indented; in a pipe one line, for `grep`."""
    if sys.stdout.isatty():
        width = max(40, shutil.get_terminal_size().columns)
        line = textwrap.fill(
            line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
        )
    typer.echo(line.rstrip())


@contextlib.contextmanager
def nearest_named() -> Iterator[None]:
    """A problem of a trace with a name that is not there suggests the nearest."""
    from seatrial.scenario.nearest import remedy_for
    from seatrial.traces.problem import TraceProblem

    try:
        yield
    except TraceProblem as problem:
        if problem.known:
            raise UsageProblem(problem.message, remedy_for(problem.name, problem.known)) from None
        raise


def check_file(option: str, path: Path | None) -> None:
    """Refuses, before the run, a file that cannot be written."""
    if path is None:
        return
    try:
        if path.is_dir():
            raise UsageProblem(f"{option} {path} is a directory", "name a file")
        if not path.parent.is_dir():
            raise UsageProblem(
                f"{option} {path}: there is no directory {path.parent}",
                f"make it (mkdir -p {path.parent}), or name another",
            )
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UsageProblem(f"{option} {path} cannot be written", "name another file")
    except OSError as error:
        raise UsageProblem(f"{option} {cut(str(path))}: {error.strerror}", "name another file") from None


def bare_name(file: Path) -> str:
    """Name of a trace without its ending, also of a gzipped one. Other dots stay: `KTH-SP2-1996-2.1-cln.swf` has one."""
    return Path(file.name.removesuffix(".gz")).stem


def study_directory(given: Path | None, option: Path | None) -> Path:
    """The study that a command works on: `-o OUT`, or OUT as an argument."""
    if given is not None and option is not None and given != option:
        raise UsageProblem(f"two study directories: {given} and -o {option}", "name one of them")
    if given is None and option is None:
        raise UsageProblem("no study directory", "name it with -o OUT")
    return given or option or Path()


OUT_ARGUMENT: Any = typer.Argument(None, metavar="[OUT]", help="The same as -o OUT.", show_default=False)
OUT_OPTION: Any = typer.Option(None, "-o", "--out", metavar="OUT", help="The study directory.", show_default=False)
