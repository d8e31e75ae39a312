"""`seatrial record`: a cluster's workloads as a trace. Reads only: nothing is installed, created or changed there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from seatrial.clusters.access import recording_rights
from seatrial.kube import Access, ApiProblem, Client, Lost, Unreachable, clock
from seatrial.model.errors import SeatrialError, SetupProblem
from seatrial.model.units import SECOND
from seatrial.observe.anonymising import NameHider
from seatrial.observe.describing import Describer
from seatrial.observe.recorder import Recorder, RecordingProgress
from seatrial.record import recordings
from seatrial.record.recordings import RecordingFile
from seatrial.study.interruption import interruption
from seatrial.study.recording_directory import (
    Places,
    Sealed,
    last_beat,
    new_recording,
    opened,
    places,
    refuse_clock_set_back,
    salt_of,
    seal,
)
from seatrial.study.study_directory import disk_problems

SHIFT_S = 1.0  # the clock of the cluster is known to a second; a smaller difference is not corrected


@dataclass(frozen=True, slots=True)
class RecordingWish:
    """What to record, and where to. `lasting`: ns since the recording's beginning; None: until Ctrl-C."""

    out: Path
    access: Access
    namespace: str = ""
    anonymise: bool = True
    lasting: int | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The trace, and how the recording ended."""

    trace: Path
    sealed: Sealed
    notes: tuple[str, ...]
    interrupted: bool
    resumed: bool


def record(wish: RecordingWish, told: Callable[[RecordingProgress], None]) -> Recorded:
    """Records until the time is over or Ctrl-C, then writes the trace. A recording that is there goes on."""
    where = places(wish.out)
    wanted = new_recording(wish.access, wish.namespace, wish.anonymise, wish.labels)
    with (
        disk_problems(where.directory),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        ahead = runner.run(_check(wish))
        with opened(where, wanted) as about:
            refuse_clock_set_back(about, where.directory)
            describer = Describer(
                NameHider(salt_of(about, fresh=not recordings.journals(where.directory))), wish.labels
            )
            notes, interrupted, problem = runner.run(_record(wish, where, about, describer, ahead, told))
            sealed = seal(where, about)
    if problem is not None:
        raise SetupProblem(f"{problem.message}; the recording so far is in {where.trace}", problem.remedy) from problem
    left_out = [
        f"{count:,} pods of {kind}s left out: there are as many as nodes"
        for kind, count in sorted(describer.left_out.items())
    ]
    return Recorded(where.trace, sealed, (*sealed.notes, *notes, *left_out), interrupted, about is not wanted)


async def _check(wish: RecordingWish) -> int:
    """By how many ns the cluster's clock is ahead of ours, where that can be told."""
    async with Client(wish.access) as client:
        wanted = recording_rights.of_workloads(wish.namespace)
        off = (await recording_rights.check(client, wanted, wish.namespace)).clock_off
    return int(off * SECOND) if abs(off) > SHIFT_S else 0


async def _record(
    wish: RecordingWish, where: Places, about: RecordingFile, describer: Describer, ahead: int,
    told: Callable[[RecordingProgress], None],
) -> tuple[list[str], bool, SeatrialError | None]:  # fmt: skip
    async with Client(wish.access) as client:
        epoch = clock() - (time.time_ns() - about.began_ns)
        recorder = Recorder(
            where.directory, client, describer, began=about.began_ns, epoch=epoch, last_well=last_beat(where.directory),
            namespace=wish.namespace, ahead=ahead, told=told,
        )  # fmt: skip
        recorder.sightings.knows(recordings.read_lines(where.directory)[0])
        interrupted, ended = False, None
        interruption.cancels(asyncio.current_task())
        try:
            await recorder.on(wish.lasting)
        except asyncio.CancelledError:
            interrupted = True
        except (ApiProblem, Lost, Unreachable) as problem:
            ended = problem
        finally:
            interruption.cancels(None)
    notes = list(recorder.notes)
    if ahead:
        notes.append(
            f"the cluster's clock is {ahead / SECOND:+.0f} s ahead of this machine's: its timestamps were corrected by that"
        )
    if recorder.unwritten:
        raise SetupProblem(
            f"no space left in {where.directory}: {recorder.unwritten} of the last observations could not be written",
            "free some space and continue with the same command: objects that still exist in the cluster are found again",
        )
    return notes, interrupted, ended
