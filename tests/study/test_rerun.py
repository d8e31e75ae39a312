"""study.json is enough to repeat a study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seatrial.model.errors import SeatrialError
from seatrial.study.rerun import earlier_run


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "describes no study"),
        ('{"format": 9, "seatrial": "7.0"}', "written by seatrial 7.0"),
        ('{"format": 1, "name": "submit", "scenario": {}}', "holds no scenario (submit)"),
    ],
)
def test_a_study_json_that_cannot_be_run_again_says_why(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(SeatrialError) as caught:
        earlier_run(str(tmp_path / "study.json"))
    assert said in caught.value.message
    assert caught.value.remedy


def test_what_was_asked_for_and_where_it_ran_come_back(tmp_path: Path) -> None:
    assert earlier_run("many-small-jobs") is None, "a scenario is not a study"
    setups = {"mine": {"stack": "default", "components": {"kube-scheduler": {"binary": "bin/scheduler"}}}}
    document = {
        "format": 1, "name": "x", "on": "local", "seed": 5, "scenario": {"name": "x", "steps": [{"pause": "1s"}], "setups": setups},
        "asked": {"file": "scenarios/x.yaml", "setup": ["mine"], "stack": None, "set": {"jobs": [1, 2]}, "repeat": 4},
        "target": {"cluster": "kept", "server": "https://127.0.0.1:1", "profile": ["kube-scheduler"]},
    }  # fmt: skip
    (tmp_path / "study.json").write_text(json.dumps(document))
    found = earlier_run(str(tmp_path / "study.json"))
    assert found is not None
    assert (found.on, found.setups, found.sets, found.repeat, found.seed) == ("local", ["mine"], {"jobs": [1, 2]}, 4, 5)
    assert (found.target.cluster, found.target.server, found.target.profile) == ("kept", "", ("kube-scheduler",))
    binary = found.scenario.document["setups"]["mine"]["components"]["kube-scheduler"]["binary"]
    assert Path(binary) == Path("scenarios/bin/scheduler").absolute(), "found from where the scenario stood"
