"""The top of the page: what was tested, which set-ups completed and how fast, why others did not, and whether to trust the figures.

It claims no more than the figures show: differences within the spread have no winner, and an incomplete set-up has no speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.analysis.repeat_judging import FAILS
from seatrial.model.figures import FIGURES
from seatrial.record.trial_record import DAMAGED
from seatrial.report.answer_figures import AnswerFigure, in_a_sentence
from seatrial.report.durations import lasting
from seatrial.report.grouping import NOT_CHECKED, Group, Spread, ended_well
from seatrial.report.page.endings import DID, endings
from seatrial.report.page.markup import Html, Inside, badge, join, tag
from seatrial.report.page.search_section import headlines
from seatrial.report.page.view import View, in_words, listed, plural, seconds

PLACES = {
    "sim": "the simulator (virtual time)",
    "local": "a real control plane with fake nodes",
    "kubeconfig": "an existing cluster",
}


@dataclass(frozen=True)
class Measure:
    """The figure by which set-ups are ranked."""

    figure: str
    title: str
    about: str

    def of(self, group: Group) -> Spread | None:
        """The figure of a group."""
        return group.of(self.figure)

    def mean(self, group: Group) -> float:
        """Its mean, or None."""
        spread = self.of(group)
        return spread.mean if spread else 0.0

    def shown(self, group: Group) -> str:
        """The figure with its unit."""
        spread = self.of(group)
        if spread is None:
            return "–"
        return lasting(spread.mean, spread.deviation, 1)

    def close(self, a: Group, b: Group) -> bool:
        """Whether the difference is within the spreads of both over their repeats; equal times are close too."""
        one, two = self.of(a), self.of(b)
        if one is None or two is None:
            return False
        return abs(one.mean - two.mean) <= max((one.deviation or 0.0) + (two.deviation or 0.0), 1e-9)


TOTAL = Measure("total_s", "Total time", FIGURES["total_s"].about)
REQUESTS = Measure("api_p99_s", "p99 of successful requests", "")


def answer(view: View) -> Html:
    """Everything above the table of contents."""
    study = view.study
    about = str((study.document.get("scenario") or {}).get("about") or "")
    return tag(
        "header",
        tag("p", "seatrial · report", class_="kicker"),
        tag("h1", study.name),
        tag("p", about, class_="about") if about else None,
        tag("p", _tested(view), class_="tested"),
        _incomplete(view),
        tag("div", *_answers(view), class_="answer") if view.rows else None,
        _trust(view) if view.rows else None,
        class_="top",
    )


def _tested(view: View) -> Inside:
    study = view.study
    if not view.rows:
        return f"Nothing was run: no trial was begun on {PLACES.get(study.on, study.on)}."
    parts = [f"{plural(len(view.setups), 'set-up')} ({listed(view.setups, 10)})"]
    parts += [f"{name} {listed(values, 8)}" for name, values in view.values.items()]
    if view.repeats > 1:
        parts.append(f"{view.repeats} repeats each")
    workloads = sum(int(row["submitted"] or 0) for row in view.rows)
    pods = sum(int(row["pods"] or 0) for row in view.rows)
    sent = sum(int(row.get("requests") or 0) for row in view.rows)
    whats = [f"{plural(workloads, 'workload')} with {plural(pods, 'pod')}"] if workloads else []
    whats += [plural(sent, "request")] if sent else []
    what = f"{' and '.join(whats) or 'nothing'} in {plural(len(view.rows), 'trial')}"
    run = study.document.get("run") or {}
    date = str(run.get("started") or "")[:10]
    return (
        f"{', '.join(parts)}. In all {what}, on {PLACES.get(study.on, study.on)}.",
        marked(f" {date}." if date else ""),
    )


def marked(inside: Inside) -> Html:
    """Marks what differs between two runs with the same seed: dates, machine, command."""
    return Html(f"<!--run-->{join(inside)}<!--/run-->")


def _incomplete(view: View) -> Html | None:
    """The first line after a crash or an interruption: what is missing."""
    notes = view.study.notes
    if not notes:
        return None
    lines = [tag("li", note) for note in notes[:6]]
    if len(notes) > 6:
        lines.append(tag("li", f"and {len(notes) - 6} more like these"))
    return tag("div", tag("strong", "This study is not complete."), tag("ul", lines), class_="warning", role="note")


def _answers(view: View) -> list[Html]:
    stuck = [group for group in view.groups if group.completed < len(group.rows)]
    chosen = view.at(view.largest)
    measure = TOTAL if view.submits else REQUESTS
    ranked = [group for group in chosen if measure.of(group)]
    if view.submits:  # no ranks for requests: a server that rejects many answers the rest fast
        ranked.sort(key=lambda group: (group.unverified, measure.mean(group)))
    lines = [*headlines(view), tag("p", _headline(view, stuck), class_="headline")]
    where = in_words(view.largest)
    if not view.submits and view.answers:
        lines.append(tag("p", _sent(view)))
    held = [group for group in ranked if not group.unverified]
    if held and view.submits:
        lines.append(tag("p", _speed(measure, held, where)))
    if guessed := [f"{group.setup} ({measure.shown(group)})" for group in ranked if group.unverified]:
        are = "are" if len(guessed) > 1 else "is"
        lines.append(tag("p", tag("b", f"Not ranked: {listed(guessed)}"), f" {are} {NOT_CHECKED}."))
    for figure, of in view.answers.items():
        if figure != measure.figure:
            lines.append(_bars(figure, of, where))
    if view.submits or not view.answers or measure.figure in view.answers:
        lines.append(_ranking(measure, ranked, [group for group in chosen if group not in ranked], where))
    others = [group for group in stuck if group not in chosen]
    if others:
        names = listed([f"{group.setup} ({in_words(tuple(group.params.items()))})" for group in others], 5)
        lines.append(tag("p", f"Also incomplete: {names}."))
    return [*lines, *endings(view)]


def _headline(view: View, stuck: Sequence[Group]) -> str:
    """A study that was cut off says so first."""
    if not view.study.unfinished:
        return _of_what_ran(view, stuck)
    return f"{view.study.unfinished[0].upper()}{view.study.unfinished[1:]}. Of the trials that ran: {_of_what_ran(view, stuck)}"


def _of_what_ran(view: View, stuck: Sequence[Group]) -> str:
    if not stuck and not view.submits and view.answers:
        figure, of = next(iter(view.answers.items()))
        return f"{in_a_sentence(figure, of)}."
    if not stuck:
        return "Every workload of every trial completed." if view.submits else _sent(view)
    bad = [setup for setup in view.setups if any(group.setup == setup for group in stuck)]
    good = [setup for setup in view.setups if setup not in bad]
    how = {str(row["outcome"]) for group in stuck for row in group.rows if not ended_well(row)}
    did = DID.get(next(iter(how)), "") if len(how) == 1 else ""
    if how == {DAMAGED}:  # what completed is unknown
        return f"{listed(bad)} cannot be judged: files of {'its' if len(bad) == 1 else 'their'} trials are damaged."
    if not good:
        return f"No set-up completed everything{f': {listed(bad)} {did}' if did else ''}."
    return f"{len(good)} of {len(view.setups)} set-ups completed everything; {listed(bad)} {did or 'did not'}."


def _sent(view: View) -> str:
    sent, rejected, errors = (
        sum(int(row.get(name) or 0) for row in view.rows) for name in ("requests", "rejected", "errors")
    )
    if not sent:
        return "All steps of every trial completed."
    return (
        f"{plural(sent, 'request')} sent: {rejected:,} rejected (429 Too Many Requests), {errors:,} failed otherwise."
    )


def _speed(measure: Measure, ranked: Sequence[Group], where: str) -> Inside:
    first, *rest = ranked
    at = f"At {where}, " if where else ""
    shown = measure.shown(first)
    if not rest:
        return (at, tag("b", first.setup), f" took {shown} {measure.about}.")
    close = [group.setup for group in rest if measure.close(first, group)]
    if close:
        return (
            at,
            "no clear winner: ",
            tag("b", listed([first.setup, *close])),
            f" are within their spread, at about {shown}.",
        )
    slower = [f"{group.setup} {measure.mean(group) / measure.mean(first):.2f}" for group in rest]
    spread = measure.of(first)
    was = "was the fastest" if spread and spread.deviation is not None else "was ahead (in a single run)"
    return (
        at, tag("b", first.setup), f" {was}: {shown} {measure.about}. The others took, as multiples of that: {listed(slower, 8)}.",
    )  # fmt: skip


def _ranking(measure: Measure, ranked: Sequence[Group], unranked: Sequence[Group], where: str) -> Html:
    """A bar for each set-up: those that completed by their time, then the others with their outcome."""
    longest = max((measure.mean(group) for group in ranked), default=0.0) or 1.0
    lines = [
        _line(group, f"{measure.mean(group) / longest * 100:.1f}", measure.shown(group), _beside(group))
        for group in ranked
    ]
    for group in unranked:
        worst = next((row for row in group.rows if not ended_well(row)), group.rows[0])
        known = worst["workloads"] and worst["outcome"] != DAMAGED
        done = f"{worst['completed']:,} of {worst['workloads']:,} done" if known else ""
        ended = str(worst["outcome"]) if worst["outcome"] != "completed" or not worst["workloads"] else "not all"
        lines.append(_line(group, None, ended, ", ".join(filter(None, (done, str(worst["clog"] or ""))))))
    title = f"{measure.title} by set-up{f', {where}' if where else ''}"
    return tag("div", tag("h2", title, class_="small"), tag("ol", lines, class_="ranking"), class_="rank")


def _bars(figure: str, of: Sequence[AnswerFigure], where: str) -> Html:
    """A figure of the answer: a bar for each set-up, in the order of the scenario, without ranks."""
    longest = max((one.spread.mean for one in of if one.spread), default=0.0) or 1.0
    lines = [
        _line(
            one.group,
            f"{max(one.spread.mean, 0) / longest * 100:.1f}" if one.spread else None,
            one.shown,
            "",
            one.doubtful,
        )
        for one in of
    ]
    title = (tag("code", figure), f" by set-up{f', {where}' if where else ''}")
    return tag("div", tag("h2", title, class_="small"), tag("ol", lines, class_="ranking"), class_="rank")


def _beside(group: Group) -> str:
    """A second figure beside the bar."""
    p99 = group.of("p99_s")
    if p99 is not None:
        return f"p99 {seconds(p99.mean)}"
    rejected, sent = group.of("rejected"), group.of("requests")
    if not rejected or not sent or not sent.mean:
        return ""
    return f"{rejected.mean:,.0f} of {sent.mean:,.0f} rejected ({rejected.mean / sent.mean:.0%})"


def _line(group: Group, width: str | None, figure: str, more: str, doubtful: bool | None = None) -> Html:
    doubt = " (not to be trusted)" if (group.doubtful if doubtful is None else doubtful) else ""
    return tag(
        "li",
        tag("span", tag("span", group.setup, class_="of"), badge(group.evidence), class_="name", title=group.setup),
        tag("span", tag("span", class_="bar", data_width=width), class_="track"),
        tag("span", figure, class_="figure" if width else "figure bad"),
        tag("span", more + doubt, class_="more"),
        data_setup=group.setup,
        class_="unverified" if group.unverified else None,
    )


def _trust(view: View) -> Html:
    bad = [trial for trial in view.study.trials if not trial.valid]
    sure = "Can the figures be trusted? "
    guessed = list(dict.fromkeys(group.setup for group in view.groups if group.unverified))
    missing = view.study.unfinished or next(iter(view.study.notes), "")
    if not bad and missing:
        verdict = ("bad", "In part: ", f"{missing}. The completed trials can be trusted: {_sources(view)}")
    elif not bad and guessed:
        say = "Not verified: " if len(guessed) == len(view.setups) else "In part: "
        verdict = (
            "bad",
            say,
            f"{listed(guessed)} {'is' if len(guessed) == 1 else 'are'} {NOT_CHECKED}. {_sources(view).capitalize()}",
        )
    elif not bad and view.study.on == "sim":
        verdict = ("model", "Yes, within the accuracy of models checked against the real stacks: ", _sources(view))
    elif not bad:
        verdict = ("good", "Yes, figures of real components that passed all validity checks: ", _sources(view))
    else:
        reasons = list(dict.fromkeys(reason for trial in bad for reason in trial.reasons))
        which = (
            "none of the trials"
            if len(bad) == len(view.study.trials)
            else f"not all: {len(view.rows) - len(bad)} of {len(view.rows)}"
        )
        kept = (
            ""
            if len(bad) == len(view.study.trials)
            else " They are left out of means and charts if their set-up has others, else shown and marked with !."
        )
        kept += f" The study is not complete: {view.study.unfinished}." if view.study.unfinished else ""
        say = "No: " if len(bad) == len(view.study.trials) else "In part: "
        verdict = (
            "bad",
            say,
            f"{which} can be trusted ({listed(reasons, 4)}).{kept} {_sources(view).capitalize()}",
        )
    kind, word, why = verdict
    failed = _failed_expectations(view)
    spread = (
        f"± is the standard deviation over {view.repeats} repeats."
        if view.repeats > 1
        else "One repeat each: the variation between runs is unknown."
    )
    return tag(
        "p", tag("b", sure), tag("b", word, class_=kind), why, " ", spread,
        tag("b", f" {failed}", class_="bad") if failed else None, " ", tag("a", "Details", href="#validity"), ".",
        class_="trust",
    )  # fmt: skip


def _sources(view: View) -> str:
    if view.study.on == "sim":
        return (
            "times are the simulator's own, without error of measurement; its models are not the real components, and "
            "docs/fidelity.md has the differences."
        )
    worst = max((error for trial in view.study.trials for error in trial.errors_ns), default=0)
    within = f" and are off by at most {lasting(worst / 1e9)}" if worst else ""
    return f"times are those of watched events{within}."


def _failed_expectations(view: View) -> str:
    broken = [text for text, verdicts in view.gates.items() if any(verdict.state == FAILS for verdict in verdicts)]
    return (
        f"{plural(len(broken), 'expectation')} of the scenario {'does' if len(broken) == 1 else 'do'} not hold."
        if broken
        else ""
    )
