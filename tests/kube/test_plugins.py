"""Exec plugins, with small scripts in their place."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from seatrial.kube import Access, Client, access_from
from seatrial.kube.plugins import PluginCredentials
from seatrial.kube.resources import Request
from seatrial.model.errors import SetupProblem

V1 = "client.authentication.k8s.io/v1"
BETA = "client.authentication.k8s.io/v1beta1"


def access_with(tmp_path: Path, script: str, version: str = V1, port: int = 1, **more: Any) -> Access:
    """A kubeconfig whose plugin is this Python script."""
    program = tmp_path / "plugin"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys, pathlib\nhere = pathlib.Path({str(tmp_path)!r})\n{script}"
    )
    program.chmod(0o755)
    plugin = {"apiVersion": version, "command": "./plugin", "interactiveMode": "Never", **more}
    file = tmp_path / "config"
    cluster = {"server": f"https://localhost:{port}", "tls-server-name": "x"}
    file.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"exec": plugin}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return access_from(file)


def prints(version: str = V1, **status: Any) -> str:
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    return f"print({json.dumps(json.dumps(answer))})"


def expiry(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize("version", [V1, BETA])
def test_both_versions_give_a_token(tmp_path: Path, version: str) -> None:
    access = access_with(tmp_path, prints(version, token="abc"), version)
    assert not access.credentials.fresh()
    asyncio.run(access.credentials.refresh())
    assert access.credentials.authorization == "Bearer abc"
    assert access.credentials.fresh()


def test_the_plugin_learns_what_it_asks_for(tmp_path: Path) -> None:
    script = "(here / 'seen').write_text(os.environ['KUBERNETES_EXEC_INFO'] + os.environ['MORE'] + sys.argv[1])\n"
    access = access_with(
        tmp_path,
        script + prints(token="abc"),
        provideClusterInfo=True,
        args=["-x"],
        env=[{"name": "MORE", "value": "m"}],
    )
    asyncio.run(access.credentials.refresh())
    seen = (tmp_path / "seen").read_text()
    assert seen.endswith("m-x")
    info = json.loads(seen.removesuffix("m-x"))
    assert (info["apiVersion"], info["kind"]) == (V1, "ExecCredential")
    assert info["spec"]["interactive"] is False
    assert info["spec"]["cluster"] == {"server": "https://localhost:1", "tls-server-name": "x"}


def test_a_certificate_from_a_plugin_makes_new_connections(tmp_path: Path, authority: Any) -> None:
    pair = authority.issue("plugged")
    data = {"clientCertificateData": pair.certificate.read_text(), "clientKeyData": pair.key.read_text()}
    access = access_with(tmp_path, prints(**data))
    before = access.credentials.generation
    asyncio.run(access.credentials.refresh())
    assert access.credentials.certificate is not None
    assert access.credentials.certificate.chain == pair.certificate.read_bytes()
    assert access.credentials.generation > before
    access.tls_context()


COUNTING = "n = len(list(here.glob('run*'))); (here / f'run{n}').touch()\n"


def test_it_runs_once_until_it_expires_however_many_ask(tmp_path: Path, peers: Any, run: Any) -> None:
    script = COUNTING + prints(token="abc", expirationTimestamp=expiry(600))

    async def story() -> list[str]:
        async with peers.start(lambda *_: peers.http(200)) as peer:
            given = access_with(tmp_path, script, port=peer.port)
            access = peers.access(peer, given.credentials)
            async with Client(access, connections=4) as client:
                requests = [client.send(Request("get", "x", "GET", "/x")) for _ in range(8)]
                assert [a.code for a in await asyncio.gather(*requests)] == [200] * 8
            return list(peer.heads)

    heads = run(story())
    assert all("\r\nAuthorization: Bearer abc\r\n" in head for head in heads)
    assert len(list(tmp_path.glob("run*"))) == 1


def test_it_runs_again_after_the_expiry_and_after_a_401(tmp_path: Path, peers: Any, run: Any) -> None:
    soon = expiry(2)
    script = COUNTING + (
        "status = {'token': f't{n}', **({'expirationTimestamp': '" + soon + "'} if n == 0 else {})}\n"
        f"print(json.dumps({{'apiVersion': '{V1}', 'kind': 'ExecCredential', 'status': status}}))"
    )
    answers = {"t0": 200, "t1": 401, "t2": 200}

    async def story() -> list[str]:
        peer: Any
        async with peers.start(lambda *_: peers.http(answers[token(peer.heads[-1])])) as peer:
            access = peers.access(peer, access_with(tmp_path, script, port=peer.port).credentials)
            async with Client(access) as client:
                assert (await client.send(Request("get", "x", "GET", "/x"))).code == 200
                while access.credentials.fresh():
                    await asyncio.sleep(0.05)
                assert (await client.send(Request("get", "x", "GET", "/x"))).code == 200
            return [token(head) for head in peer.heads]

    assert run(story()) == ["t0", "t1", "t2"]


def token(head: str) -> str:
    found = re.search(r"Bearer (\S+)", head)
    assert found
    return found[1]


@pytest.mark.parametrize(
    ("script", "more", "says", "remedy"),
    [
        ("sys.exit('no session, log in first')", {}, "status 1: no session, log in first", "run it by hand"),
        ("print('hello')", {}, "not an ExecCredential", ""),
        (prints(BETA, token="x"), {}, f"of '{BETA}', the kubeconfig says '{V1}'", "apiVersion"),
        (prints(), {}, "neither a token nor a certificate", ""),
        (prints(clientCertificateData="x"), {}, "a certificate without its key", ""),
        (prints(token="x", expirationTimestamp="2020-01-01T00:00:00Z"), {}, "expired at 2020", "clock"),
        ("", {"command": "no-such-plugin", "installHint": "brew install it"}, "is not installed", "brew install it"),
        ("", {"interactiveMode": "Always"}, "needs a terminal", "by hand"),
    ],
)
def test_a_failing_plugin_is_named_with_its_place(
    tmp_path: Path, script: str, more: dict[str, Any], says: str, remedy: str
) -> None:
    access = access_with(tmp_path, script, **more)
    assert isinstance(access.credentials, PluginCredentials)
    with pytest.raises(SetupProblem, match=re.escape(says)) as caught:
        asyncio.run(access.credentials.refresh())
    assert re.search(r"config:\d+: the exec plugin", caught.value.message)
    assert remedy in caught.value.remedy
    assert caught.value.remedy
