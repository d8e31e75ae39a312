"""Progress of a running study on stderr.

On a terminal a few rows are redrawn and removed at the end (failures stay); elsewhere one plain line per finished trial, and a
status line every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seatrial.report.durations import lasting, roughly
from seatrial.report.text_tables import print_line, printable

FIRST_STATUS_S = 2.0  # shorter times are not printed
STATUS_EVERY_S = 5.0
LEAST = 0.05  # of a trial: no estimate before this share is done
REDRAWS_PER_S = 8
ALMOST = 0.95  # of a trial: the most that elapsed time alone can claim
ROWS = 6  # running trials shown at a time


class LiveView:
    """Rows that are redrawn while the user waits and removed at the end; subclasses return them from `view`.

    Nothing is shown in a pipe or on a dumb terminal.
    """

    def __init__(self, console: Console) -> None:
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(
                console=console, get_renderable=self.view, refresh_per_second=REDRAWS_PER_S, transient=True,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip

    @property
    def live(self) -> bool:
        """Whether the terminal can redraw lines."""
        return self._live is not None

    def view(self) -> RenderableType:
        """What is shown now."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._live:
            self._live.stop()


@dataclass
class _RunningTrial:
    since: float
    submitted: int = 0
    completed: int = 0
    of: int = 0
    virtual_s: float = 0.0
    requests: int = 0

    def __str__(self) -> str:
        """Workloads completed; empty before the trial began."""
        parts = [f"{self.completed} of {self.of} completed"] if self.of else []
        return ", ".join(parts + ([f"{self.requests:,} requests"] if self.requests else []))


class Progress(LiveView):
    """Of all trials: for each the executor calls `started`, any number of times `update`, then `ended`.

    `update` may come late and from another thread; for a trial that has ended it is ignored.
    """

    def __init__(
        self, trials: int, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console(stderr=True)
        self._trials = trials
        self._clock = clock
        self._running: dict[str, _RunningTrial] = {}
        self._kept = 0  # trials of an earlier run
        self._ended = 0
        self._complete = 0  # of those that ended: not cut off, which says nothing of how long a trial takes
        self._spent = 0.0  # by these, in seconds
        self._began = clock()
        self._spoke = self._began - STATUS_EVERY_S + FIRST_STATUS_S
        super().__init__(self._console)

    def keep(self, trials: int) -> None:
        """Counts trials that are not run again."""
        self._kept, self._trials = trials, self._trials - trials
        self._say(f"{trials} of {trials + self._trials} trials have ended before and are not run again", "")

    def started(self, trial: str) -> None:
        """A trial begins."""
        self._running[trial] = _RunningTrial(self._clock())
        self._status()

    def update(self, trial: str, submitted: int, completed: int, of: int, virtual_s: float, requests: int = 0) -> None:
        """The progress of a trial."""
        if (running := self._running.get(trial)) is not None:
            running.submitted, running.completed, running.of, running.virtual_s = submitted, completed, of, virtual_s
            running.requests = requests
            self._status()

    def ended(self, trial: str, outcome: str, figures: Mapping[str, float | str | None] | None = None) -> None:
        """A trial ended; prints a line if the view is not live, or if the trial failed."""
        running = self._running.pop(trial, None)
        self._ended += 1
        seconds = self._clock() - running.since if running else 0.0
        if outcome != "interrupted":
            self._complete += 1
            self._spent += seconds
        took = f"ran for {roughly(seconds)}" if seconds >= FIRST_STATUS_S else ""
        well = outcome == "completed" and (
            not figures or (bool(figures.get("valid", True)) and not figures.get("failed"))
        )
        if not (self.live and well):
            self._say(self._sentence(trial, outcome, figures or {}, took), "" if well else "yellow")
        self._spoke = self._clock()

    def say(self, text: str) -> None:
        """Prints a line above the rows that are redrawn."""
        self._say(text, "")

    def _sentence(self, name: str, outcome: str, figures: Mapping[str, float | str | None], took: str) -> str:
        parts = [outcome]
        if figures.get("submitted") is not None:
            of = figures.get("workloads", figures["submitted"])
            if of or not figures.get("requests"):
                parts.append(f"{figures['completed']} of {of} workloads completed")
        if failed := figures.get("failed"):
            parts.append(f"{failed} failed")
        if isinstance(requests := figures.get("requests"), int | float):
            parts.append(f"{requests:,.0f} requests")
        if isinstance(total := figures.get("total_s"), int | float):
            parts.append(f"total {lasting(total, decimals=1)}")
        if figures and not figures.get("valid", True):
            parts.append("not to be trusted")
        parts += [took] if took else []
        of = self._kept + self._trials
        place = f"{self._kept + self._ended:{len(str(of))}d}/{of}"
        return f"[{place}] {name}: {', '.join(parts)}"

    def _status(self) -> None:
        """Prints a status line if nothing was printed for a while; not on a live terminal."""
        if self.live or (now := self._clock()) - self._spoke < STATUS_EVERY_S:
            return
        self._spoke = now
        running = list(self._running.items())
        told = [f"{name} {t} at {roughly(t.virtual_s)}" for name, t in running[:2] if str(t)]
        more = len(running) - len(told)
        told += [f"{more} more" if told else f"{more} running"] if more else []
        told = [", ".join(told), *self._pace()]
        self._say(
            f"{self._ended} of {self._trials} trials done after {roughly(now - self._began)}; {'; '.join(told)}", ""
        )

    def _pace(self) -> list[str]:
        """Wall-clock time per trial and time left, by ended trials and the progress of running ones; empty below `LEAST`."""
        elapsed = self._clock() - self._began
        done = self._complete + sum(self._share(trial) for trial in self._running.values())
        told = [f"{roughly(self._spent / self._complete)} a trial"] if self._complete else []
        if done < LEAST or done >= self._trials:
            return told
        return [", ".join([*told, f"about {roughly(elapsed / done * (self._trials - done))} left"])]

    def _share(self, trial: _RunningTrial) -> float:
        """The share of a running trial that is done, by its workloads or by the time of earlier trials, whichever is more."""
        by_workloads = min(trial.completed / trial.of, 1.0) if trial.of else 0.0
        usual = self._spent / self._complete if self._complete else 0.0
        by_time = min((self._clock() - trial.since) / usual, ALMOST) if usual else 0.0
        return max(by_workloads, by_time)

    @property
    def status(self) -> str:
        """Trials that ended, for a user who interrupts the study."""
        elapsed = roughly(self._clock() - self._began)
        return "; ".join([f"{self._complete} of {self._trials} trials ended after {elapsed}", *self._pace()])

    def _say(self, text: str, style: str) -> None:
        print_line(self._console, text, style)

    def view(self) -> RenderableType:
        """What is shown now."""
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=False)
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        table.add_column(width=18)
        table.add_column(justify="right", no_wrap=True)
        table.expand = True
        pace = "".join(f", {one}" for one in self._pace())
        done = Text(f"{self._ended} of {self._trials} trials, {roughly(self._clock() - self._began)}{pace}")
        table.add_row(Text("all", style="bold"), ProgressBar(max(self._trials, 1), self._ended), done)
        running = list(self._running.items())
        for name, trial in running[:ROWS]:
            state = Text(f"{trial}, at {roughly(trial.virtual_s)}" if str(trial) else "starts")
            table.add_row(printable(name), ProgressBar(max(trial.of, 1), trial.completed), state)
        rest = len(running) - ROWS
        return Group(table, Text(f"and {rest} more")) if rest > 0 else table
