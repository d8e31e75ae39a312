"""The end of the page: whether the figures can be trusted, the versions that were run, and how to run the study again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from seatrial.analysis.gates import SKIPPED
from seatrial.analysis.repeat_judging import FAILS, HOLDS, OPEN
from seatrial.report.durations import lasting
from seatrial.report.page.answer import marked
from seatrial.report.page.markup import Cell, Heading, Html, Inside, join, table, tag
from seatrial.report.page.view import PageSection, View, plural
from seatrial.report.summary_details import findings

SHOWN = 60


def validity(view: View) -> PageSection:
    """Whether the figures can be trusted, trial by trial, and what expectations and audits say."""
    bad = [trial for trial in view.study.trials if not trial.valid]
    good = len(view.study.trials) - len(bad)
    parts: list[Inside] = [
        tag("p", f"The figures of {good} of {plural(len(view.study.trials), 'trial')} can be trusted.")
    ]
    if bad:
        rows = [[Cell(trial.name), Cell("; ".join(trial.reasons))] for trial in bad[:SHOWN]]
        heads = [Heading("trial", number=False), Heading("why its figures are not to be trusted", number=False)]
        parts.append(table(heads, rows, "Trials that are not to be trusted"))
    how = sorted(
        {str(p) for t in view.study.trials if (p := (t.document.get("validity") or {}).get("client_priority"))}
    )
    if how:
        parts.append(tag("p", f"The client's thread was scheduled as {' or '.join(how)} while trials ran."))
    parts += [_rates(view), _load_machines(view), _sources(view), _expectations(view)]
    parts.append(_lines("Stalls, audits and waits that timed out", _found(view)))
    known = dict.fromkeys(str(line) for trial in view.study.trials for line in trial.document.get("findings") or ())
    parts.append(_lines("Findings before the run", known))
    parts.append(_lines("Missing", view.study.notes))
    return PageSection("validity", "Validity", "Can the figures be trusted?", join(parts))


def again(view: View) -> PageSection:
    """The command to run the study again, versions and machine."""
    document = view.study.document
    run = document.get("run") or {}
    command = shlex.join(map(str, run.get("command") or ())) or f"seatrial run {shlex.quote(view.study.name)}"
    facts = {
        "scenario": view.study.name,
        "on": view.study.on,
        "seed": document.get("seed"),
        "seatrial": document.get("seatrial"),
    }
    versions = dict(run.get("versions") or {})
    memory = run.get("memory_bytes")
    machine = {
        "started": run.get("started"),
        "took": lasting(run["wall_s"]) if "wall_s" in run else None,
        "state": run.get("state"),
        "system": run.get("system"),
        "cores": run.get("cores"),
        "memory": f"{memory / 2**30:.1f} GiB" if isinstance(memory, int) else None,
        "Python": run.get("python"),
        **versions,
    }
    return PageSection(
        "again", "Run it again", "Run it again",
        join(
            tag(
                "p", "With OUT as the directory of this page: ", tag("code", "seatrial run OUT/study.json"),
                " runs the study again; on the simulator the same seed gives the same figures. The original command:",
            ),
            marked(
                tag(
                    "div", tag("pre", tag("code", command)),
                    tag("button", "Copy", type="button", class_="copy"), class_="command",
                )
            ),
            tag("p", "To make this page again from the directory: ", tag("code", "seatrial report OUT --open")),
            tag("h3", "Versions and machine"),
            _facts(facts), marked(_facts(machine)),
            _folded("The scenario as it was read", document.get("scenario")),
            *_settings(view),
        ),
    )  # fmt: skip


def _rates(view: View) -> Html | None:
    """Rates that the client was asked for, and reached."""
    rows = []
    for trial in view.study.trials:
        for rate in (trial.document.get("validity") or {}).get("rates") or ():
            wanted, achieved = rate.get("wanted_per_s"), rate.get("achieved_per_s")
            if isinstance(wanted, int | float) and isinstance(achieved, int | float) and wanted:
                share = achieved / wanted
                kind = "bad" if share < 0.95 else ""
                rows.append([
                    Cell(trial.name), Cell(str(rate.get("phase"))), Cell(f"{wanted:,.4g}", wanted),
                    Cell(f"{achieved:,.4g}", achieved), Cell(f"{share:.0%}", share, kind),
                    Cell(f"{late:.3g}", late) if isinstance(late := rate.get("late_s"), int | float) else Cell("", 0),
                ])  # fmt: skip
    if not rows:
        return None
    heads = [
        Heading("trial", number=False), Heading("phase", number=False), Heading("asked for /s"), Heading("reached /s"),
        Heading("share"), Heading("late at most, s"),
    ]  # fmt: skip
    return _fold(
        f"Did the client keep up? {plural(len(rows), 'rate')}", table(heads, rows[:300], "Rates of the client")
    )


def _load_machines(view: View) -> Html | None:
    """Each machine's share of a load that several sent together, and how well its clock is known."""
    rows = []
    for trial in view.study.trials:
        for one in (trial.document.get("validity") or {}).get("load_machines") or ():
            share, wanted, achieved = float(one["share"]), one.get("wanted_per_s"), one.get("achieved_per_s")
            short = wanted and achieved and achieved < 0.95 * wanted
            rows.append([
                Cell(trial.name), Cell(str(one["phase"])), Cell(f"{one['machine']} {one['node']}"),
                Cell(f"{one['requests']:,}", one["requests"]), Cell(f"{share:.1%}", share),
                Cell(f"{wanted:,.4g}", wanted) if wanted else Cell("", 0),
                Cell(f"{achieved:,.4g}", achieved, "bad" if short else "") if achieved else Cell("", 0),
                Cell(f"{one['clock_error_ms']:.3f}", one["clock_error_ms"]),
            ])  # fmt: skip
    if not rows:
        return None
    heads = [
        Heading("trial", number=False), Heading("phase", number=False), Heading("machine", number=False),
        Heading("requests"), Heading("share"), Heading("asked for /s"), Heading("reached /s"),
        Heading("clock error at most, ms"),
    ]  # fmt: skip
    return _fold("Machines that sent the load", table(heads, rows[:300], "Machines that sent the load"))


