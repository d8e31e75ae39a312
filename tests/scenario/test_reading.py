"""From bytes to a marked document: what is no scenario at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.model.errors import ScenarioProblem, UsageProblem
from seatrial.scenario import yaml_reader
from seatrial.scenario.document import from_text, read
from seatrial.scenario.yaml_reader import MOST_VALUES
from tests.effort import costs_at_most
from tests.scenario.support import SMALL

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

UNREADABLE = {
    "empty": ("", "s.yaml: the file is empty (start with `name:`"),
    "only comments": ("# nothing\n", "s.yaml: the file is empty"),
    "null": ("~\n", "s.yaml: the file is empty"),
    "a list": ("- name: x\n", "s.yaml:1:1: a scenario is a mapping of keys to values (start with `name:`)"),
    "a word": ("\nhello\n", "s.yaml:2:1: a scenario is a mapping"),
    "a tab": ("nodes:\n\t- x\n", "s.yaml:2:1: not YAML: found character that cannot start any token (indent with spaces"),
    "an open quote": ("name: 'x\nabout: y\n", "s.yaml:3:1: not YAML: found unexpected end of stream (look at"),
    "two colons": ("name: a: b\n", "s.yaml:1:8: not YAML: mapping values are not allowed in this context (look at"),
    "a param without quotes": ("submit: {count: ${jobs}}\n", 'write "${param}" in quotes)'),
    "a reserved sign": ("name: @x\n", "s.yaml:1:7: not YAML: found character that cannot start any token (put the text in quotes)"),
    "two documents": ("name: a\n---\nname: b\n", "s.yaml:2:1: a second document (a file holds one scenario"),
    "a tag": ("name: !!binary aGk=\n", "s.yaml:1:7: tags like tag:yaml.org,2002:binary are not supported (remove the tag"),
    "a list as key": ("? [a, b]\n: 1\n", "s.yaml:1:3: a key must be plain text"),
    "an alias of nothing": ("name: *x\n", "s.yaml:1:7: no anchor '&x' before this alias (define it"),
    "an alias of itself": ("name: &x [*x]\n", "s.yaml:1:11: no anchor '&x' before this alias"),
    "absurd depth": ("a: " + "[" * 5000, "s.yaml:1:44: nested deeper than 40 levels"),
    "a bomb of aliases": (BOMB, "s.yaml:1:"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_one_line_with_place_and_remedy(text: str, message: str) -> None:
    with pytest.raises(ScenarioProblem) as caught:
        from_text(text, "s.yaml")
    [line] = str(caught.value).splitlines()
    assert message in line
    assert line.endswith(")")


def test_a_bomb_of_aliases_is_refused_before_it_costs_anything() -> None:
    def refused(text: str) -> None:
        with pytest.raises(ScenarioProblem, match="values once aliases are expanded"):
            from_text(text, "s.yaml")

    no_bomb = "a: [" + "x, " * MOST_VALUES + "]\n"
    costs_at_most(3, lambda: refused(no_bomb), lambda: refused(BOMB))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"name: x\nabout: \xff\n", "s.yaml:2:8: the file is not UTF-8 (byte 0xff) (save it as UTF-8 text)"),
        ("name: x".encode("utf-16"), "s.yaml:1:1: the file is not UTF-8"),
        (b"name: \x00\n", "s.yaml:1:7: control character U+0000 (remove it; is this a text file?)"),
        ("é: \ufeff\n".encode(), "s.yaml:1:4: control character U+FEFF"),
        (b" " * (yaml_reader.LARGEST_FILE + 1), "s.yaml: the file is larger than 1 MiB (a scenario is a page of YAML)"),
    ],
)
def test_bytes_that_are_no_text_are_refused_with_their_place(
    raw: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_bytes(raw)
    with pytest.raises(ScenarioProblem) as caught:
        read("s.yaml")
    assert str(caught.value).startswith(message)


def test_a_byte_order_mark_at_the_start_is_no_matter(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SMALL, encoding="utf-8-sig")
    assert read(file).name == "small"


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioProblem, match=r"is a directory \(name a scenario file in it\)"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["many-smal-jobs", "scenarios/many-small-job.yaml"])
def test_a_missing_file_suggests_the_nearest_scenario_that_comes_with_seatrial(name: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        read(name)
    assert caught.value.message.startswith(f"{name}: no such file")
    assert caught.value.remedy == "did you mean 'many-small-jobs'?"


@pytest.mark.parametrize("name", ["", "x" * 5000, "no\0name"])
def test_no_name_of_a_file_is_too_odd(name: str) -> None:
    with pytest.raises(UsageProblem):
        read(name)


def test_scalars_follow_yaml_1_2_and_what_json_cannot_hold_stays_text() -> None:
    text = (
        "v: [on, yes, no, off, 1:30, 017, 0o17, 0x1F, 1e3, 1_000, .inf, .nan, 2001-01-01, +5, true, False, '1', 1e999]"
    )
    assert from_text(text, "s.yaml").document["v"] == [
        "on", "yes", "no", "off", "1:30", 17, 15, 31, 1000.0, "1_000", ".inf", ".nan", "2001-01-01", 5, True, False,
        "1", "1e999",
    ]  # fmt: skip


def test_a_number_of_absurd_length_stays_text() -> None:
    assert from_text(f"v: {'9' * 5000}", "s.yaml").document["v"] == "9" * 5000


def test_keys_are_text_whatever_they_look_like() -> None:
    assert from_text("{1: a, true: b, on: c}", "s.yaml").document == {"1": "a", "true": "b", "on": "c"}


def test_anchors_and_aliases_are_written_out_with_their_places() -> None:
    scenario = from_text("a: &x {b: 1}\nc: *x\n", "s.yaml")
    assert scenario.document == {"a": {"b": 1}, "c": {"b": 1}}
    assert scenario.source.place(("c", "b")) == (1, 11)


def test_places_are_those_of_an_editor() -> None:
    source = from_text("name: é\nlist:\n  - {ä: 1, b: 2}\n", "s.yaml").source
    assert source.place(("list", 0, "b")) == (3, 15)
    assert source.place(("list", 0, "b"), key=True) == (3, 12)
    assert source.place(("list", 0, "b", "deeper")) == (3, 15)
