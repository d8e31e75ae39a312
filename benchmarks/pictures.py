"""Makes every picture of README and docs again: `make pictures`, or some of them by name.

    python benchmarks/pictures.py                      all
    python benchmarks/pictures.py report-clog.png      this one

Each comes from a study that the command next to it in the docs makes. The simulator gives the same figures every time, so that
a picture changes only if the program did, or the date on it.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
COLOURS = 128  # of a screenshot: a page has few, and a picture in a repository should be small


@dataclass(frozen=True)
class Shot:
    """A part of report.html on a screen of that width."""

    part: str  # a CSS selector; "" for the page from its top
    width: int = 1280
    theme: Literal["light", "dark"] = "light"
    height: int = 900  # of the screen, where it is the page from its top
    before: Callable[[Any], None] = lambda _: None


@dataclass(frozen=True)
class Picture:
    """From which scenario it is, and a file of its study or a shot of its page."""

    scenario: str
    of: str | Shot
    command: tuple[str, ...] = ("run",)


def _workloads(page: Any) -> None:
    timeline = page.locator("figure.timeline")
    timeline.locator("select").select_option(label="kueue-quota · completed")
    timeline.get_by_role("button", name="workloads").click()


FIND = ("find", "--vary", "nodes.gpu.count=10..200", "--so-that", "wait_p95_s <= 600")
MIX = (
    "find", "--vary", "nodes.old.count=1..60", "--vary", "nodes.new.count=1..40", "--price", "nodes.old=1",
    "--price", "nodes.new=8", "--so-that", "wait_p95_s <= 600",
)  # fmt: skip

PICTURES = {
    "many-small-jobs.png": Picture("many-small-jobs", "totals.png"),
    "report-1280.png": Picture("gang-ensemble", Shot("", height=1180)),
    "report-390.png": Picture("gang-ensemble", Shot("", 390, "dark", height=1180)),
    "report-waterfall.png": Picture("many-small-jobs", Shot("figure.waterfall")),
    "report-steps.png": Picture("many-small-jobs", Shot("", height=1000, before=lambda page: _scroll(page, "#steps"))),
    "report-timeline.png": Picture("gang-ensemble", Shot("figure.timeline")),
    "report-workloads.png": Picture("gang-ensemble", Shot("figure.timeline", theme="dark", before=_workloads)),
    "report-clog.png": Picture("gang-ensemble", Shot("figure.clog")),
    "report-teams.png": Picture("two-teams", Shot("figure.usage")),
    "find.png": Picture("gpu-fleet", "find.png", FIND),
    "find-mix.png": Picture("gpu-mix", "find.png", MIX),
}


def main() -> None:
    wanted = sys.argv[1:] or list(PICTURES)
    unknown = [name for name in wanted if name not in PICTURES]
    if unknown:
        sys.exit(f"pictures: no such picture: {', '.join(unknown)}; there are {', '.join(PICTURES)}")
    with tempfile.TemporaryDirectory() as folder:
        for scenario, asked in dict.fromkeys((PICTURES[name].scenario, PICTURES[name].command) for name in wanted):
            print(f"pictures: running {scenario}", flush=True)
            command = [sys.executable, "-m", "seatrial", *asked, scenario, "-o", f"out/{scenario}"]
            subprocess.run(command, check=True, capture_output=True, cwd=folder)
        for name in wanted:
            picture, out = PICTURES[name], Path(folder) / "out" / PICTURES[name].scenario
            if isinstance(picture.of, Shot):
                _save(_shoot(out / "report.html", picture.of), FOLDER / name)
            else:
                shutil.copyfile(out / picture.of, FOLDER / name)
            print(f"pictures: {name}, {(FOLDER / name).stat().st_size / 1000:.0f} kB", flush=True)


def _shoot(report: Path, shot: Shot) -> bytes:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("pictures: no chromium here; apt-get install chromium, then again")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        page = browser.new_page(viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.theme)
        page.goto(report.as_uri())
        for figure in page.query_selector_all("figure[data-chart]"):
            figure.scroll_into_view_if_needed()
        page.wait_for_selector("figure[data-chart]:not([data-ready])", state="detached")
        page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
        shot.before(page)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        picture = page.locator(shot.part).screenshot() if shot.part else page.screenshot()
        browser.close()
    return bytes(picture)


def _scroll(page: Any, part: str) -> None:
    page.evaluate(f"document.querySelector('{part}').scrollIntoView({{behavior: 'instant'}})")


def _save(picture: bytes, path: Path) -> None:
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