def _sources(view: View) -> Html:
    found: dict[tuple[str, int], int] = {}
    for trial in view.study.trials:
        for source in trial.document.get("sources") or ():
            key = (str(source.get("name")), int(source.get("error_ns") or 0))
            found[key] = found.get(key, 0) + 1
    rows = [
        [Cell(name), Cell(lasting(error / 1e9) if error else "none", error), Cell(str(count), count)]
        for (name, error), count in found.items()
    ]
    heads = [Heading("source of times", number=False), Heading("error at most"), Heading("trials")]
    return table(heads, rows, "Sources of times") if rows else Html("")


def _expectations(view: View) -> Html | None:
    """Verdicts over all repeats, as for the exit status, including gates within noise or not judged."""
    rows = []
    for text, verdicts in view.gates.items():
        telling = sorted((v for v in verdicts if v.state != HOLDS), key=lambda v: (FAILS, OPEN, SKIPPED).index(v.state))
        good = sum(v.state in (HOLDS, OPEN) for v in verdicts)
        kind = "bad" if telling and telling[0].state == FAILS else ""
        why = f"{telling[0].where}: {telling[0].explanation}" if telling else ""
        rows.append(
            [Cell(tag("code", text), text), Cell(f"{good} of {len(verdicts)}", good / len(verdicts), kind), Cell(why)]
        )
    heads = [Heading("expected", number=False), Heading("holds"), Heading("first failure", number=False)]
    return table(heads, rows, "Expectations of the scenario") if rows else None


def _found(view: View) -> list[str]:
    return findings(view.study, view.rows)


def _lines(title: str, lines: Any) -> Html | None:
    lines = list(lines)
    if not lines:
        return None
    items = [tag("li", line) for line in lines[:SHOWN]]
    if len(lines) > SHOWN:
        items.append(tag("li", f"and {len(lines) - SHOWN} more: see trial.json"))
    return join(tag("h3", title), tag("ul", items, class_="findings"))


def _facts(facts: Mapping[str, Any]) -> Html:
    known = {name: value for name, value in facts.items() if value not in (None, "")}
    return tag(
        "dl", [tag("div", tag("dt", name), tag("dd", str(value))) for name, value in known.items()], class_="facts"
    )


def _settings(view: View) -> list[Html]:
    """Every setting of each set-up, including defaults."""
    seen: dict[str, Any] = {}
    for trial in view.study.trials:
        if trial.document.get("settings"):
            seen.setdefault(
                trial.setup, {"settings": trial.document["settings"], "client": trial.document.get("client")}
            )
    return [_folded(f"Settings of {setup}", settings) for setup, settings in seen.items()]


def _folded(title: str, document: Any) -> Html:
    return _fold(title, tag("pre", json.dumps(document, indent=1, ensure_ascii=False))) if document else Html("")


def _fold(title: str, inside: Inside) -> Html:
    return tag("details", tag("summary", title), inside)
