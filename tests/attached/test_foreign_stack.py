"""A stack of a foreign package brings its own signs of presence and permissions; both are asked before a trial begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attached.conftest import CONTEXT, Foreign
from tests.conftest import Seatrial
from tests.drydock import install


@pytest.mark.local
def test_a_foreign_cluster_is_asked_for_its_signs_and_permissions(
    foreign: Foreign, seatrial: Seatrial, tmp_path: Path
) -> None:
    installed = install(tmp_path / "site")
    asked = ("--context", CONTEXT, "--kubeconfig", foreign.kubeconfig)
    examined = seatrial("doctor", *asked, PYTHONPATH=str(installed))
    assert "missing  stack drydock  install it (no docks.drydock.example)" in examined.stdout
    nobody = foreign.user("docker")
    run = ("run", "many-small-jobs", "--stack", "drydock", "--on", "kubeconfig", "--context", CONTEXT)
    refused = seatrial(*run, "--kubeconfig", nobody, PYTHONPATH=str(installed))
    assert refused.returncode == 3
    assert "create docks; watch docks" in refused.stderr
    absent = seatrial(*run, "--kubeconfig", foreign.kubeconfig, PYTHONPATH=str(installed))
    assert absent.returncode == 3
    assert "the stack 'drydock' is not on this cluster: there is no docks.drydock.example" in absent.stderr
