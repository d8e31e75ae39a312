"""Requests of a study on the terminal: counts and latencies per identity, reasons for rejections, differences between set-ups."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from seatrial.analysis.api_load import COUNTED, ApiLoad
from seatrial.analysis.api_tables import (
    Difference,
    api_table,
    by_identity,
    differences,
    in_order,
    phase_times,
    rejections,
    unmatched,
)
from seatrial.analysis.studies import Study
from seatrial.model.doubts import COUNTS, TIMES
from seatrial.record.trial_record import TrialRecord
from seatrial.report.text_tables import Column, print_columns, print_line, signed_percent, three_digits

NOISE = {True: "yes", False: "no", None: "too few runs"}


def print_load(console: Console, study: Study) -> None:
    """Prints the tables; nothing for a study without requests."""
    trials = [trial for trial in study.trials if ApiLoad(trial).there]
    if not trials:
        return
    trusted = [trial for trial in study.trusted if ApiLoad(trial).there]
    table = api_table(trusted)
    _print_identities(console, trusted)
    for line in load_notes(trials):
        print_line(console, line, "yellow")
    for setup, flow, level, reason, count in rejections(table):
        print_line(console, f"{setup}: {count:,.0f} rejected, {reason}, in priority level {level} (flow schema {flow})")
    _print_phases(console, trusted)
    _print_differences(console, [one for one in differences(table) if one.statistic == "mean"])


def load_notes(trials: Sequence[TrialRecord]) -> list[str]:
    """Refused requests, missing measurements, and flow schemas that matched nothing."""
    notes = []
    for trial in trials:
        validity = trial.document.get("validity") or {}
        notes += [f"{trial.name}: {line}" for line in (*validity.get("refused", ()), *validity.get("not_measured", ()))]
        notes += [f"{trial.name}: the flow schema '{name}' matched no request" for name in unmatched(trial)]
    return notes


def _print_identities(console: Console, trials: Sequence[TrialRecord]) -> None:
    lines = by_identity(trials)
    columns = [
        Column("\nset-up", [_marked(line.setup, not line.doubtful) for line in lines], left=True),
        *params_column([line.params for line in lines]),
        Column("\nwho", [line.who for line in lines], left=True),
        *(
            Column(f"\n{name}", [_marked(f"{line.means[name]:,.0f}", COUNTS not in line.doubtful) for line in lines])
            for name in COUNTED
        ),
        *(
            Column(
                f"p{percent}\nms",
                [_marked(_milliseconds(one.means[f"api_p{percent}_s"]), TIMES not in one.doubtful) for one in lines],
            )
            for percent in (50, 99)
        ),
    ]
    print_line(console, "")
    print_line(console, "requests: mean of a run; p50, p99: of successful requests, from when they were due", "bold")
    print_columns(
        console, columns, [not (line.means["rejected"] or line.means["errors"] or line.doubtful) for line in lines]
    )


def _print_phases(console: Console, trials: Sequence[TrialRecord]) -> None:
    phases = phase_times(trials)
    columns = [Column("phase", [name for name, _ in phases], left=True)]
    for setup in in_order(trials):
        columns.append(Column(setup, [f"{times[setup]:,.1f}" if setup in times else "-" for _, times in phases]))
    print_line(console, "")
    print_line(console, "how long each phase took, in seconds", "bold")
    print_columns(console, columns, [True] * len(phases))


def _print_differences(console: Console, found: Sequence[Difference]) -> None:
    if not found:
        return
    columns = [
        Column("\nset-up", [_marked(one.setup, one.valid) for one in found], left=True),
        *params_column([one.params for one in found]),
        Column("\nmean of", [f"{one.measurement}{f' ({one.unit})' if one.unit else ''}" for one in found], left=True),
        Column(f"of\n{found[0].baseline}", [three_digits(one.of_baseline) for one in found]),
        Column("of the\nset-up", [three_digits(one.of_setup) for one in found]),
        Column("\ndifference", [three_digits(one.difference, "+") for one in found]),
        Column("\n%", ["-" if one.percent is None else signed_percent(one.percent) for one in found]),
        Column(
            "larger than\nnoise", [NOISE[one.larger_than_noise] if one.valid else "not to be trusted" for one in found]
        ),
    ]
    print_line(console, "")
    print_line(console, f"every set-up against '{found[0].baseline}', run by run", "bold")
    print_columns(console, columns, [one.larger_than_noise is not True for one in found])


def params_column(params: Sequence[str]) -> list[Column]:
    """No column if no param varies."""
    return [Column("\nwith", params, left=True)] if any(params) else []


def _marked(text: str, valid: bool) -> str:
    return text if valid else f"! {text}"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.1f}"
