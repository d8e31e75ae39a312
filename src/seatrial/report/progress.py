"""What happens while a study runs, for people who wait in front of it and for logs.

On a terminal a few live rows that vanish at the end (only what went wrong stays); elsewhere one plain line per finished
trial and now and then one on what runs. It writes to stderr: results go to stdout, a pipe must hold nothing but them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seatrial.report.durations import lasting, roughly
from seatrial.report.printing import print_line, printable
from seatrial.report.vanishing import Vanishing

FIRST_STATUS_S = 2.0  # nobody needs to be told what takes less
STATUS_EVERY_S = 5.0
LEAST = 0.05  # of a trial: with less done nothing is foretold
ROWS = 6  # running trials shown at a time


@dataclass
class _Running:
    since: float
    submitted: int = 0
    completed: int = 0
    of: int = 0
    virtual_s: float = 0.0
    requests: int = 0

    def __str__(self) -> str:
        """How far it is; empty before it has begun."""
        parts = [f"{self.completed} of {self.of} completed"] if self.of else []
        return ", ".join(parts + ([f"{self.requests:,} requests"] if self.requests else []))


class Progress(Vanishing):
    """Driven by whoever runs the trials: `started`, any number of `update`, `ended`.

    `update` may come from another thread, and late: of a trial that is not running any more it is ignored.
    """

    def __init__(
        self, trials: int, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console(stderr=True)
        self._trials = trials
        self._clock = clock
        self._running: dict[str, _Running] = {}
        self._ended = 0
        self._spent = 0.0  # by the trials that ended, in seconds
        self._began = clock()
        self._spoke = self._began - STATUS_EVERY_S + FIRST_STATUS_S
        super().__init__(self._console)

    def started(self, trial: str) -> None:
        self._running[trial] = _Running(self._clock())
        self._status()

    def update(self, trial: str, submitted: int, completed: int, of: int, virtual_s: float, requests: int = 0) -> None:
        if (running := self._running.get(trial)) is not None:
            running.submitted, running.completed, running.of, running.virtual_s = submitted, completed, of, virtual_s
            running.requests = requests
            self._status()

    def ended(self, trial: str, outcome: str, figures: Mapping[str, float | str | None] | None = None) -> None:
        running = self._running.pop(trial, None)
        self._ended += 1
        seconds = self._clock() - running.since if running else 0.0
        self._spent += seconds
        took = f"ran for {roughly(seconds)}" if seconds >= FIRST_STATUS_S else ""
        well = outcome == "completed" and (not figures or bool(figures.get("valid", True)))
        if not (self.live and well):
            self._say(self._sentence(trial, outcome, figures or {}, took), "" if well else "yellow")
        self._spoke = self._clock()

    def say(self, text: str) -> None:
        """A line of its own, above whatever is live: a finding, a set-up that is skipped."""
        self._say(text, "")

    def _sentence(self, name: str, outcome: str, figures: Mapping[str, float | str | None], took: str) -> str:
        parts = [outcome]
        if figures.get("submitted") is not None:
            of = figures.get("workloads", figures["submitted"])
            if of or not figures.get("requests"):
                parts.append(f"{figures['completed']} of {of} workloads completed")
        if isinstance(requests := figures.get("requests"), int | float):
            parts.append(f"{requests:,.0f} requests")
        if isinstance(total := figures.get("total_s"), int | float):
            parts.append(f"total {lasting(total, decimals=1)}")
        if figures and not figures.get("valid", True):
            parts.append("not to be trusted")
        parts += [took] if took else []
        place = f"{self._ended:{len(str(self._trials))}d}/{self._trials}"
        return f"[{place}] {name}: {', '.join(parts)}"

    def _status(self) -> None:
        """In a log: what runs, if nothing was said for a while."""
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
        """What a trial takes of the time that people wait, and what is left: by the trials that ended and, of those that run, the
        share of workloads that completed. Nothing before a twentieth of a trial is done."""
        elapsed = self._clock() - self._began
        done = self._ended + sum(min(t.completed / t.of, 1.0) for t in self._running.values() if t.of)
        told = [f"{roughly(self._spent / self._ended)} a trial"] if self._ended else []
        if done < LEAST or done >= self._trials:
            return told
        return [", ".join([*told, f"about {roughly(elapsed / done * (self._trials - done))} left"])]

    @property
    def standing(self) -> str:
        """How far it came, for one who interrupted it."""
        elapsed = roughly(self._clock() - self._began)
        return "; ".join([f"{self._ended} of {self._trials} trials ended after {elapsed}", *self._pace()])

    def _say(self, text: str, style: str) -> None:
        print_line(self._console, text, style)

    def view(self) -> RenderableType:
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
