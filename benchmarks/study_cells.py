"""Studies of a benchmark, a cell each: one scenario, one stack, one cluster. What is there already is not run again.

For fidelity.py and crowded.py. A cell is a folder CLUSTER-SCENARIO-STACK in the folder of `--keep`. A cell with the file
`cell.json` has ended; a study that was cut off is resumed, and `cell.log` says why a cell could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import polars as pl

STACKS = ("default", "coscheduling", "kueue", "gang", "mcad", "volcano", "yunikorn", "kai", "appwrapper")
SETUP, INTERRUPTED = 3, 130  # statuses of seatrial: could not begin; Ctrl-C
PROGRESS_S = 60.0


@dataclass(frozen=True)
class Case:
    """What is run of a scenario; `limit` ends a trial that would go on for minutes."""

    scenario: str
    arguments: tuple[str, ...] = ()
    limit: str = "3m"


@dataclass(frozen=True)
class Cell:
    """One study: `case` on `on` with `stack`, or with a set-up of the scenario that has it, so many repeats."""

    name: str
    case: Case
    stack: str
    on: str
    repeat: int
    kept: Path
    setup: str = ""

    @property
    def folder(self) -> Path:
        return self.kept / f"{self.on}-{self.name}-{self.setup or self.stack}"

    @property
    def key(self) -> str:
        """What was asked for: a cell that was run with something else is run again."""
        return shlex.join(self.command("OUT"))

    def command(self, out: str) -> list[str]:
        case = self.case
        which = ["--setup", self.setup] if self.setup else ["--stack", self.stack]
        asked = ["--on", self.on, *which, *case.arguments, "--repeat", str(self.repeat), "--limit", case.limit]
        return ["seatrial", "run", case.scenario, *asked, "-o", out]

    def note(self) -> dict[str, object] | None:
        """What was written when it was over."""
        file = self.folder / "cell.json"
        note: dict[str, object] | None = json.loads(file.read_text()) if file.is_file() else None
        return note if note and note["command"] == self.key else None

    def table(self, name: str = "summary.csv") -> pl.DataFrame | None:
        """Of the trials that ended; also of a cell that was cut off, if tables were made."""
        asked, file = self.folder / "asked.txt", self.folder / "study" / name
        if not (asked.is_file() and asked.read_text() == self.key and file.is_file()):
            return None
        table = pl.read_csv(file, infer_schema_length=None)
        return table.filter(pl.col("outcome") != "interrupted") if "outcome" in table.columns else table

    def problem(self) -> str:
        """Why it could not be run: the first line of the error."""
        log = self.folder / "cell.log"
        lines = log.read_text().splitlines() if log.is_file() else []
        left_out = [line.partition(" is left out: ")[2] for line in lines if " is left out: " in line]
        said = left_out or [line.removeprefix("seatrial: ") for line in lines if line.startswith("seatrial: ")]
        return said[0].partition("; stacks that can: ")[0] if said else ""

    def run(self) -> None:
        """Runs it, or goes on with it; returns when it is over. Raises KeyboardInterrupt if it was interrupted."""
        self.folder.mkdir(parents=True, exist_ok=True)
        study, asked = self.folder / "study", self.folder / "asked.txt"
        same = asked.is_file() and asked.read_text() == self.key
        asked.write_text(self.key)
        begun, load = time.monotonic(), os.getloadavg()[0]
        resume = ["seatrial", "run", "--resume", str(study)]
        command = resume if same and (study / "study.json").is_file() else [*self.command(str(study)), "--force"]
        status = self._seatrial(command)
        if status == INTERRUPTED or status < 0:
            raise KeyboardInterrupt
        if (study / "summary.csv").is_file() and status != SETUP:
            note = {"command": self.key, "status": status, "took_s": round(time.monotonic() - begun, 1)}
            note["load"] = round(max(load, os.getloadavg()[0]), 1)
            (self.folder / "cell.json").write_text(json.dumps(note))

    def _seatrial(self, command: Sequence[str]) -> int:
        """The exit status; prints the last line of the log now and then."""
        file = self.folder / "cell.log"
        with file.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        told, shown = False, time.monotonic()
        while True:
            try:
                return process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                if STOPPED.is_set() and not told:
                    process.send_signal(signal.SIGINT)  # it seals what it has
                    told = True
                if time.monotonic() - shown > PROGRESS_S:
                    said, shown = file.read_text(errors="replace").splitlines(), time.monotonic()
                    print(f"    {self.title}: {said[-1] if said else 'begins'}", file=sys.stderr, flush=True)

    @property
    def title(self) -> str:
        return f"{self.on} {self.name} {self.setup or self.stack}"


STOPPED = threading.Event()


def run_all(cells: Sequence[Cell], side_by_side: int = 1) -> Iterator[Cell]:
    """Runs the cells that are missing, so many side by side, with progress; yields every cell when it has ended."""

    def run(number: int, cell: Cell) -> Cell:
        head = f"[{number}/{len(cells)}] {cell.title}"
        if cell.note():
            print(f"{head}: kept from an earlier run", file=sys.stderr, flush=True)
        elif not STOPPED.is_set():
            print(f"{head}: {shlex.join(cell.command(str(cell.folder / 'study')))}", file=sys.stderr, flush=True)
            cell.run()
            note = cell.note()
            how = f"{note['took_s']} s, load average {note['load']}" if note else f"not run: {cell.problem()}"
            print(f"{head}: {how}", file=sys.stderr, flush=True)
        return cell

    with ThreadPoolExecutor(side_by_side) as pool:
        running = [pool.submit(run, number, cell) for number, cell in enumerate(cells, 1)]
        try:
            for ended in as_completed(running):
                yield ended.result()
        except KeyboardInterrupt:
            STOPPED.set()
            raise


def chosen(only: str, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Scenarios and stacks of `--only`, a list of either; all of a kind that is not named."""
    asked = [word for word in only.split(",") if word]
    unknown = [word for word in asked if word not in names and word not in (*STACKS, "appwrapper-kueue")]
    if unknown:
        sys.exit(
            f"--only {','.join(unknown)}: neither a scenario ({', '.join(names)}) nor a stack ({', '.join(STACKS)})"
        )
    scenarios = [name for name in names if name in asked] or list(names)
    stacks = [word for word in asked if word not in names] or list(STACKS)
    return scenarios, stacks


def options(about: str, kept: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about.split("\n", 1)[0])
    parser.add_argument("--only", default="", help="these scenarios and stacks, separated by commas")
    parser.add_argument(
        "--keep", type=Path, default=Path(kept), help="the folder of the studies; what is there is not run again"
    )
    parser.add_argument("--side-by-side", type=int, default=1, metavar="N", help="so many studies at a time")
    return parser
