"""`seatrial record` as a user calls it, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Seatrial

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: mine, context: {cluster: c}}, {name: other, context: {cluster: none}}]
current-context: mine
"""


@pytest.mark.parametrize("what", [("record", "-o", "january"), ("record", "nodes", "-o", "nodes.yaml")])
def test_recording_takes_the_current_context_of_the_kubeconfig_that_is_given_and_of_no_other(
    seatrial: Seatrial, tmp_path: Path, what: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    given = seatrial(*what, "--kubeconfig", "config")
    assert (given.returncode, "no connection to http://127.0.0.1:1" in given.stderr) == (3, True), given.stderr
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    found = seatrial(*what)
    assert (found.returncode, "--context with one of: mine, other" in found.stderr) == (3, True), found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config"]
