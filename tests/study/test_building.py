"""A stack that cannot be built is left out with a line, and the others run; alone, it is the error."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from seatrial.cli.run_plan import _built
from seatrial.clusters.programs import binaries
from seatrial.model.control_plane import GoBinary
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Target, Trial
from tests.sim.making import fakes, submit, to_the_end, trial


def _on_local(stack: str) -> Trial:
    return dataclasses.replace(trial(*to_the_end(submit(1)), nodes=[fakes(1)], stack=stack), on="local")


@pytest.fixture(autouse=True)
def no_mcad(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(wanted: Sequence[GoBinary], _given: Path | None = None) -> dict[str, Path]:
        if any(binary.name == "mcad" for binary in wanted):
            raise SetupProblem("mcad could not be built: go ended with status 1", "Try it by hand.")
        return {}

    monkeypatch.setattr(binaries, "ensure_binaries", build)


def test_the_others_run() -> None:
    left, lines = _built(Target(), [_on_local("default"), _on_local("mcad"), _on_local("kueue")])
    assert [kept.setup.stack for kept in left] == ["default", "kueue"]
    assert lines == ["the stack 'mcad' is skipped: mcad could not be built: go ended with status 1 (Try it by hand.)"]


def test_alone_it_is_the_error() -> None:
    with pytest.raises(SetupProblem, match="mcad could not be built"):
        _built(Target(), [_on_local("mcad")])
