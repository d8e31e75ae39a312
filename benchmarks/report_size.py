"""How large a study the page bears: 10,000 workloads with 100,000 pods on 1,000 nodes, simulated, then reported and opened.

    python benchmarks/report_size.py                   as above
    python benchmarks/report_size.py 1000 10 100       so many workloads, pods each, nodes

Targets: the report (tables, pictures and page) made in 20 s, the page at most 10 MB, opened in under 3 s in Chromium with its
timeline drawn, and moved about without a frame that takes longer than a blink (0.2 s). One line of figures.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SCENARIO = """
name: report-size
params: {workloads: 1000, pods: 10, nodes: 100}
nodes:
  - {name: fake, count: "${nodes}", capacity: {cpu: 32, memory: 256Gi, pods: 110}, pods: {create: 1s, start: 2s..10s}}
stacks: [default]
settings: {qps: unlimited}
steps:
  - submit: {name: load, count: "${workloads}", pods: "${pods}", duration: 40s, requests: {cpu: 1}, rate: 200/s}
  - wait: {for: completed, timeout: 24h}
expect: ["completed == submitted"]
"""
# In the page: frames while the timeline is dragged to and fro, in milliseconds.
PANNING = """async () => {
  const canvas = document.querySelectorAll('.timeline canvas')[1], box = canvas.getBoundingClientRect(), gaps = [];
  const send = (kind, x, y) => canvas.dispatchEvent(new PointerEvent(kind, {
    pointerId: 1, clientX: x, clientY: y, buttons: 1, bubbles: true }));
  canvas.setPointerCapture = () => {};
  send('pointerdown', box.left + 400, box.top + 100);
  let last = performance.now();
  for (let n = 0; n < 60; n++) {
    send('pointermove', box.left + 400 + 150 * Math.sin(n / 5), box.top + 100 + 40 * Math.cos(n / 5));
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - last);
    last = now;
  }
  send('pointerup', box.left + 400, box.top + 100);
  return gaps;
}"""


def main() -> None:
    asked = [int(argument) for argument in sys.argv[1:]]
    workloads, pods, nodes = asked if len(asked) == 3 else (10_000, 10, 1000)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        scenario = Path(folder) / "size.yaml"
        scenario.write_text(SCENARIO)
        sets = f"workloads={workloads},pods={pods},nodes={nodes}"
        _seatrial("run", scenario, "-o", out, "--set", sets)
        (out / "report.html").unlink()
        began = time.monotonic()
        _seatrial("report", out)
        made = time.monotonic() - began
        size = (out / "report.html").stat().st_size
        opened = _opened(out / "report.html")
    print(
        f"report_size: {workloads:,} workloads, {workloads * pods:,} pods on {nodes:,} nodes: report made in {made:.1f} s, "
        f"report.html {size / 1e6:.2f} MB, {opened}"
    )


def _seatrial(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "seatrial", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"report_size: {' '.join(command)} failed:\n{done.stderr}")


def _opened(page_file: Path) -> str:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        return "not opened: no chromium here (apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = time.monotonic()
        page.goto(page_file.as_uri())
        shown = time.monotonic() - began
        page.locator("figure.timeline").scroll_into_view_if_needed()
        page.wait_for_selector("figure.timeline[data-ready]")
        drawn = time.monotonic() - began
        everything = _panned(page)
        page.locator("figure.timeline").get_by_role("button", name="taller rows").click(click_count=12, delay=5)
        page.locator("figure.timeline").get_by_role("button", name="zoom in on the time").click(click_count=4, delay=5)
        close = _panned(page)
        browser.close()
    return f"opened in {shown:.2f} s, with the timeline drawn {drawn:.2f} s; dragging all of it: {everything}, near: {close}"


def _panned(page: Any) -> str:
    gaps = page.evaluate(PANNING)
    return f"{statistics.median(gaps):.0f} ms a frame, {max(gaps):.0f} ms at worst"


if __name__ == "__main__":
    main()
