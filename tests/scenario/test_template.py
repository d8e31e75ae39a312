"""Templates of `seatrial submit`: options replace the fields they name, everything else stays, mistakes have a place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seatrial.model.errors import ScenarioProblem, UsageProblem
from seatrial.model.units import SECOND
from seatrial.scenario.template import KINDS, Options, blame, read_template, submit_of, template_of

JOB = """\
apiVersion: batch/v1
kind: Job
spec:
  activeDeadlineSeconds: 900
  template:
    metadata: {annotations: {seatrial.dev/duration: 3s}}
    spec:
      priorityClassName: high
      containers:
        - name: main
          image: busybox
          resources: {requests: {cpu: 500m, nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 2}}
        - {name: side, image: busybox, resources: {limits: {cpu: 1}}}
"""


def _spec(options: Options, text: str = JOB) -> tuple[Any, dict[str, Any]]:
    submit = submit_of(template_of(text, "mine.yaml"), options)
    return submit, dict(submit.overlay or {})["spec"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_built_in_template_makes_its_workload(kind: str) -> None:
    submit = submit_of(read_template(None, kind), Options(kind=kind, count=7, parallel=3, delay_s=0.5, pvc=True))
    assert (submit.name, submit.count, submit.pace.size, submit.pace.every) == (kind, 7, 3, SECOND // 2)
    assert submit.sizes == ((2,) if kind == "distributed" else (1,))
    assert (submit.gang, submit.interactive) == (kind == "distributed", kind == "interactive")
    assert submit.shape.requests == {"cpu": 100, "memory": 64 * 2**20}
    assert submit.claim is not None


def test_what_no_option_names_stays_as_it_is_written() -> None:
    submit, spec = _spec(Options())
    assert (spec["activeDeadlineSeconds"], spec["template"]["spec"]["priorityClassName"]) == (900, "high")
    assert submit.duration == 3 * SECOND
    assert submit.shape.requests == {"cpu": 1500, "nvidia.com/gpu": 2}
    assert submit.claim is None


@pytest.mark.parametrize(("gpus", "left"), [(4, 4), (0, None)])
def test_gpus_replace_those_of_the_first_container(gpus: int, left: int | None) -> None:
    submit, spec = _spec(Options(gpus=gpus))
    first, second = spec["template"]["spec"]["containers"]
    assert first["resources"]["requests"].get("nvidia.com/gpu") == left
    assert first["resources"]["limits"].get("nvidia.com/gpu") == left
    assert second["resources"] == {"limits": {"cpu": 1}}
    assert submit.shape.requests.get("nvidia.com/gpu") == left


def test_workers_come_beside_the_launcher() -> None:
    submit, spec = _spec(Options(kind="distributed", workers=7))
    assert (submit.sizes, spec["parallelism"], spec["completions"]) == ((8,), 8, 8)


def test_reading_a_template_twice_gives_the_same_template_unchanged() -> None:
    template = template_of(JOB, "mine.yaml")
    first = submit_of(template, Options(gpus=4, kind="distributed", workers=2))
    assert submit_of(template, Options()) == submit_of(template_of(JOB, "mine.yaml"), Options())
    assert first == submit_of(template, Options(gpus=4, kind="distributed", workers=2))


@pytest.mark.parametrize(
    ("change", "options", "place", "says"),
    [
        (("kind: Job", "kind: Pod"), {}, "2:7", "does not belong in a template"),
        (("kind: Job", "kind: Job\nmetadata: {namespace: mine}"), {}, "3:23", "--project"),
        (("kind: Job", "kind: Job\nmetadata: {name: mine}"), {}, "3:18", "remove it"),
        (("cpu: 500m", "cpu: many"), {}, "12:39", "500m"),
        (
            ("nvidia.com/gpu: 2}, limits", "nvidia.com/gpu: 460m}, limits"),
            {},
            "12:61",
            "whole number of nvidia.com/gpu",
        ),
        (("3s", "soon"), {}, "6:53", "10s"),
        (("3s", "3"), {}, "6:53", "text"),
        (("3s", "3s"), {"kind": "interactive"}, "6:53", "stays until it is deleted"),
        (("containers:", "initContainers:"), {}, "8:7", "there is no container"),
        (("containers:", "initContainers:"), {"gpus": 1}, "8:7", "for -g to set"),
        (("containers:", "initContainers:"), {"pvc": True}, "8:7", "for --pvc to mount"),
        (("requests: {cpu: 500m, nvidia.com/gpu: 2}", "requests: 5"), {"gpus": 1}, "12:", "-g cannot set"),
        (("requests: {cpu: 500m, nvidia.com/gpu: 2}", "requests: 5"), {}, "12:", "is not a mapping"),
        (("kind: Job", "kind: Job"), {"pvc": True}, "1:1", "--pvc needs a claim"),
        (("kind: Job", "kind: Job"), {"kind": "distributed"}, "4:3", "--num-workers"),
        (("activeDeadlineSeconds: 900", "completions: 0"), {}, "4:16", "1 or more"),
        (("activeDeadlineSeconds: 900", "parallelism: two"), {}, "4:16", "whole number"),
        (("  template:", "  template: 5\n  other:"), {}, "5:13", "is not a mapping"),
        (("kind: Job", "kind: Job\nkind: Job"), {}, "3:1", "is a duplicate key"),
        (("spec:\n", "spec: [\n"), {}, "", "not YAML"),
        ((JOB, "- 1\n"), {}, "1:1", "a manifest is a mapping"),
        ((JOB, ""), {}, "1:1", "one Job"),
        ((JOB, f"{JOB}---\n{JOB}"), {}, "1:1", "one Job"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_a_remedy(
    change: tuple[str, str], options: dict[str, Any], place: str, says: str
) -> None:
    with pytest.raises(ScenarioProblem) as raised:
        submit_of(template_of(JOB.replace(*change, 1), "mine.yaml"), Options(**options))
    assert f"mine.yaml:{place}" in str(raised.value)
    assert says in str(raised.value)
    assert all(mistake.remedy for mistake in raised.value.mistakes)


@pytest.mark.parametrize(
    ("code", "said", "place"),
    [
        (400, 'strict decoding error: unknown field "spec.template.spec.containers[1].imag"', "mine.yaml:13:11"),
        (422, 'Job.batch "a" is invalid: spec.template.spec.containers[0].image: Required value', "mine.yaml:11:18"),
        (422, 'Job.batch "a" is invalid: something', "mine.yaml:1:1"),
        (422, 'jobs.batch "a" is forbidden: a policy denied request: no spec.template here', ""),
        (400, "admission webhook does not support dry run", ""),
    ],
)
def test_the_servers_words_get_their_place(code: int, said: str, place: str) -> None:
    problem = blame(template_of(JOB, "mine.yaml"), "Job", code, said)
    assert (str(problem.mistakes[0]).split(": ")[0] if problem else "") == place


def test_a_template_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no such file") as raised:
        read_template(tmp_path / "none.yaml", "training")
    assert "templates --write" in raised.value.remedy
