"""sensitivity.png: curves over one varied value, heat maps over two, and nothing where there is nothing to show."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.analysis.studies import Study
from seatrial.report.sensitivity_picture import sensitivity_figure
from tests.conftest import Seatrial

SCENARIO = """
name: sweep
nodes: [{name: gpu, count: 2, capacity: {cpu: 8, memory: 64Gi}}]
stacks: [default, gang]
steps:
  - submit: {name: load, count: 6, duration: 5s, requests: {cpu: 4}}
  - wait: {for: completed, timeout: 1h}
answer: [p95_s, cpu_util]
"""


@pytest.mark.slow
def test_a_sweep_has_a_panel_for_each_figure_of_its_answer(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(SCENARIO)
    one, two = ("--vary", "nodes.gpu.count=1,2,4"), ("--vary", "steps.load.count=3,6")
    assert seatrial("run", "sweep.yaml", *one, "-o", "one").returncode == 0
    assert seatrial("run", "sweep.yaml", *one, *two, "-o", "two").returncode == 0
    assert seatrial("run", "sweep.yaml", "-o", "none").returncode == 0
    assert (tmp_path / "one" / "sensitivity.png").is_file()
    curves = sensitivity_figure(Study.open(tmp_path / "one"))
    assert curves is not None
    assert [axis.get_title(loc="left") for axis in curves.axes] == ["p95_s, s", "cpu_util"]
    maps = sensitivity_figure(Study.open(tmp_path / "two"))
    assert maps is not None
    assert len(maps.axes) == 4, "two figures of two set-ups"
    assert [text.get_text() for text in maps.axes[0].get_xticklabels()] == ["1", "2", "4"]
    assert len(maps.axes[0].texts) == 6, "every cell has its value"
    assert 'class="chart lines"' in _section(tmp_path / "one")
    assert 'class="chart heat"' in _section(tmp_path / "two")
    assert not _section(tmp_path / "none")
    assert sensitivity_figure(Study.open(tmp_path / "none")) is None
    assert not (tmp_path / "none" / "sensitivity.png").exists()


def _section(out: Path) -> str:
    """Of the page, what is about sensitivity."""
    _, _, rest = (out / "report.html").read_text().partition('<section id="sensitivity">')
    return rest.partition("</section>")[0]
