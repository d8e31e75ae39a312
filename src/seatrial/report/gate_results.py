"""Verdicts of gates, for a build server (JUnit XML), a reviewer (Markdown) and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console

from seatrial.analysis.gates import SKIPPED, Verdict
from seatrial.analysis.repeat_judging import FAILS, HOLDS, OPEN
from seatrial.analysis.studies import Study
from seatrial.report.comparisons import escaped
from seatrial.report.text_tables import CONTROL, print_line

SIGNS = {HOLDS: "✅", OPEN: "⚠️", FAILS: "❌", SKIPPED: "⏭️"}
NAMED = 50  # verdicts in a summary


def print_gates(verdicts: Sequence[Verdict], console: Console) -> None:
    """Prints gates that fail, pass only within noise or without some repeats, or were not judged."""
    for verdict in verdicts:
        if verdict.state != HOLDS or verdict.left_out:
            line = f"{verdict.where}: {verdict.short}" if verdict.short else verdict.line
            print_line(console, line if verdict.state == FAILS else f"{verdict.state}: {line}")


def write_junit(verdicts: Sequence[Verdict], study: Study, path: Path) -> Path:
    """One test case per verdict; a gate passed within noise has its explanation as output."""
    counts = {state: sum(verdict.state == state for verdict in verdicts) for state in SIGNS}
    totals = {
        "name": _xml(study.name), "tests": str(len(verdicts)), "failures": str(counts[FAILS]), "errors": "0",
        "skipped": str(counts[SKIPPED]), "time": str((study.document.get("run") or {}).get("wall_s", 0)),
    }  # fmt: skip
    suites = ElementTree.Element("testsuites", {k: v for k, v in totals.items() if k != "skipped"})
    suite = ElementTree.SubElement(suites, "testsuite", totals)
    for verdict in verdicts:
        where, name = _xml(verdict.where), _xml(verdict.text)
        case = ElementTree.SubElement(suite, "testcase", {"classname": where, "name": name, "time": "0"})
        if verdict.state == FAILS:
            failure = ElementTree.SubElement(case, "failure", {"type": "gate", "message": _xml(verdict.explanation)})
            failure.text = _xml(verdict.line)
        elif verdict.state == SKIPPED:
            ElementTree.SubElement(case, "skipped", {"message": _xml(verdict.explanation)})
        elif verdict.explanation:
            ElementTree.SubElement(case, "system-out").text = _xml(verdict.explanation)
    ElementTree.indent(suites)
    path.write_bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n")
    return path


def add_summary(verdicts: Sequence[Verdict], study: Study, path: Path) -> Path:
    """Appends: `$GITHUB_STEP_SUMMARY` may have output of other commands."""
    with path.open("a", encoding="utf-8") as file:
        file.write(summary(verdicts, study))
    return path


def summary(verdicts: Sequence[Verdict], study: Study) -> str:
    """A short table: gates that do not simply hold, and the number that do."""
    counts = {state: sum(verdict.state == state for verdict in verdicts) for state in SIGNS}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no gates"
    sign = SIGNS[FAILS if counts[FAILS] else OPEN if counts[OPEN] else HOLDS]
    lines = [f"### {sign} {escaped(study.name)} on {escaped(study.on)}: {told}", ""]
    order = (FAILS, OPEN, HOLDS, SKIPPED)
    shown = sorted((v for v in verdicts if v.state != HOLDS or v.left_out), key=lambda v: order.index(v.state))
    if shown:
        lines += ["| | gate | where | found |", "|---|---|---|---|"]
        lines += [_row(verdict) for verdict in shown[:NAMED]]
        lines += [f"| | | | and {len(shown) - NAMED} more |"] if len(shown) > NAMED else []
        lines.append("")
    return "\n".join([*lines, ""])


def _row(verdict: Verdict) -> str:
    found = verdict.explanation.removeprefix(f"`{verdict.text}` ")
    cells = (verdict.text, f"{verdict.where} {verdict.place}".strip(), found)
    return f"| {SIGNS[verdict.state]} | {' | '.join(escaped(cell) for cell in cells)} |"


def _xml(text: str) -> str:
    """Replaces control characters, which XML forbids even escaped."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
