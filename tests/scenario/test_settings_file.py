"""`seatrial.toml`: what it says, and where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.model.errors import SeatrialError
from seatrial.model.settings import OWN, own
from seatrial.model.units import MILLISECOND
from seatrial.scenario.document import from_text
from seatrial.scenario.expansion import expand
from seatrial.scenario.settings_file import NAME, read_settings, with_settings_file

ROOT = Path(__file__).parents[2]


def test_no_file_leaves_every_setting_at_its_default(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == {}
    assert [own({}, setting.component, setting.name) for setting in OWN] == [setting.default for setting in OWN]


def test_what_is_given_wins_and_durations_are_nanoseconds(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(
        '[measure]\nresolution = "10ms"\nstages = ["queued", "admitted"]\n[submit]\nrate = 50\n'
    )
    found = read_settings(tmp_path)
    assert found == {
        "measure": {"resolution": 10 * MILLISECOND, "stages": "queued,admitted"},
        "submit": {"rate": 50},
    }
    assert own(found, "submit", "rate") == 50
    assert own(found, "submit", "command") == ""


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ('[submit]\ncomand = "x"\n', "seatrial.toml:2:1:", "did you mean 'command'?"),
        ('[submit]\nrate = "fast"\n', "seatrial.toml:2:8:", "not a number"),
        ("[submit]\nrate = -1\n", "seatrial.toml:2:8:", "not a number"),
        ("[measure]\nresolution = 5\n", "seatrial.toml:2:14:", "duration"),
        ("\n[mesure]\nresolution = 5\n", "seatrial.toml:2:2:", "did you mean 'measure'?"),
        ("[kube-scheduler]\nqps = 5\n", "seatrial.toml:1:2:", "unknown component"),
        ("rate = 5\n", "seatrial.toml:1:", "outside of any table"),
        ("[submit]\nrate =\n", "seatrial.toml:2:", "not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_a_remedy(tmp_path: Path, text: str, place: str, says: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(SeatrialError) as raised:
        read_settings(tmp_path)
    said = "\n".join(raised.value.lines())
    assert place in said
    assert says in said
    assert "(" in said, "no remedy"


def test_every_setting_of_ours_is_on_the_page_of_commands() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert not [s.name for s in OWN if f"| `{s.component}` | `{s.name}` |" not in page]


def test_a_scenario_has_the_files_settings_where_it_has_none_of_its_own(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('[measure]\nresolution = "10ms"\nstages = "queued"\n[submit]\nrate = 50\n')
    text = """
name: mine
nodes: [{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}}]
stacks: [default]
settings: {measure: {stages: admitted}}
steps: [{submit: {count: 1, duration: 1s}}]
"""
    scenario = with_settings_file(from_text(text, "mine.yaml"), tmp_path)
    assert scenario.document["settings"] == {
        "measure": {"resolution": "10ms", "stages": "admitted"},
        "submit": {"rate": 50},
    }
    [trial] = expand(scenario, on="sim", stacks={"default": ()})
    assert trial.setup.client.rate == 50
    assert own(trial.setup.settings, "measure", "resolution") == 10 * MILLISECOND
