"""A token that ends while a submission runs: a plugin gives another one, or the user does, and nothing is lost."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from seatrial.clusters.access import kept_clusters
from seatrial.kube import Client
from seatrial.kube.resources import CLUSTER_ROLE_BINDINGS, SECRETS, SERVICE_ACCOUNTS, create
from tests.conftest import Seatrial
from tests.submit.conftest import CLUSTER, Cluster
from tests.submit.test_submitting import _each_once, _start, _wait_for_lines

pytestmark = pytest.mark.local
NS, NAME = "default", "loader"
_numbers = itertools.count()


class Account:
    """A service account that may do everything, its kubeconfig, and tokens that end when the Secret they are bound to goes."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._last = ""
        cluster.create(SERVICE_ACCOUNTS, NAME, namespace=NS)
        group = CLUSTER_ROLE_BINDINGS.group
        cluster.create(
            CLUSTER_ROLE_BINDINGS, NAME, roleRef={"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": NS}],
        )  # fmt: skip
        self.kubeconfig = folder / "kubeconfig"

    def token(self) -> str:
        name = self._last = f"token-{next(_numbers)}"
        self._cluster.create(SECRETS, name, namespace=NS)

        async def question(client: Client) -> Any:
            wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                      "spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": name}}}  # fmt: skip
            return await client.send(create(SERVICE_ACCOUNTS, wanted, NAME, NS, subresource="token"))

        return str(json.loads(self._cluster.ask(question).body)["status"]["token"])

    def end(self) -> None:
        """Of the last token."""
        self._cluster.ask(lambda client: client.delete(SECRETS, self._last, NS))

    def write(self, user: dict[str, Any]) -> None:
        """The cluster's kubeconfig with somebody else in it."""
        given = yaml.safe_load(self._cluster.kubeconfig.read_text())
        given["users"][0]["user"] = user
        given["contexts"][0]["name"] = given["current-context"] = NAME
        self.kubeconfig.write_text(yaml.safe_dump(given))

    def plugin(self, token: str) -> None:
        """What kubectl would be told by somebody who logs in by a plugin."""
        said = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
        (self._folder / "said.json").write_text(json.dumps(said))
        self.write({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat",
                             "args": [str(self._folder / "said.json")], "interactiveMode": "Never"}})  # fmt: skip


@pytest.fixture
def account(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    made = Account(cluster, tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig))
    yield made
    cluster.ask(lambda client: client.delete(CLUSTER_ROLE_BINDINGS, NAME))
    cluster.ask(lambda client: client.delete(SERVICE_ACCOUNTS, NAME, NS))


def test_a_plugin_is_asked_again_when_its_token_has_ended(
    cluster: Cluster, account: Account, seatrial: Seatrial, tmp_path: Path
) -> None:
    account.plugin(account.token())
    out = tmp_path / "out"
    with _start("-o", str(out), "-n", "40", "-p", "2", "--delay", "0.5", "--context", NAME) as process:
        _wait_for_lines(out, 6, process)
        account.end()
        account.plugin(account.token())
        # A server believes a token that it has seen for ten seconds more; a new one looks at once.
        os.kill(kept_clusters.find(CLUSTER).pids["kube-apiserver"], signal.SIGKILL)
        _, wrong = process.communicate(timeout=180)
    assert process.returncode == 0, wrong
    _each_once(cluster, out, 40)
    done = seatrial("sample", "-o", out, "--follow")
    assert done.returncode == 0, done.stderr
    assert "40 completed" in done.stdout


def test_a_token_that_cannot_be_renewed_ends_a_submission_that_can_be_resumed(
    cluster: Cluster, account: Account, seatrial: Seatrial, tmp_path: Path
) -> None:
    account.write({"token": account.token()})
    out = tmp_path / "out"
    with _start("-o", str(out), "-n", "80", "-p", "2", "--delay", "0.5", "--context", NAME) as process:
        _wait_for_lines(out, 6, process)
        account.end()
        begun = time.monotonic()
        _, wrong = process.communicate(timeout=60)
        assert time.monotonic() - begun < 30, "the server believes a token for ten seconds"
    assert process.returncode == 3, wrong
    assert "log in to the cluster again" in wrong
    refused = seatrial("sample", "-o", out)
    assert refused.returncode == 3
    assert "log in to the cluster again" in refused.stderr
    account.write({"token": account.token()})
    done = seatrial("submit", "-o", out, "--resume")
    assert done.returncode == 0, done.stderr
    _each_once(cluster, out, 80)
