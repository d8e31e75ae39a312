"""Claims on names, and clearing away what killed commands left, without a control plane."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.clusters.access import kept_clusters
from seatrial.clusters.local import kept_planes
from seatrial.clusters.supervision.cluster_state import ClusterState, claim, is_run, layouts, read_state, reap
from seatrial.clusters.supervision.directories import Layout, check_name, clusters_root
from seatrial.clusters.supervision.procfs import ProcessId, identify
from seatrial.model.errors import SetupProblem, UsageProblem

SLEEP = "import time; time.sleep(99)"


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def leave(name: str, processes: dict[str, ProcessId], is_kept: bool) -> Layout:
    """A cluster whose owner is no more."""
    layout = Layout(clusters_root() / name)
    layout.directory.mkdir(parents=True)
    layout.lock.touch()
    ClusterState(is_kept, ProcessId(1, 0), "https://127.0.0.1:1", True, 0.0, processes).save(layout)
    return layout


def test_a_name_that_is_up_is_refused_and_free_again_afterwards() -> None:
    held = claim("mine", kept=True)
    assert is_run(held.layout)
    assert stat.S_IMODE(held.layout.directory.stat().st_mode) == 0o700
    with pytest.raises(SetupProblem, match="'mine' is already up") as caught:
        claim("mine", kept=True)
    assert "seatrial cluster down mine" in caught.value.remedy
    held.remove()
    claim("mine", kept=True).remove()
    assert layouts() == []


def test_a_claim_ends_with_its_process(start_python: Callable[[str], subprocess.Popen[str]]) -> None:
    with start_python("""
        import time
        from seatrial.clusters.supervision.cluster_state import claim
        held = claim("theirs", kept=False)
        print("claimed", flush=True)
        time.sleep(99)
    """) as owner:
        assert owner.stdout
        owner.stdout.readline()
        layout = Layout(clusters_root() / "theirs")
        assert is_run(layout)
        assert reap() == []
        owner.kill()
    assert not is_run(layout)
    assert reap() == ["theirs"]
    assert not layout.directory.exists()


def test_what_a_killed_trial_left_is_ended_and_removed() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as orphan:
        found = identify(orphan.pid)
        assert found
        layout = leave("trial-1-1", {"kwok": found}, is_kept=False)
        reap()
        assert orphan.wait(5) < 0
    assert not layout.directory.exists()


def test_a_process_that_got_the_pid_later_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as stranger:
        found = identify(stranger.pid)
        assert found
        leave("trial-1-2", {"kwok": ProcessId(found.pid, found.start - 5)}, is_kept=False)
        reap()
        assert stranger.poll() is None
        stranger.kill()


def test_a_kept_cluster_whose_keeper_died_stays_visible_until_taken_down() -> None:
    leave("mine", {}, is_kept=True)
    reap()
    assert [(c.name, c.running) for c in kept_clusters.all_clusters()] == [("mine", False)]
    with pytest.raises(SetupProblem, match="no longer runs"):
        kept_clusters.find("mine")
    kept_planes.down("mine")
    assert kept_clusters.all_clusters() == []


def test_a_state_file_that_is_damaged_is_no_crash() -> None:
    layout = leave("broken", {}, is_kept=True)
    layout.state.write_text("{")
    assert read_state(layout) is None
    assert reap() == ["broken"]


def test_a_name_that_is_not_there_says_which_are() -> None:
    leave("one", {}, is_kept=True)
    with pytest.raises(SetupProblem, match="no cluster 'two'") as caught:
        kept_planes.down("two")
    assert "one" in caught.value.remedy


@pytest.mark.parametrize("name", ["", "..", "a/b", "UPPER", ".lock", "x" * 60])
def test_a_name_that_cannot_be_a_directory_is_refused(name: str) -> None:
    with pytest.raises(UsageProblem):
        check_name(name)


def test_a_state_directory_that_cannot_be_written_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(SetupProblem, match="cannot write"):
        claim("mine", kept=True)


def test_two_claims_at_once_do_not_clear_each_other_away() -> None:
    first = claim("one", kept=False)
    assert reap() == []
    assert first.layout.directory.exists()
    assert [layout.name for layout in layouts()] == ["one"]
    first.remove()
