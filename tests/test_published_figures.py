"""The simulator against the published table of `many-small-jobs`, every cell, over five seeds.

No constant knows a number of jobs. What was set from the same experiment (the kubelet's two start constants) or assumed about its
cluster (MCAD's group-versions) is said in docs/simulator.md and docs/stacks/mcad.md.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from seatrial import stacks
from seatrial.analysis.studies import Study
from seatrial.analysis.tables import write_tables
from seatrial.scenario.document import read
from seatrial.scenario.expansion import expand
from seatrial.study.executors import run_all
from seatrial.study.study_directory import make_empty, study_document, write_study

pytestmark = pytest.mark.slow

# Total seconds as published (the reference table of the experiment): set-up → jobs → seconds.
PUBLISHED = {
    "kind": {1: 23, 10: 23, 20: 27, 50: 33, 75: 41, 100: 49},
    "kwok": {1: 23, 10: 23, 20: 25, 50: 31, 75: 36, 100: 40},
    "kwok+mcad": {1: 23, 10: 31, 20: 44, 50: 82, 75: 118, 100: 135},
}
SEEDS = 5


class Silent:
    def started(self, trial: str) -> None: ...
    def update(self, trial: str, submitted: int, completed: int, of: int, virtual_s: float, requests: int) -> None: ...
    def ended(self, trial: str, outcome: str, figures: dict[str, object]) -> None: ...


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("published") / "study"
    scenario = read("many-small-jobs")
    known = {name: stacks.find(name).settings for name in stacks.names()}
    trials = expand(
        scenario, on="sim", stacks=known, pick_setups=None, pick_stacks=None, sets={}, repeat=SEEDS, seed=None
    )
    make_empty(out, force=False)
    write_study(out, {**study_document(scenario.name, scenario.document, trials, {}), "run": {}})
    outcomes = list(run_all(trials, out, Silent(), jobs=1))
    assert {outcome.outcome for outcome in outcomes} == {"completed"}
    write_tables(Study.open(out))
    return out


def test_every_cell_is_within_a_tenth_or_two_seconds(study: Path) -> None:
    means = pl.read_csv(study / "summary.csv").group_by("setup", "jobs").agg(pl.col("total_s").mean(), pl.len())
    assert means["len"].unique().to_list() == [SEEDS]
    simulated = {(row["setup"], row["jobs"]): row["total_s"] for row in means.iter_rows(named=True)}
    off = {
        (setup, jobs): (simulated[setup, jobs], seconds)
        for setup, cells in PUBLISHED.items()
        for jobs, seconds in cells.items()
        if abs(simulated[setup, jobs] - seconds) > max(2.0, 0.1 * seconds)
    }
    assert len(simulated) == 18
    assert not off


def test_the_published_table_here_is_the_reference(request: pytest.FixtureRequest) -> None:
    reference = request.config.rootpath.parent / "shared" / "reference" / "many-small-jobs-total-time.csv"
    if not reference.exists():
        pytest.skip(f"the reference table is not beside this checkout ({reference.name})")
    rows = pl.read_csv(reference).iter_rows(named=True)
    assert {
        setup: {row["jobs"]: row["total_s"] for row in group} for setup, group in _by_setup(list(rows)).items()
    } == PUBLISHED


def _by_setup(rows: list[dict[str, int]]) -> dict[str, list[dict[str, int]]]:
    groups: dict[str, list[dict[str, int]]] = {}
    for row in rows:
        groups.setdefault(str(row["setup"]), []).append(row)
    return groups


def test_mcad_dispatches_about_one_job_a_second(study: Path) -> None:
    rows = pl.read_csv(study / "summary.csv").filter(pl.col("setup") == "kwok+mcad", pl.col("jobs") >= 50)
    assert 0.8 <= rows["dispatch_per_s"].mean() <= 1.2  # type: ignore[operator]


def _time_to_start(study: Path, setup: str, jobs: int) -> pl.Series:
    pods = pl.read_csv(study / "pods.csv").filter(pl.col("trial").str.contains(rf"-{setup}-jobs={jobs}-"))
    assert pods.height == jobs * SEEDS
    return pods["time_to_start_s"]


@pytest.mark.parametrize("jobs", PUBLISHED["kwok"])
def test_fake_nodes_start_a_container_in_eleven_seconds_whatever_the_load(study: Path, jobs: int) -> None:
    times = _time_to_start(study, "kwok", jobs)
    assert 11.0 <= times.min() <= times.max() <= 11.2  # type: ignore[operator]


def test_kubelets_start_containers_more_slowly_the_more_there_are(study: Path) -> None:
    medians = [_time_to_start(study, "kind", jobs).median() for jobs in PUBLISHED["kind"]]
    assert medians == sorted(medians)  # type: ignore[type-var]
    ten, hundred = _time_to_start(study, "kind", 10), _time_to_start(study, "kind", 100)
    assert 8 <= ten.min() <= ten.max() <= 10.0  # type: ignore[operator]
    assert 20 <= hundred.median() <= 26  # type: ignore[operator]
    assert hundred.max() <= 26  # type: ignore[operator]
