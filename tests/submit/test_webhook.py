"""A webhook of somebody's that refuses some workloads: each refusal is kept in its words, and the rest goes on."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from seatrial.clusters.access import kept_clusters
from seatrial.kube import Resource
from tests.submit.conftest import CLUSTER, Cluster, lines_of
from tests.submit.test_submitting import _until_denied, project, submit

__all__ = ["project"]
pytestmark = pytest.mark.local
WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration",
    namespaced=False,
)  # fmt: skip


class Refusing(BaseHTTPRequestHandler):
    """Says no to every Job whose name ends in 1."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = review["request"]
        allowed = not asked["name"].endswith("1")
        answer = {"uid": asked["uid"], "allowed": allowed, "status": {"code": 403, "message": "no ones"}}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    layout = kept_clusters.find(CLUSTER).layout
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(layout.certificate("serving"), layout.key("serving"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_what_a_webhook_refuses_is_recorded_in_its_words_and_does_not_stop_the_others(
    cluster: Cluster, tmp_path: Path, project: str, address: str
) -> None:
    authority = base64.b64encode(kept_clusters.find(CLUSTER).layout.ca.read_bytes()).decode()
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    hook = {
        "name": "refusing.example.com", "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": address, "caBundle": authority},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": project}},
    }  # fmt: skip
    cluster.create(WEBHOOKS, "refusing", webhooks=[hook])
    try:
        cluster.ask(lambda client: _until_denied(client, project))
        sent = submit(tmp_path / "out", workloads=12, project=project)
    finally:
        cluster.ask(lambda client: client.delete(WEBHOOKS, "refusing"))
    assert sent.sent == 10
    [(why, many)] = sent.refused.items()
    assert (why, many) == ('admission webhook "refusing.example.com" denied the request: no ones', 2)
    assert {line["index"] for line in lines_of(tmp_path / "out") if "refused" in line} == {1, 11}
