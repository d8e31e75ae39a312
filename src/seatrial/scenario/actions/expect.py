"""`expect`: expectations and figures as fields, and expectations among the steps, where a false one fails the trial."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from seatrial.model.figures import CLASS, FIGURES, NAMED, QUEUE
from seatrial.model.interfaces import Cluster, RunningTrial
from seatrial.model.lifecycle import COMPLETED, DELETED, FAILED, SUBMITTED
from seatrial.model.plan import Expectation, Phase
from seatrial.scenario import field_types
from seatrial.scenario.actions.planning import Kind, Planning, WrittenPhase
from seatrial.scenario.expression_grammar import ExpressionProblem
from seatrial.scenario.expressions import Expression, figure_named
from seatrial.scenario.fields import KnownNames, as_list, wrong
from seatrial.scenario.source import KeyPath, Source


def _expectation(value: Any, info: ValidationInfo) -> str:
    names = info.context.names if isinstance(info.context, KnownNames) else {}
    texts = {name: names[name] for name in ("setup", "stack", QUEUE, CLASS) if name in names}
    try:
        return Expression.parse(field_types.text(value), names.get("figure"), texts).text
    except ExpressionProblem as problem:
        at = f" at its column {problem.column}" if problem.column > 1 else ""
        raise wrong(f"{problem.message}{at}", problem.remedy) from None


def _figure(value: Any, info: ValidationInfo) -> str:
    names = info.context.names if isinstance(info.context, KnownNames) else {}
    try:
        members = {group: names[group] for group in (QUEUE, CLASS) if group in names}
        return figure_named(field_types.text(value), names.get("figure"), members)
    except ExpressionProblem as problem:
        raise wrong(problem.message, problem.remedy) from None


_ONE_OR_MORE = BeforeValidator(as_list, json_schema_input_type=str | list[str])
Expectations = Annotated[list[Annotated[str, BeforeValidator(_expectation)]], _ONE_OR_MORE]
FigureNames = Annotated[list[Annotated[str, BeforeValidator(_figure)]], _ONE_OR_MORE]


def expectations(source: Source, texts: Iterable[str], path: KeyPath) -> tuple[Expectation, ...]:
    """Expectations with their places in the file."""
    return tuple(Expectation(text, source.at((*path, number))) for number, text in enumerate(texts))


@dataclass(frozen=True, slots=True)
class Expect(Phase):
    """Expectations checked at this point; a false one fails the trial."""

    expect: tuple[Expectation, ...]

    async def act(self, run: RunningTrial, cluster: Cluster) -> None:
        trial = run.trial
        figures = {**trial.params, **_counts(cluster), "setup": trial.setup.name, "stack": trial.setup.stack}
        for expectation in self.expect:
            why_not = run.judge(expectation, figures)
            if why_not:
                run.end("failed", f"{expectation.place}: {why_not}")


def _counts(cluster: Cluster) -> dict[str, float | str | None]:
    """The figures that are known while a trial runs."""
    ledger = cluster.ledger
    now = {stage.name: ledger.counts[ledger.number[stage.name]] for stage in (SUBMITTED, COMPLETED, FAILED, DELETED)}
    return {**now, "pending": now["submitted"] - now["completed"] - now["failed"] - now["deleted"]}


def _plan(planning: Planning, phase: WrittenPhase) -> Expect:
    texts: list[str] = phase.fields
    for number, text in enumerate(texts):
        expression = Expression.parse(text)
        late = [
            *sorted(name for name in expression.names & set(NAMED) if not FIGURES[name].while_running),
            *expression.asked,
            *expression.references,
        ]
        if late:
            what = f"'{late[0]}' is known only at the end of a trial"
            planning.wrong((*phase.path, number), what, "write it under the scenario's own `expect:`")
    return Expect(phase.name, expectations(planning.source, texts, phase.path))


KIND = Kind({"expect": "Expectations checked now; a false one fails the trial here."}, Expectations, _plan)
