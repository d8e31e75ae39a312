"""Which trials a search runs next, on made-up curves: exact, within its budget, and honest about what it does not know."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from seatrial.analysis.search_answers import EVERYWHERE, FOUND, NOWHERE, UNFINISHED, SearchAnswer, answer_of
from seatrial.analysis.search_evidence import Evidence
from seatrial.analysis.search_fronts import Front, front_of, next_of_front
from seatrial.analysis.searched_studies import Case, Question, Searches
from seatrial.analysis.searching import NextTrial, Search, SearchLimits, next_probes
from seatrial.model.figures import Value
from seatrial.scenario.expressions import Expression

REPEATS = 5
Curve = Callable[[int, int], float]  # of place and repeat
CONDITION = Expression.parse('(wait_p95_s <= 600) and outcome == "completed"')


def searched(
    curve: Curve, size: int, limits: SearchLimits | None = None, condition: Expression = CONDITION, log: bool = False,
    doubted: set[tuple[int, int]] | None = None,
) -> tuple[SearchAnswer, list[list[NextTrial]]]:  # fmt: skip
    """The answer of a whole search, and the trials of every round."""
    rows: dict[int, dict[int, dict[str, Value]]] = {}
    never: set[tuple[int, int]] = set()
    scale = [math.log(place + 1) if log else float(place) for place in range(size)]
    rounds: list[list[NextTrial]] = []
    while True:
        search = Search(scale, Evidence(condition, REPEATS, rows, never), limits or SearchLimits(30))
        probes = next_probes(search)
        if not probes:
            return answer_of(search), rounds
        rounds.append(probes)
        for place, repeat in probes:
            assert repeat not in rows.get(place, {}), "no trial is run twice"
            if doubted and (place, repeat) in doubted:
                never.add((place, repeat))
                rows.setdefault(place, {})
            else:
                wait = curve(place, repeat)
                rows.setdefault(place, {})[repeat] = {
                    "wait_p95_s": wait, "outcome": "completed", "total_s": wait + place, "nodes": place,
                }  # fmt: skip


def waiting(seed: int, size: int, noise: float) -> Curve:
    """A wait that falls with the number of nodes, of another height in every repeat."""
    draw = random.Random(seed)
    load = draw.uniform(0.05, 0.95) * size
    heights = [math.exp(draw.gauss(0, noise)) for _ in range(2 * REPEATS)]
    return lambda place, repeat: 3000 * max(0.0, load * heights[repeat - 1] / (place + 1) - 0.9)


def swept(curve: Curve, size: int) -> int | None:
    """The answer of an exhaustive sweep."""
    means = (sum(curve(place, repeat) for repeat in range(1, REPEATS + 1)) / REPEATS for place in range(size))
    return next((place for place, mean in enumerate(means) if mean <= 600), None)


@pytest.mark.parametrize("size", [30, 100, 491])
@pytest.mark.parametrize("noise", [0.0, 0.03, 0.08])
def test_a_search_is_within_one_of_an_exhaustive_sweep_in_95_of_100_cases_with_30_trials(
    size: int, noise: float
) -> None:
    close = 0
    for seed in range(100):
        curve = waiting(seed, size, noise)
        answer, rounds = searched(curve, size)
        assert sum(map(len, rounds)) == answer.trials <= 30
        truth = swept(curve, size)
        close += answer.place == truth or (
            answer.place is not None and truth is not None and abs(answer.place - truth) <= 1
        )
    assert close >= 95


def test_without_noise_a_search_is_exact_and_says_that_repeats_do_not_differ() -> None:
    answer, _ = searched(lambda place, _: 6000 / (place + 1), 491)
    assert (answer.state, answer.place, answer.fails, answer.interval) == (FOUND, 9, 8, (9, 9))


def test_the_interval_is_where_single_repeats_cross_the_limit() -> None:
    shift = {1: 0, 2: 2, 3: -3, 4: 1, 5: 0}
    answer, _ = searched(lambda place, repeat: 600 + 100 * (40 + shift[repeat] - place), 100, SearchLimits(60))
    assert answer.state == FOUND
    assert answer.place == 40
    assert answer.interval == (37, 42)
    assert not answer.open_below
    assert not answer.open_above


def test_the_largest_value_is_found_where_the_condition_holds_below() -> None:
    rising: Curve = lambda place, repeat: 10.0 * place + repeat  # noqa: E731
    answer, _ = searched(rising, 200)
    assert answer.largest
    assert (answer.state, answer.place, answer.fails) == (FOUND, 59, 60)


def test_a_condition_that_holds_nowhere_has_the_value_that_is_nearest() -> None:
    answer, rounds = searched(lambda place, _: 700 + abs(place - 60), 100)
    assert answer.state == NOWHERE
    assert answer.nearest is not None
    assert abs(answer.nearest - 60) <= 100 / 8
    assert sum(map(len, rounds)) <= 10


def test_a_window_inside_the_range_is_found_although_the_condition_holds_at_neither_end() -> None:
    answer, _ = searched(lambda place, _: 100.0 if 40 <= place <= 70 else 700.0, 100, SearchLimits(60))
    assert answer.state == FOUND
    assert answer.place == 40
    assert answer.contradictions, "it does not hold at the large end"


def test_a_condition_that_holds_everywhere_says_so() -> None:
    answer, _ = searched(lambda place, repeat: 1.0 + place + repeat, 100)
    assert (answer.state, answer.place) == (EVERYWHERE, 0)


def test_a_hole_above_the_answer_is_noticed() -> None:
    holed: Curve = lambda place, repeat: 6000 / (place + 1) + 9000 * (150 <= place <= 300) + repeat  # noqa: E731
    short, _ = searched(holed, 491)
    assert short.state == UNFINISHED
    assert short.contradictions
    answer, _ = searched(holed, 491, SearchLimits(60))
    assert answer.place == 10
    assert [fails for _, fails in answer.contradictions]


def test_a_search_that_spends_its_budget_has_a_bracket_and_goes_on_with_more() -> None:
    curve = waiting(3, 491, 0.08)
    short, first = searched(curve, 491, SearchLimits(12))
    assert (short.state, short.trials) == (UNFINISHED, 12)
    whole, rounds = searched(curve, 491, SearchLimits(60))
    assert whole.state == FOUND
    assert [one for of in rounds for one in of][:12] == [one for of in first for one in of]


def test_a_single_value_and_two_values_are_ranges_too() -> None:
    assert searched(lambda _, repeat: 1.0 + repeat, 1)[0].state == EVERYWHERE
    assert searched(lambda _, repeat: 1000.0 + repeat, 1)[0].state == NOWHERE
    assert searched(lambda place, repeat: 1000.0 - 900 * place + repeat, 2)[0].place == 1


def test_values_that_are_not_to_be_trusted_are_replaced_by_other_repeats() -> None:
    curve = waiting(5, 100, 0.05)
    truth = swept(curve, 100)
    answer, _ = searched(curve, 100, SearchLimits(60), doubted={(place, 2) for place in range(100)})
    assert answer.state == FOUND
    assert truth is not None
    assert answer.place is not None
    assert abs(answer.place - truth) <= 5


def test_a_condition_without_numbers_is_searched_by_halves() -> None:
    condition = Expression.parse('outcome == "completed"')
    rows: dict[int, dict[int, dict[str, Value]]] = {}
    limits = SearchLimits(40)
    while probes := next_probes(Search([float(n) for n in range(491)], Evidence(condition, 3, rows), limits)):
        for place, repeat in probes:
            ended = "completed" if place >= 123 + repeat else "clogged"
            rows.setdefault(place, {})[repeat] = {"outcome": ended, "total_s": float(place + repeat)}
    answer = answer_of(Search([float(n) for n in range(491)], Evidence(condition, 3, rows), limits))
    assert (answer.state, answer.place) == (FOUND, 126), "a counted condition must hold in every repeat"


def front_of_all(
    curve: Callable[[int, int, int], float], prices: dict[str, float], budget: int = 60
) -> tuple[Front, Searches]:
    """The front of a made-up wait over two variables, each from 1 to 40."""
    question = Question(
        ("nodes.a.count=1..40", "nodes.b.count=1..40"), ("wait_p95_s <= 600",), 3, SearchLimits(budget), prices
    )
    searches, base = Searches(question), Case("default")
    while wanted := next_of_front(searches, base):
        for case, (place, repeat) in wanted:
            a, b = int(dict(case.params)["nodes.a.count"]), int(question.value(place))
            wait = curve(a, b, repeat)
            row: dict[str, Value] = {"wait_p95_s": wait, "outcome": "completed", "total_s": wait + a + b}
            assert repeat not in searches.rows.get(case, {}).get(place, {}), "no trial is run twice"
            searches.rows.setdefault(case, {}).setdefault(place, {})[repeat] = row
    return front_of(searches, base), searches


@pytest.mark.parametrize("prices", [(1.0, 1.0), (1.0, 3.0), (5.0, 1.0), (2.0, 2.5)])
@pytest.mark.parametrize("seed", range(5))
def test_the_cheapest_mix_costs_at_most_five_percent_more_than_that_of_all_1600(
    prices: tuple[float, float], seed: int
) -> None:
    draw = random.Random(seed)
    load, weight = draw.uniform(20, 60), draw.uniform(0.7, 2.5)
    heights = [1.0, math.exp(draw.gauss(0, 0.04)), math.exp(draw.gauss(0, 0.04))]

    def curve(a: int, b: int, repeat: int) -> float:
        return 3000 * max(0.0, load * heights[repeat - 1] / (a + weight * b) - 0.8) + 300 * math.exp(-a / 4)

    front, _ = front_of_all(curve, {"nodes.a.count": prices[0], "nodes.b.count": prices[1]})
    fits = [
        prices[0] * a + prices[1] * b
        for a in range(1, 41)
        for b in range(1, 41)
        if sum(curve(a, b, repeat) for repeat in (1, 2, 3)) / 3 <= 600
    ]
    best = front.best
    assert front.trials <= 60
    assert best is not None
    assert best.cost is not None
    assert best.confirmed
    assert min(fits) <= best.cost <= 1.05 * min(fits) + max(prices)


def test_a_front_without_prices_has_the_least_of_one_variable_for_values_of_the_other() -> None:
    front, _ = front_of_all(lambda a, b, _: 10_000.0 / (a + b), {})
    assert front.best is None
    assert len(front.points) >= 5
    assert all(point.across + point.place + 2 == 17 or point.place == 0 for point in front.points)


def test_a_front_that_more_makes_worse_is_said_to_be_not_monotone() -> None:
    front, _ = front_of_all(lambda a, b, _: 700.0 if a >= 30 and b >= 5 else 10_000.0 / (a + b), {})
    assert front.contradictions
