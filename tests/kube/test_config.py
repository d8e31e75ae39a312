"""Kubeconfigs as people have them, and what is said about those that are wrong."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from seatrial.kube import Access, access_from
from seatrial.kube.config import Impersonation
from seatrial.kube.credentials import LOOK_AGAIN, TokenFile
from seatrial.kube.proxies import bypasses, parse_proxy, proxy_for
from seatrial.model.errors import SetupProblem


def write(folder: Path, text: str, name: str = "config") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": "https://10.1.2.3:6443", **(cluster or {})}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "there", "context": {"cluster": "c", "user": "u", **context}}],
            "current-context": "there",
        },
        sort_keys=False,
    )


def read(folder: Path, text: str, context: str | None = None, **environ: str) -> Access:
    return access_from(write(folder, text), context, environ=environ)


def test_the_current_context_counts_where_none_is_named(tmp_path: Path) -> None:
    access = read(tmp_path, config(namespace="mine"))
    assert (access.server, access.context, access.namespace) == ("https://10.1.2.3:6443", "there", "mine")


def test_the_only_context_counts_where_none_is_current(tmp_path: Path) -> None:
    assert read(tmp_path, config().replace("current-context: there", "")).context == "there"


@pytest.mark.parametrize(
    ("server", "host", "port", "tls", "prefix"),
    [
        ("https://api.example", "api.example", 443, True, ""),
        ("https://[::1]:6443/", "::1", 6443, True, ""),
        ("https://rancher.example/k8s/clusters/c-1", "rancher.example", 443, True, "/k8s/clusters/c-1"),
        ("http://localhost:8001", "localhost", 8001, False, ""),
        ("10.0.0.1:6443", "10.0.0.1", 6443, True, ""),
    ],
)
def test_addresses_of_servers(tmp_path: Path, server: str, host: str, port: int, tls: bool, prefix: str) -> None:
    access = read(tmp_path, config({"server": server}))
    assert (access.host, access.port, access.tls, access.prefix) == (host, port, tls, prefix)


def test_of_several_files_the_first_that_has_a_name_wins(tmp_path: Path) -> None:
    first = write(tmp_path, config({"server": "https://first:1"}), "first")
    second = write(
        tmp_path,
        config({"server": "https://second:2"}).replace("name: there", "name: elsewhere"),
        "second",
    )
    environ = {"KUBECONFIG": os.pathsep.join(map(str, (tmp_path / "missing", first, second)))}
    assert access_from(environ=environ).host == "first"
    assert access_from(context="elsewhere", environ=environ).host == "first"  # both files have a cluster 'c'


def test_without_kubeconfig_the_home_directory_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", config())
    assert access_from(environ={"HOME": str(tmp_path)}).context == "there"


def test_files_are_relative_to_the_kubeconfig_that_names_them(tmp_path: Path, authority: Any) -> None:
    pair = authority.issue("someone")
    (tmp_path / "ca.crt").write_bytes(authority.certificate.read_bytes())
    (tmp_path / "me.crt").write_bytes(pair.certificate.read_bytes())
    (tmp_path / "me.key").write_bytes(pair.key.read_bytes())
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    access = read(tmp_path, config({"certificate-authority": "ca.crt"}, user))
    assert access.authority == authority.certificate.read_bytes()
    assert access.credentials.certificate is not None
    assert access.credentials.certificate.key == pair.key.read_bytes()


def test_data_in_the_kubeconfig_goes_before_files(tmp_path: Path, authority: Any) -> None:
    pair = authority.issue("someone")
    encoded = {k: base64.b64encode(p.read_bytes()).decode() for k, p in (("c", pair.certificate), ("k", pair.key))}
    user = {"client-certificate-data": encoded["c"], "client-key-data": encoded["k"], "client-key": "missing"}
    access = read(tmp_path, config({}, user))
    assert access.credentials.certificate is not None
    assert access.credentials.certificate.chain == pair.certificate.read_bytes()


def test_who_to_act_as(tmp_path: Path) -> None:
    user = {"as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": {"Team/x": ["a"]}}
    access = read(tmp_path, config({}, user))
    assert access.impersonate == Impersonation("jane", "7", ("dev", "ops"), {"Team/x": ("a",)})
    assert ("Impersonate-Extra-team%2Fx", "a") in access.impersonate.headers()


def test_tokens_and_passwords(tmp_path: Path) -> None:
    assert read(tmp_path, config({}, {"token": "abc"})).credentials.authorization == "Bearer abc"
    basic = read(tmp_path, config({}, {"username": "a", "password": "b"})).credentials.authorization
    assert basic == "Basic " + base64.b64encode(b"a:b").decode()


def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    credentials = read(tmp_path, config({}, {"tokenFile": "token", "token": "old"})).credentials
    assert isinstance(credentials, TokenFile)

    async def story() -> list[str]:
        seen = []
        for text in ("one\n", "two", None):
            if text is None:
                token.unlink()
            else:
                token.write_text(text)
            credentials._look_again = 0
            assert not credentials.fresh()
            await credentials.refresh()
            assert credentials.fresh()
            seen.append(credentials.authorization)
        return seen

    assert asyncio.run(story()) == ["Bearer one", "Bearer two", "Bearer two"]
    assert LOOK_AGAIN <= 10


TWO_CONTEXTS = config().replace("contexts:\n", "contexts:\n- {name: elsewhere, context: {cluster: c}}\n")
NO_YAML = "clusters:\n- name: c\n  cluster: {server: [\n"


@pytest.mark.parametrize(
    ("text", "says", "remedy"),
    [
        (NO_YAML, r"config:4: malformed", "kubectl config view"),
        ("- a\n", r"config:1: malformed: a kubeconfig is a mapping", ""),
        ("kind: Pod\n", r"config:1: this is a Pod", ""),
        ("", r"config has no contexts", "kubectl"),
        (
            TWO_CONTEXTS.replace("current-context: there", ""),
            r"no context named, and .*config has no current-context",
            "one of: elsewhere, there",
        ),
        ("clusters: {}\n", r"config:1: 'clusters' must be a list of mappings", ""),
        (config().replace("current-context: there", "current-context: theer"), "did you mean 'there'", "it has: there"),
        (config().replace("cluster: c", "cluster: d"), r"config:\d+: no cluster 'd'", "it has: c"),
        (config().replace("user: u", "user: v"), r"config:\d+: no user 'v'", "it has: u"),
        (config({"server": "ftp://x"}), r"config:6: 'ftp://x' is not the address of a server", "https://"),
        (config({"insecure-skip-tls-verify": "maybe"}), "must be true or false", ""),
        (config({"certificate-authority-data": "%%"}), r"config:7: .* is not base64", ""),
        (config({"certificate-authority": "no.crt"}), r"config:7: .*no.crt, which cannot be read", "log in"),
        (config({"certificate-authority-data": "YWJj"}), "certificate authority is not PEM", ""),
        (config({"proxy-url": "socks5://x:1"}), "config:7: 'socks5://x:1' is not the URL of a proxy", "http://"),
        (config({}, {"client-certificate-data": "YWJj"}), "has no client-key", "log in"),
        (config({}, {"client-certificate-data": "YWJj", "client-key-data": "YWJj"}), "is not PEM", "log in"),
        (config({}, {"token": "a b"}), r"config:\d+: not a bearer token", "log in"),
        (config({}, {"auth-provider": {"name": "gcp"}}), "auth-provider", "exec plugin"),
        (config({}, {"exec": {"command": "x", "apiVersion": "v1alpha1"}}), "apiVersion 'v1alpha1'", "v1beta1"),
        (config({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}), "without a command", ""),
        (config().replace("users:\n", "users:\n- name: u\n  user: {}\n"), r"config:\d+: duplicate 'u'", "rename"),
        (config().replace("- name: u", "- nam: u"), r"config:\d+: an entry of 'users' without a name", ""),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_a_remedy(tmp_path: Path, text: str, says: str, remedy: str) -> None:
    with pytest.raises(SetupProblem, match=says) as caught:
        read(tmp_path, text)
    assert caught.value.exit_status == 3
    assert caught.value.remedy
    assert re.search(remedy, caught.value.remedy)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupProblem, match=r"no kubeconfig: .*/nowhere does not exist"):
        access_from(tmp_path / "nowhere")
    with pytest.raises(SetupProblem, match=r"a, b do not exist"):
        access_from(environ={"KUBECONFIG": os.pathsep.join(("a", "b"))})


def test_a_foreign_cluster_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(SetupProblem, match="no context named") as caught:
        access_from(write(tmp_path, config()), must_name=True)
    assert caught.value.remedy == "pass --context with one of: there"
    assert access_from(write(tmp_path, config()), "there", must_name=True).context == "there"


@pytest.mark.parametrize(("days", "says"), [(-1, "expired on 20")])
def test_an_expired_certificate_is_noticed_before_anything_is_sent(
    tmp_path: Path, authority: Any, days: int, says: str
) -> None:
    pair = authority.issue("late", days=days)
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    with pytest.raises(SetupProblem, match=says) as caught:
        read(tmp_path, config({}, user))
    assert "log in" in caught.value.remedy


def test_a_key_that_belongs_to_another_certificate(tmp_path: Path, authority: Any) -> None:
    user = {
        "client-certificate": str(authority.issue("one").certificate),
        "client-key": str(authority.issue("two").key),
    }
    with pytest.raises(SetupProblem, match="do not fit together"):
        read(tmp_path, config({}, user))


# -- proxies


@pytest.mark.parametrize(
    ("host", "excluded", "direct"),
    [
        ("api.example.com", "", False),
        ("localhost", "", True),
        ("127.0.0.9", "", True),
        ("api.example.com", "*", True),
        ("api.example.com", "example.com", True),
        ("example.com", "example.com", True),
        ("example.com", ".example.com", False),
        ("api.example.com", ".example.com", True),
        ("badexample.com", "example.com", False),
        ("api.example.com", "example.com:6443", True),
        ("api.example.com", "example.com:443", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8 , foo", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3:6443", True),
        ("fd00::1", "fd00::/8", True),
        ("fd00::1", "[fd00::1]:6443", True),
        ("10.1.2.3", "not/anetwork", False),
    ],
)
def test_no_proxy_as_go_reads_it(host: str, excluded: str, direct: bool) -> None:
    assert bypasses(host, 6443, excluded) is direct


def test_which_proxy(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": "http://u:p%40@proxy:3128", "NO_PROXY": "nearby"}
    found = proxy_for("far", 6443, environ)
    assert found is not None
    assert (found.host, found.port, found.tls) == ("proxy", 3128, False)
    assert found.authorization == "Basic " + base64.b64encode(b"u:p@").decode()
    assert proxy_for("nearby", 6443, environ) is None
    assert parse_proxy("https://p", "x").port == 443
    access = read(tmp_path, config({"proxy-url": "http://mine:1"}), **environ)
    assert access.proxy is not None
    assert access.proxy.host == "mine"
    other = read(tmp_path, config(), **environ)
    assert other.proxy is not None
    assert other.proxy.host == "proxy"
