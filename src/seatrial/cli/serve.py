"""`seatrial serve`: a local page over all studies of a directory."""

from __future__ import annotations

from pathlib import Path

import typer


def serve(
    directory: Path = typer.Argument(Path("out"), metavar="[DIR]", help="The directory of the studies."),
    port: int = typer.Option(
        0, "--port", metavar="N", min=0, max=65535, help="Port on 127.0.0.1 [default: a free one]."
    ),
) -> None:
    """Show all studies below a directory in the browser: list, filter, open, compare, progress of running studies.

    Only this machine can reach it, and it changes nothing. Ctrl-C ends it.

    Example: seatrial serve out --port 8080
    """
    from seatrial.report.serving import StudyServer

    with StudyServer(directory, port) as server:
        typer.echo(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended", err=True)
