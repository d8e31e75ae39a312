"""report.html as a person meets it: in a real browser, from the disk, with a mouse, a keyboard and a phone's width."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from seatrial.analysis.studies import Study
from seatrial.report.page import write_page
from seatrial.report.serving import StudyServer
from seatrial.scenario.document import shipped_files
from tests.analysis.making import MS, Job, Made, plain, write_study
from tests.analysis.test_comparing import FAST, SLOW, study, trials
from tests.page.conftest import FIGURES, Opened

SCRIPT = "<script>alert(1)</script>"
HOSTILE = (SCRIPT, "</script><img src=x onerror=alert(2)>", "\u2028'\"`${alert(3)}<!--", "n" * 250)

TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


OVERLAPPING = """() => [...document.querySelectorAll('figure.lines svg')].flatMap((picture) => {
  const boxes = [...picture.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([a, x], n) => boxes.slice(n + 1)
    .filter(([, y]) => x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 3 && y.top < x.bottom - 3)
    .map(([b]) => `${a} / ${b}`));
})"""

CUT = """() => [...document.querySelectorAll('.rows .stage')]
  .filter((stage) => stage.scrollWidth > stage.clientWidth).map((stage) => stage.textContent)"""


def overflow(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@pytest.mark.parametrize("scenario", sorted(shipped_files()))
def test_the_report_of_every_shipped_scenario_opens(scenario: str, studies: dict[str, Path], opened: Opened) -> None:
    if scenario not in studies:
        pytest.skip(f"no set-up of {scenario} runs on the simulator")
    out = studies[scenario]
    for width, theme in ((1280, "light"), (390, "dark")):
        page = opened(out, width, theme)
        assert page.title().startswith(scenario)
        assert page.locator("h1").inner_text() == scenario
        assert overflow(page) == 0, "a page that has to be pushed sideways"
        assert page.locator("section").count() >= 3
        assert not page.evaluate(OVERLAPPING), "labels of a chart over each other"
        assert not page.evaluate(CUT), "names of stages that are cut off"


def test_the_use_of_gpus_is_in_sight_at_1280_pixels(tmp_path: Path, opened: Opened) -> None:
    nodes = [
        {"group": "gpu", "count": 2, "capacity": {"cpu": 32000, "nvidia.com/gpu": 8}, "from_ns": 0, "until_ns": None}
    ]
    asks = {"cpu": 1000, "nvidia.com/gpu": 8}
    made = [
        Made([plain(took=60_000, pods=4)] * 9, setup=f"a-long-name-of-a-set-up-{n}", number=3 * n + jobs, params={"jobs": jobs},
             requests=asks, nodes=nodes, gang=True)
        for n in range(2) for jobs in range(2)
    ]  # fmt: skip
    write_page(Study.open(write_study(tmp_path / "out", made)))
    page = opened(tmp_path / "out", 1280, "light")
    table = page.locator("#summary-table")
    heading = table.get_by_role("columnheader", name="gpu used").bounding_box()
    box = table.bounding_box()
    assert heading["x"] + heading["width"] <= box["x"] + box["width"]


def test_a_heading_sorts_by_click_and_by_keyboard(studies: dict[str, Path], opened: Opened) -> None:
    page = opened(studies["many-small-jobs"])
    table = page.locator("#summary-table")
    heading = table.get_by_role("columnheader", name="total time s")

    def totals() -> list[float]:
        place = heading.evaluate("(cell) => cell.cellIndex")
        cells = table.locator("tbody tr").evaluate_all(f"(rows) => rows.map((row) => row.cells[{place}].dataset.value)")
        return [float(cell) for cell in cells]

    before = totals()
    heading.get_by_role("button").click()
    assert totals() == sorted(before) != before
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert totals() == sorted(before, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"


def test_what_has_no_value_is_sorted_last_either_way(studies: dict[str, Path], opened: Opened) -> None:
    page = opened(studies["gang-ensemble"])
    button = page.locator("#summary-table").get_by_role("button", name="total time s")
    for _ in range(2):
        button.click()
        assert page.locator("#summary-table tbody tr").last.locator("th b").inner_text() == "default"


def test_the_timeline_is_zoomed_moved_and_shown_whole_again(studies: dict[str, Path], opened: Opened) -> None:
    page = opened(studies["gang-ensemble"])
    figure = page.locator("figure.timeline")
    canvas = figure.locator("canvas").nth(1)

    def window() -> tuple[float, float]:
        page.evaluate(TWO_FRAMES)
        start, end = str(canvas.get_attribute("data-window")).split(",")
        return float(start), float(end)

    whole = window()
    assert whole[0] == 0
    figure.get_by_role("button", name="zoom in on the time").click()
    near = window()
    assert near[1] - near[0] == pytest.approx(0.6 * whole[1])
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 500, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, box["y"] + 40)
    page.mouse.up()
    moved = window()
    assert moved[0] < near[0]
    assert moved[1] - moved[0] == pytest.approx(near[1] - near[0])
    page.mouse.wheel(0, -200)  # zooms, and does not scroll the page, once it was clicked
    assert window()[1] - window()[0] < moved[1] - moved[0]
    page.keyboard.press("0")
    assert window() == whole
    page.mouse.move(box["x"] + 300, box["y"] + 12)
    assert "lammps-" in page.locator("#tip").inner_text()
    figure.get_by_role("button", name="workloads").click()
    assert window() == whole
    figure.get_by_role("searchbox").fill("lammps-7")
    assert float(str(canvas.get_attribute("data-rows")).split(",")[1]) >= 0


def test_the_clog_is_marked_and_its_graph_says_who_holds_and_who_waits(
    studies: dict[str, Path], opened: Opened
) -> None:
    out = studies["gang-ensemble"]
    clog = json.loads(next((out / "trials").glob("*-default-*/trial.json")).read_text())["clog"]
    assert clog["kind"] == "gang deadlock", "the small form still clogs"
    page = opened(out)
    assert "default clogged" in page.locator(".answer").inner_text()
    members = page.locator("#clog .member")
    assert members.count() == clog["workloads_in_all"]
    first = members.first
    assert first.locator("text").first.text_content() == clog["workloads"][0]
    first.click()
    said = page.locator("#clog .picked").inner_text()
    assert said.startswith(f"{clog['workloads'][0]} has places for")
    assert "It waits for what" in said
    page.keyboard.press("Enter")  # it has the focus still: puts it aside again
    assert page.locator("#clog .picked").inner_text() == ""


def test_light_and_dark_follow_the_system_until_somebody_chooses(studies: dict[str, Path], opened: Opened) -> None:
    page = opened(studies["gang-ensemble"], theme="dark")
    paper = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("html[data-theme='light']")
    light = page.evaluate(paper)
    assert light != dark
    page.locator("#theme").click()
    assert page.evaluate(paper) == dark
    for system in ("dark", "light"):
        page.emulate_media(color_scheme=system)
        page.evaluate(TWO_FRAMES)
    assert page.evaluate(paper) == dark, "what was chosen stays"
    page.locator("#theme").click()
    assert page.evaluate(paper) == light


def test_it_prints_on_white_with_all_charts_and_without_buttons(studies: dict[str, Path], opened: Opened) -> None:
    page = opened(
        studies["gang-ensemble"], theme="dark", scroll=False
    )  # nobody looked at them, and they are drawn all the same
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert not page.locator(".controls").first.is_visible()
    assert page.pdf().startswith(b"%PDF")


def hostile_study(out: Path) -> Path:
    jobs = [plain(n * 100, pods=2, name=name) for n, name in enumerate(HOSTILE)]
    jobs += [Job({"submitted": 0, "created": 1}, [], size=1, name=f"waits {SCRIPT}")]
    edges = [
        {"holder": HOSTILE[n - 1], "where": SCRIPT, "amount": {"cpu": 1000, SCRIPT: 1}, "waiter": name}
        for n, name in enumerate(HOSTILE)
    ]
    clog = {
        "kind": "gang deadlock", "summary": f"{SCRIPT} holds and {'n' * 250} waits", "at_ns": 5_000 * MS, "proven": True,
        "workloads": list(HOSTILE), "waiters": [f"waits {SCRIPT}"], "waiters_in_all": 1, "nodes": [SCRIPT], "edges": edges,
        "amounts": {SCRIPT: {SCRIPT: 1}}, "words": [SCRIPT],
    }  # fmt: skip
    audits = [{"audit": SCRIPT, "count": 1, "finding": f"found {SCRIPT}"}]
    trials = [
        Made(jobs, setup=name, stack=SCRIPT, number=n, params={SCRIPT: value}, outcome="clogged", gang=True,
             also={"clog": clog, "audits": audits, "detail": SCRIPT, "validity": {"valid": False, "reasons": [SCRIPT]}})
        for n, (name, value) in enumerate(((SCRIPT, 1), (SCRIPT, HOSTILE[1]), ("n" * 250, 1), ("n" * 250, 2)))
    ]  # fmt: skip
    write_study(out, trials)
    study = json.loads((out / "study.json").read_text())
    study |= {
        "name": SCRIPT,
        "scenario": {"about": SCRIPT},
        "run": {"command": ["seatrial", SCRIPT], "started": SCRIPT},
    }
    (out / "study.json").write_text(json.dumps(study))
    state = {
        "nodes": [{"name": SCRIPT}],
        "workloads": [{"name": name, "size": 2, "nodes": [0], "said": SCRIPT} for name in HOSTILE],
    }
    for trial in (out / "trials").iterdir():
        (trial / "nodes.txt").write_text(f"{SCRIPT}\n{'n' * 250}\n")
        (trial / "snapshot-clog.json.gz").write_bytes(gzip.compress(json.dumps(state).encode()))
    return out


def test_names_that_are_markup_or_endless_are_harmless_and_readable(tmp_path: Path, opened: Opened) -> None:
    out = hostile_study(tmp_path)
    write_page(Study.open(out))
    for width in (1280, 390):
        page = opened(out, width)
        assert overflow(page) == 0
        assert page.locator("h1").inner_text() == SCRIPT
        assert page.locator("main img, main script:not([type='application/json'])").count() == 0
        members = page.locator("#clog .member")
        assert members.count() == len(HOSTILE)
        assert str(members.first.locator("text").text_content()).startswith("<script>aler")
        members.nth(0).click()
        assert page.locator("#clog .picked").inner_text().startswith(f"{SCRIPT} has places for 1 of its 2 pods")
        members.nth(3).click()
        assert "n" * 250 in page.locator("#clog .picked").inner_text()
        assert SCRIPT in page.locator("#validity").inner_text()
        canvas = page.locator("figure.timeline canvas").nth(1)
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + (180 if width > 400 else 90), box["y"] + 12)
        assert SCRIPT in page.locator("#tip").inner_text()


def test_the_policy_lets_nothing_run_that_did_not_come_with_the_page(tmp_path: Path, browser: Any) -> None:
    out = write_study(tmp_path, [Made([plain()])])
    write_page(Study.open(out))
    page = browser.new_page()
    page.goto((out / "report.html").as_uri())
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.bad = 1\">')")
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.bad = 1'}))"
    )
    page.evaluate("() => new Promise((done) => setTimeout(done))")
    assert page.evaluate("window.bad") is None
    assert len([line for line in refused if "Content Security Policy" in line]) >= 2
    page.close()


def test_a_study_that_a_crash_cut_off_is_shown_as_far_as_it_went(tmp_path: Path, opened: Opened) -> None:
    cut = Made([plain(), Job({"submitted": 5, "created": 8}, [], size=1)], outcome="running", sealed=False, number=2)
    out = write_study(tmp_path, [Made([plain()]), cut], planned=["003-never-begun"])
    with (out / "trials" / cut.name / "submitted.jsonl").open("a") as file:
        file.write('{"workload": "torn')
    write_page(Study.open(out))
    page = opened(out)
    said = page.locator(".warning").inner_text()
    assert "This study is not complete" in said
    assert "was cut off" in said
    assert "torn by a crash" in said
    assert "1 of 3 trials were not run" in said
    assert page.locator("figure.timeline[data-ready]").count() == 1


def follow(page: Any, selector: str) -> None:
    """Clicks, and waits for the page that this leads to: what is asked next would else be answered by half of it."""
    with page.expect_navigation():
        page.click(selector)


def test_the_page_of_all_studies_is_clicked_through(browser: Any, tmp_path: Path) -> None:
    for name, took in (("fast", FAST), ("slow", SLOW)):
        write_page(Study.open(study(tmp_path / name, trials(*took), seed=len(name) + took[0])))
    said: list[str] = []
    with StudyServer(tmp_path) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        context = browser.new_context(viewport={"width": 390, "height": 850})
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(server.url)
        page.fill("input[name=q]", "slow")
        follow(page, "text=Filter")
        assert page.locator("tbody tr").count() == 1
        follow(page, "text=all")
        for box in page.locator("input[type=checkbox]").all():
            box.check()
        follow(page, "text=Compare selected")
        assert "more than noise" in page.locator("main").inner_text()
        assert overflow(page) == 0
        page.goto(server.url)
        follow(page, "a:text-is('fast')")
        follow(page, "text=Open the report")
        page.wait_for_selector(f"{FIGURES}[data-ready]")
        assert page.locator("h1").inner_text() == "many-small-jobs"
        context.close()
        server.shutdown()
        thread.join()
    assert not said
