"""Everything that can be wrong with a foreign cluster: one clear error with a remedy, status 3, and nothing made anywhere."""

from __future__ import annotations

import base64
import datetime
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from seatrial import stacks
from seatrial.clusters.attached.preflight import prepare
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Setup, Target, Trial
from tests.attached.conftest import CONTEXT, EXISTING, FAKES, SHARED, Foreign
from tests.conftest import Seatrial
from tests.waiting import eventually

Scenario = Callable[..., Path]


def config(tmp_path: Path, server: str, user: dict[str, Any] | None = None) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "mine", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "mine",
    }
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(document))
    return file


def expired() -> dict[str, str]:
    """A client certificate of last year."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "late")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=400))
        .not_valid_after(now - datetime.timedelta(days=365))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain = certificate.public_bytes(serialization.Encoding.PEM)
    return {
        "client-certificate-data": base64.b64encode(chain).decode(),
        "client-key-data": base64.b64encode(pem).decode(),
    }


def malformed(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text("clusters: [\n")
    return file


def failing_plugin(tmp_path: Path) -> Path:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "false", "interactiveMode": "Never"}
    return config(tmp_path, "https://127.0.0.1:1", {"exec": plugin})


WITHOUT_A_SERVER: dict[str, tuple[Callable[[Path], Path], list[str], str]] = {
    "no file": (lambda path: path / "none", ["--context", "mine"], "no kubeconfig: "),
    "malformed": (malformed, ["--context", "mine"], "config.yaml:2: malformed"),
    "context not named": (lambda path: config(path, "https://127.0.0.1:1"), [], "pass --context with one of: mine"),
    "unknown context": (
        lambda path: config(path, "https://127.0.0.1:1"),
        ["--context", "mnie"],
        "did you mean 'mine'?",
    ),
    "dead server": (lambda path: config(path, "https://127.0.0.1:1"), ["--context", "mine"], "nothing listens there"),
    "expired certificate": (
        lambda path: config(path, "https://127.0.0.1:1", expired()),
        ["--context", "mine"],
        "the client certificate expired on",
    ),
    "failing plugin": (failing_plugin, ["--context", "mine"], "the exec plugin 'false' ended with status 1"),
}


@pytest.mark.parametrize(("make", "context", "expected"), WITHOUT_A_SERVER.values(), ids=WITHOUT_A_SERVER.keys())
@pytest.mark.parametrize("command", ["run", "clean", "doctor"])
def test_a_wrong_kubeconfig(
    make: Callable[[Path], Path],
    context: list[str],
    expected: str,
    command: str,
    scenario: Scenario,
    seatrial: Seatrial,
    tmp_path: Path,
) -> None:
    file = make(tmp_path)
    how = {
        "run": ["run", str(scenario(FAKES)), "--on", "kubeconfig", "-o", "out"],
        "doctor": ["doctor", "--on", "kubeconfig"],
    }
    done = seatrial(*how.get(command, [command]), "--kubeconfig", file, *context)
    said = done.stdout if command == "doctor" else done.stderr
    assert done.returncode == 3, done.stderr
    assert expected in said
    assert "Traceback" not in done.stderr
    if command != "doctor":
        assert len(done.stderr.strip().splitlines()) == 2, "an error and its remedy"
    assert not (tmp_path / "out").exists()


class _Server(http.server.BaseHTTPRequestHandler):
    """As much of an API server as it takes to see its clock, which is an hour behind."""

    def do_GET(self) -> None:
        self._answer({"gitVersion": "v1.36.3"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        stamp = then.strftime("%Y-%m-%dT%H:%M:%SZ")
        self._answer(
            {"metadata": {"creationTimestamp": stamp}, "status": {"userInfo": {"username": "me"}, "allowed": True}}
        )

    def _answer(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def late_server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    _Server.protocol_version = "HTTP/1.1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_whose_clock_is_off_is_refused(
    late_server: str, scenario: Scenario, seatrial: Seatrial, tmp_path: Path
) -> None:
    file = config(tmp_path, late_server)
    done = seatrial(
        "run", scenario(FAKES), "--on", "kubeconfig", "--context", "mine", "--kubeconfig", file, "-o", "out"
    )
    assert done.returncode == 3
    assert "the clock of the API server is 3599 s behind ours" in done.stderr or "3600 s behind" in done.stderr
    assert "NTP" in done.stderr
    assert not (tmp_path / "out").exists()


def run_as(seatrial: Seatrial, file: Path, kubeconfig: Path) -> Any:
    return seatrial("run", file, "--on", "kubeconfig", "--context", CONTEXT, "--kubeconfig", kubeconfig, "-o", "out")


@pytest.mark.local
def test_somebody_who_may_not_is_told_what_is_missing_before_anything_is_made(
    foreign: Foreign, scenario: Scenario, seatrial: Seatrial, tmp_path: Path
) -> None:
    nobody = foreign.user("nobody")
    before = foreign.everything()
    done = run_as(seatrial, scenario(FAKES), nobody)
    assert done.returncode == 3
    assert "'nobody' may not create namespaces; " in done.stderr and "create nodes" in done.stderr
    assert "resourcequotas" not in done.stderr
    assert "create resourcequotas" in run_as(seatrial, scenario(SHARED), nobody).stderr, "which queues need"
    assert not (tmp_path / "out").exists()
    assert foreign.everything() == before
    asked = seatrial("doctor", "--context", CONTEXT, "--kubeconfig", nobody)
    assert asked.returncode == 3
    assert "missing  permission to create namespaces  have it granted to 'nobody'" in asked.stdout


@pytest.mark.local
def test_existing_nodes_that_are_not_there(foreign: Foreign, scenario: Scenario, seatrial: Seatrial) -> None:
    file = scenario(EXISTING.replace("pool in (batch)", "pool=other"))
    done = run_as(seatrial, file, foreign.kubeconfig)
    assert done.returncode == 3
    assert "no node of this cluster matches `existing: pool=other,!spot`" in done.stderr
    assert "kubectl get nodes --show-labels" in done.stderr


@pytest.mark.local
def test_a_stack_that_is_not_installed_there(foreign: Foreign, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of the server directly: stacks that run on real clusters come one by one."""
    monkeypatch.setenv("KUBECONFIG", str(foreign.kubeconfig))
    trial = Trial(1, "s", "kubeconfig", Setup("kueue", "kueue", ()), {}, 1, 1, ())
    with pytest.raises(SetupProblem, match="the stack 'kueue' is not on this cluster: there is no clusterqueues"):
        prepare(Target(context=CONTEXT), [trial], {"kueue": stacks.find("kueue")})


