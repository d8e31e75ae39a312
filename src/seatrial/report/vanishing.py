"""What is shown only while one waits: on a terminal that can renew lines, and gone at the end."""

from __future__ import annotations

from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

PER_S = 8


class Vanishing:
    """Subclasses say what is to be seen now, from the first moment on (`view`). In a pipe and on a dumb terminal nothing is."""

    def __init__(self, console: Console) -> None:
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(
                console=console, get_renderable=self.view, refresh_per_second=PER_S, transient=True,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip

    @property
    def live(self) -> bool:
        return self._live is not None

    def view(self) -> RenderableType:
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._live:
            self._live.stop()
