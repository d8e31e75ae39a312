"""The pages say what the program has: a command, option, stack, setting or column that nobody described is a failure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from seatrial import stacks
from seatrial.analysis.sizes import SIZE_COUNTS, SIZE_TIMES
from seatrial.analysis.studies import Study
from seatrial.analysis.tables import write_tables
from seatrial.cli.main import app
from seatrial.model.figures import FIGURES, GROUPS
from seatrial.model.settings import CONTROL_PLANE, Setting
from seatrial.model.units import format_duration
from seatrial.scenario.document import from_text, read
from seatrial.scenario.expansion import expand
from seatrial.study.executors import run_all
from seatrial.study.study_directory import make_empty, study_document, write_study
from tests.docs import figures_table

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ALL = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
README = (ROOT / "README.md").read_text(encoding="utf-8")
STUDY = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")

_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, sub in inner.items():
        yield from _commands(sub, f"{path} {name}")


LEAVES = dict(_commands(get_command(app), "seatrial"))


class _Silent:
    def started(self, trial: str) -> None: ...
    def update(self, trial: str, submitted: int, completed: int, of: int, virtual_s: float, requests: int) -> None: ...
    def ended(self, trial: str, outcome: str, figures: dict[str, object]) -> None: ...


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real run of every set-up; `out/mine`, as the pages call it."""
    out = tmp_path_factory.mktemp("docs") / "out" / "mine"
    scenario = read("many-small-jobs")
    known = {name: stacks.find(name).settings for name in stacks.names()}
    trials = expand(
        scenario, on="sim", stacks=known, pick_setups=None, pick_stacks=None, sets={"jobs": [2]}, repeat=1, seed=None
    )
    make_empty(out, force=False)
    write_study(out, {**study_document(scenario.name, scenario.document, trials, {}), "run": {}})
    assert [outcome.outcome for outcome in run_all(trials, out, _Silent(), jobs=1)] == ["completed"] * len(trials)
    write_tables(Study.open(out))
    return out


def _row(page: str, setting: Setting) -> str:
    """The table row of a setting, or nothing."""
    start = f"| `{setting.component}` | `{setting.name}` |"
    return next((line for line in page.splitlines() if line.startswith(start)), "")


def _shown(setting: Setting) -> str:
    return format_duration(int(setting.default)) if setting.kind == "duration" else str(setting.default)


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("command", LEAVES)
def test_every_command_is_on_a_page(command: str) -> None:
    assert re.search(rf"{re.escape(command)}(?![\w-])", ALL), f"no page says `{command}`"


@pytest.mark.parametrize("command", LEAVES)
def test_every_command_has_an_example_in_its_help(command: str) -> None:
    leaf = LEAVES[command]
    assert re.search(rf"Example: .*{re.escape(command)}(?![\w-])", f"{leaf.help} {leaf.epilog}"), (
        "its --help has no example"
    )


@pytest.mark.parametrize("command", ["run", "find", "submit", "sample", "plot", "traces inspect"])
def test_every_option_is_in_the_commands_table_with_its_argument_and_the_other_way_round(command: str) -> None:
    section = COMMANDS.partition(f"\n## Options of `seatrial {command}`\n")[2].partition("\n## ")[0]
    described = set(re.findall(r"`(--?[\w-]+)[^`]*`", "\n".join(re.findall(r"^\| (`-.*?) \|", section, re.MULTILINE))))
    params = LEAVES[f"seatrial {command}"].params
    names = {name for param in params for name in (*param.opts, *param.secondary_opts) if name.startswith("-")}
    common = set(re.findall(r"`(--?\w+)`", COMMANDS.partition("\n## Logging\n")[2].partition("\n## ")[0]))
    assert {"-v", "--verbose", "-q", "--quiet"} <= common, "every command has them: they stand in a table of their own"
    assert described == names - common
    wordless = [param.name for param in params if not param.help]
    assert not wordless, f"--help says nothing of {wordless}"


@pytest.mark.parametrize("name", stacks.names())
def test_every_stack_has_a_page_that_the_readme_names(name: str) -> None:
    page = ROOT / "docs" / "stacks" / f"{name}.md"
    assert page.is_file(), f"docs/stacks/{name}.md is missing"
    assert f"`{name}`" in README
    text = page.read_text(encoding="utf-8")
    others = "" if name == "default" else (page.parent / "default.md").read_text(encoding="utf-8")
    missing = [stage.name for stage in stacks.find(name).stages if f"`{stage.name}`" not in text + others]
    assert not missing, f"docs/stacks/{name}.md does not describe the stages {missing}"


