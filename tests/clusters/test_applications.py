"""Who plays a gang's application knows it from the pods alone, and learns from a new list what went while nobody watched."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from seatrial.clusters.live.applications import Applications, SavedProgress
from seatrial.kube import Client, Resource
from seatrial.kube.shapes import Meta, Pod, PodStatus
from seatrial.kube.watching import ADDED, DELETED, LISTED, MODIFIED, SYNCED
from seatrial.model.labels import (
    APPLICATION_ANNOTATION,
    CHECKPOINT_ANNOTATION,
    DURATION_ANNOTATION,
    GANG_LABEL,
    INDEX_LABEL,
    WORKLOAD_LABEL,
)
from seatrial.model.units import SECOND


class Marks:
    """The far end: what pods were told last."""

    def __init__(self) -> None:
        self.told: dict[str, str | None] = {}

    async def patch(self, resource: Resource, body: dict[str, Any], name: str, namespace: str) -> None:
        assert (resource.plural, namespace) == ("pods", "space")
        self.told[name] = body["metadata"]["annotations"][DURATION_ANNOTATION]


def pod(number: int, phase: str = "Running") -> Pod:
    labels = {WORKLOAD_LABEL: "gang", GANG_LABEL: "3"}
    marks = {APPLICATION_ANNOTATION: "5000ms"}
    return Pod(
        metadata=Meta(name=f"gang-{number}", namespace="space", labels=labels, annotations=marks),
        status=PodStatus(phase=phase),
    )


def told(*events: tuple[str, Pod | None]) -> dict[str, str | None]:
    """What each pod was told in the end, after these events."""
    end = Marks()

    async def play() -> None:
        problems: list[str] = []
        applications = Applications(cast("Client", end), problems.append)
        for event, thing in events:
            applications.sees(event, thing)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await applications.stop()
        assert not problems

    asyncio.run(play())
    return end.told


ALL_RUN = [(ADDED, pod(number)) for number in range(3)]
FIVE = {f"gang-{number}": "5000ms" for number in range(3)}


def test_a_gang_runs_its_time_when_the_last_of_its_pods_runs() -> None:
    assert told(*ALL_RUN[:2], (MODIFIED, pod(1))) == {}
    assert told(*ALL_RUN) == FIVE


def test_a_pod_that_is_lost_takes_the_time_from_the_others_until_all_run_again() -> None:
    for gone in ((DELETED, pod(0)), (MODIFIED, pod(0, "Failed"))):
        assert told(*ALL_RUN, gone) == {**FIVE, "gang-1": None, "gang-2": None}
        assert told(*ALL_RUN, gone, (ADDED, pod(7))) == {**FIVE, "gang-7": "5000ms"}


def test_pods_that_have_had_their_time_go_without_a_word_to_the_others() -> None:
    over = [(MODIFIED, pod(number, "Succeeded")) for number in range(3)]
    gone = [(DELETED, pod(number, "Succeeded")) for number in range(3)]
    assert told(*ALL_RUN, *over, *gone) == FIVE


def test_a_new_list_shows_what_went_meanwhile() -> None:
    assert told(*ALL_RUN, (LISTED, pod(0)), (LISTED, pod(1)), (SYNCED, None)) == {
        **FIVE,
        "gang-0": None,
        "gang-1": None,
    }


def test_a_keeper_that_comes_late_goes_by_what_is_listed() -> None:
    listed = [(LISTED, pod(0, "Succeeded")), (LISTED, pod(1)), (LISTED, pod(2))]
    assert told(*listed, (SYNCED, None)) == {"gang-1": "5000ms", "gang-2": "5000ms"}


class Saving:
    """Applications of ten seconds that save how far they are every three, and a clock that is set by hand."""

    def __init__(self, size: int) -> None:
        self.end, self.now, self._size = Marks(), 0, size
        self._events: list[tuple[int, str, str, str]] = []

    def at(self, second: float, event: str, name: str, index: str = "") -> Saving:
        self._events.append((int(second * SECOND), event, name, index))
        return self

    def told(self) -> dict[str, str | None]:
        asyncio.run(self._play())
        return self.end.told

    async def _play(self) -> None:
        applications = Applications(cast("Client", self.end), pytest.fail, SavedProgress(lambda: self.now))
        for when, event, name, index in self._events:
            self.now = when
            labels = {WORKLOAD_LABEL: "work", GANG_LABEL: str(self._size), INDEX_LABEL: index}
            marks = {APPLICATION_ANNOTATION: "10000ms", CHECKPOINT_ANNOTATION: "3000ms"}
            meta = Meta(name=name, namespace="space", labels=labels, annotations=marks)
            applications.sees(event, Pod(metadata=meta, status=PodStatus(phase="Running")))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await applications.stop()


def test_a_gang_that_runs_again_continues_at_its_last_checkpoint() -> None:
    gang = Saving(2).at(0, ADDED, "a").at(1, ADDED, "b").at(8.5, DELETED, "b")
    assert gang.told() == {"a": None, "b": "10000ms"}
    again = Saving(2).at(0, ADDED, "a").at(1, ADDED, "b").at(8.5, DELETED, "b").at(20, ADDED, "c").at(24, DELETED, "a")
    assert again.told() == {"a": "4000ms", "b": "10000ms", "c": None}, "it had run for 7.5 s: 6 s were saved"
    assert again.at(30, ADDED, "d").told()["d"] == "1000ms", "6 s and 4 s: 9 s were saved"


def test_a_run_shorter_than_a_checkpoint_saves_nothing() -> None:
    assert Saving(1).at(0, ADDED, "a", "0").at(2.9, DELETED, "a", "0").at(5, ADDED, "b", "0").told()["b"] == "10000ms"


def test_the_next_pod_of_an_index_continues_where_the_last_one_was() -> None:
    pods = Saving(1).at(0, ADDED, "a", "0").at(0, ADDED, "b", "1").at(4, DELETED, "a", "0").at(5, ADDED, "c", "0")
    assert pods.told() == {"a": "10000ms", "b": "10000ms", "c": "7000ms"}
