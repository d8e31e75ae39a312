"""`-o OUT` is the study in every command; the forms from before still work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_verbosity import SCENARIO
from tests.conftest import Seatrial
from tests.docs.test_docs import LEAVES


@pytest.fixture
def study(seatrial: Seatrial, tmp_path: Path) -> Path:
    (tmp_path / "s.yaml").write_text(SCENARIO.replace("cpu: 8", "cpu: 1"))
    assert seatrial("run", "s.yaml", "-o", "out").returncode == 0
    return tmp_path / "out"


def test_one_option_names_the_study_and_an_argument_does_too(seatrial: Seatrial, study: Path) -> None:
    for command in (("report",), ("plot",), ("compare",), ("export", "--to", "seeds", "--into", "t.md")):
        for where in (("-o", study.name), (study.name,)):
            done = seatrial(*command, *where)
            # A study of one set-up cannot be compared: that is said of the study, not of the options.
            assert done.returncode == (2 if command == ("compare",) else 0), (command, where, done.stderr)
            assert "no study directory" not in done.stderr


def test_export_takes_the_file_as_before(seatrial: Seatrial, study: Path, tmp_path: Path) -> None:
    assert seatrial("export", study.name, "--to", "openmetrics", "-o", "m.txt").returncode == 0
    assert (tmp_path / "m.txt").is_file()


@pytest.mark.parametrize("command", ["report", "plot", "sample", "export --to seeds"])
def test_without_a_study_or_with_two_it_is_said_what_to_write(seatrial: Seatrial, command: str) -> None:
    none = seatrial(*command.split())
    assert none.returncode == 2
    assert "-o OUT" in none.stderr
    if not command.startswith("export"):
        two = seatrial(*command.split(), "a", "-o", "b")
        assert two.returncode == 2
        assert "two study directories: a and -o b" in two.stderr


def test_the_option_has_one_meaning_in_all_commands() -> None:
    """Except in the former form of two commands, which their help does not name."""
    shown = [param for leaf in LEAVES.values() for param in leaf.params if "-o" in param.opts and not param.hidden]
    assert len(shown) > 6
    assert {param.metavar for param in shown} == {"OUT"}


@pytest.mark.parametrize("option", ["--into", "-o"])
def test_nodes_are_written_into_a_file_which_the_former_option_names_too(seatrial: Seatrial, option: str) -> None:
    assert "--into nodes.yaml" in seatrial("record", "nodes", "--kubeconfig", "none").stderr
    assert "there is no directory no" in seatrial("record", "nodes", "--kubeconfig", "none", option, "no/n.yaml").stderr