@pytest.mark.parametrize("setting", CONTROL_PLANE, ids=lambda s: f"{s.component}.{s.name}")
def test_every_setting_of_the_control_plane_stands_with_its_default(setting: Setting) -> None:
    row = _row((ROOT / "docs" / "simulator.md").read_text(encoding="utf-8"), setting)
    assert f"| {_shown(setting)} |" in row


@pytest.mark.parametrize("name", stacks.names())
def test_every_setting_of_a_stack_stands_on_its_page_with_its_default(name: str) -> None:
    page = (ROOT / "docs" / "stacks" / f"{name}.md").read_text(encoding="utf-8")
    wrong = [s.name for s in stacks.find(name).settings if f"| {_shown(s)} |" not in _row(page, s)]
    assert not wrong, f"docs/stacks/{name}.md lacks, or has another default for, {wrong}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_is_broken(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert not broken


def test_the_page_of_figures_has_the_table_of_figures() -> None:
    assert figures_table.written() == figures_table.table(), "run python -m tests.docs.figures_table"


def test_every_figure_that_a_page_asks_by_a_group_can_be_asked_so() -> None:
    """`p99_s(phase=prod)` in a page: the figure exists and knows the group."""
    asked = re.findall(rf"\b(\w+)\((?:[\w+-]+, )?({'|'.join(GROUPS)})=", ALL)
    assert asked and not [
        (name, group) for name, group in asked if name not in FIGURES or group not in FIGURES[name].groups
    ]


@pytest.mark.parametrize("table", ["times.csv", "pods.csv", "summary.csv"])
def test_every_column_is_described(study: Path, table: str) -> None:
    section = STUDY.partition(f"\n## {table}\n")[2].partition("\n## ")[0]
    section += figures_table.written() if table == "summary.csv" else ""
    columns = (study / table).read_text(encoding="utf-8").splitlines()[0].split(",")
    trial = json.loads(next((study / "trials").glob("*/trial.json")).read_text(encoding="utf-8"))
    params = {text for name in trial["params"] for text in (name, f"param_{name}")} - {"pods"}
    missing = [column for column in columns if column not in params and f"`{column}`" not in section]
    assert not missing, f"docs/study.md does not describe {missing} of {table}"


def test_every_column_of_sizes_is_described() -> None:
    section = STUDY.partition("\n## sizes.csv\n")[2].partition("\n## ")[0]
    assert not [column for column in ("setup", "stack", *SIZE_COUNTS, *SIZE_TIMES) if f"`{column}`" not in section]


def test_every_field_of_the_json_files_is_described(study: Path) -> None:
    trial = json.loads(next((study / "trials").glob("*/trial.json")).read_text(encoding="utf-8"))
    document = json.loads((study / "study.json").read_text(encoding="utf-8"))
    assert not [field for field in {**trial, **document} if f"`{field}`" not in STUDY]


def test_every_file_of_a_study_is_named(study: Path) -> None:
    names = {path.name for path in study.rglob("*") if path.is_file()}
    assert not [name for name in names if name not in STUDY]


def test_the_polars_example_works(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [example] = re.findall(r"^```python\n(.*?)^```$", STUDY, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(study.parents[1])
    exec(compile(example, "docs/study.md", "exec"), {})
    assert "time_to_start_s" in capsys.readouterr().out


def test_the_readmes_scenario_can_be_run(tmp_path: Path) -> None:
    [example, patched] = re.findall(r"^```yaml\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (tmp_path / "mine.yaml").write_text(example, encoding="utf-8")
    known = {name: stacks.find(name).settings for name in stacks.names()}
    trials = expand(
        read(str(tmp_path / "mine.yaml")), on="sim", stacks=known, pick_setups=None, pick_stacks=None, sets={},
        repeat=None, seed=None,
    )  # fmt: skip
    assert len(example.splitlines()) == 10
    assert len(trials) == 12  # as the text below it says
    assert len(from_text(patched, "patched.yaml").document["setups"]) == 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_picture_has_its_command_next_to_it_and_is_made_again_with_all_others(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    made = (ROOT / "benchmarks" / "pictures.py").read_text(encoding="utf-8")
    for number, line in enumerate(lines):
        for link in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", line):
            above = "\n".join(lines[max(number - 4, 0) : number])
            assert re.search(r"`(?:seatrial|make) [^`]+`", above), f"{page.name}:{number + 1}: no command above {link}"
            assert f'"{Path(link).name}"' in made, f"benchmarks/pictures.py does not make {link}"


def test_no_picture_lies_about_unused() -> None:
    assert not [path.name for path in (ROOT / "docs" / "pictures").iterdir() if f"pictures/{path.name})" not in ALL]