def test_stacks_that_own_one_crd_are_refused_before_the_cluster_is_asked(tmp_path: Path) -> None:
    both = ("appwrapper", "mcad")
    trials = [Trial(n, "s", "kubeconfig", Setup(name, name, ()), {}, 1, 1, ()) for n, name in enumerate(both)]
    nowhere = Target(context="mine", kubeconfig=str(tmp_path / "none"))
    with pytest.raises(
        SetupProblem, match=r"appwrapper and mcad cannot be on one cluster: both own the CRD appwrappers\."
    ):
        prepare(nowhere, trials, {name: stacks.find(name) for name in both})


@pytest.mark.local
def test_a_cluster_where_another_stack_owns_the_crd(foreign: Foreign, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/apis/apps/v1/namespaces/kube-system/deployments"
    template = {"metadata": {"labels": {"app": "mcad"}}, "spec": {"containers": [{"name": "mcad", "image": "mcad"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "mcad"}}, "template": template}
    named = {"metadata": {"name": "mcad-controller"}, "spec": spec}
    foreign.create(path, {"apiVersion": "apps/v1", "kind": "Deployment", **named})
    monkeypatch.setenv("KUBECONFIG", str(foreign.kubeconfig))
    trial = Trial(1, "s", "kubeconfig", Setup("appwrapper", "appwrapper", ()), {}, 1, 1, ())
    try:
        with pytest.raises(SetupProblem, match="'appwrapper' cannot be on this cluster beside mcad-controller"):
            prepare(Target(context=CONTEXT), [trial], {"appwrapper": stacks.find("appwrapper")})
    finally:
        foreign.api.call("DELETE", f"{path}/mcad-controller")


@pytest.mark.local
@pytest.mark.parametrize(("stack", "sign"), [("volcano", "podgroups.scheduling"), ("kai", "queues.scheduling")])
def test_a_scheduler_that_is_not_installed_there(
    stack: str, sign: str, foreign: Foreign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(foreign.kubeconfig))
    trial = Trial(1, "s", "kubeconfig", Setup(stack, stack, ()), {}, 1, 1, ())
    with pytest.raises(SetupProblem, match=f"the stack '{stack}' is not on this cluster: there is no {sign}"):
        prepare(Target(context=CONTEXT), [trial], {stack: stacks.find(stack)})


@pytest.mark.local
def test_a_kwok_that_takes_all_nodes_is_not_joined_by_a_second(
    foreign: Foreign, scenario: Scenario, seatrial: Seatrial
) -> None:
    path = "/apis/apps/v1/namespaces/kube-system/deployments"
    labels = {"app": "kwok"}
    container = {"name": "kwok", "image": "kwok", "args": ["--manage-all-nodes=true"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kwok-controller"}, "spec": spec}
    foreign.create(path, deployment)
    try:
        done = run_as(seatrial, scenario(FAKES), foreign.kubeconfig)
        asked = seatrial("doctor", "--context", CONTEXT, "--kubeconfig", foreign.kubeconfig)
    finally:
        foreign.api.call("DELETE", f"{path}/kwok-controller")
    assert done.returncode == 3
    assert "a KWOK that takes all nodes runs on this cluster (kube-system/kwok-controller)" in done.stderr
    assert "--extra-args kwok-controller=manage-all-nodes=false" in done.stderr, "what a user of kwokctl has to write"
    assert "manageNodesWithAnnotationSelector" in done.stderr
    assert asked.returncode == 3
    assert foreign.nothing_of_ours()


@pytest.mark.local
def test_a_server_that_refuses_the_nodes_leaves_nothing_behind(
    foreign: Foreign, scenario: Scenario, seatrial: Seatrial
) -> None:
    """A permission is not all: admission may still say no, after the namespace was made."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]}
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-nodes"}}
    policy = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
              "validations": [{"expression": "false", "message": "no nodes for guests"}]}  # fmt: skip
    foreign.create(policies, {**kind, "kind": "ValidatingAdmissionPolicy", "spec": policy})
    binding = {"policyName": "no-nodes", "validationActions": ["Deny"]}
    foreign.create(bindings, {**kind, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding})
    try:
        probe = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "probe"}}
        refused = eventually(lambda: foreign.api.call("POST", "/api/v1/nodes?dryRun=All", probe)[0] == 422)
        assert refused, "a policy takes a moment to be enforced"
        done = run_as(seatrial, scenario(FAKES), foreign.kubeconfig)
    finally:
        foreign.api.call("DELETE", f"{bindings}/no-nodes")
        foreign.api.call("DELETE", f"{policies}/no-nodes")
    assert done.returncode == 3
    assert "no nodes for guests" in done.stderr
    assert "Traceback" not in done.stderr
    assert foreign.nothing_of_ours()


def test_a_context_without_its_kind_of_cluster_is_a_mistake_of_the_command(
    scenario: Scenario, seatrial: Seatrial
) -> None:
    done = seatrial("run", scenario(FAKES), "--context", "mine")
    assert done.returncode == 2
    assert "add --on kubeconfig" in done.stderr
