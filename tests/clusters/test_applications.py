"""Who plays a gang's application knows it from the pods alone, and learns from a new list what went while nobody watched."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from seatrial.clusters.live.applications import Applications
from seatrial.kube import Client, Resource
from seatrial.kube.shapes import Meta, Pod, PodStatus
from seatrial.kube.watching import ADDED, DELETED, LISTED, MODIFIED, SYNCED
from seatrial.model.labels import APPLICATION_ANNOTATION, DURATION_ANNOTATION, GANG_LABEL, WORKLOAD_LABEL


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
