"""Certificates, keys and kubeconfig files, without a control plane."""

from __future__ import annotations

import json
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from seatrial.clusters.local.certificates import Authority, create_pki, write_kubeconfig
from seatrial.clusters.local.components import IDENTITIES
from seatrial.clusters.supervision.directories import Layout
from seatrial.model.control_plane import Identity
from seatrial.model.errors import SetupProblem


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def subject_of(file: Path) -> tuple[str, list[str]]:
    subject = x509.load_pem_x509_certificate(file.read_bytes()).subject
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(names[0].value), [str(group.value) for group in groups]


def test_only_the_authority_has_a_key_of_rsa_which_takes_long_to_make(layout: Layout) -> None:
    create_pki(layout, IDENTITIES)
    keys = {file.name: load_pem_private_key(file.read_bytes(), None) for file in layout.pki.glob("*.key")}
    assert len(keys) > len(IDENTITIES)
    assert [name for name, key in keys.items() if isinstance(key, rsa.RSAPrivateKey)] == [layout.key("ca").name]
    assert all(isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) for key in keys.values())


def test_only_the_owner_can_read_what_is_made(layout: Layout) -> None:
    create_pki(layout, IDENTITIES)
    for identity in IDENTITIES:
        write_kubeconfig(layout, "https://127.0.0.1:1", identity)
    for file in [*layout.pki.iterdir(), *layout.kubeconfig("x").parent.iterdir()]:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    for folder in (layout.pki, layout.kubeconfig("x").parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_components_have_their_well_known_names_and_the_load_is_not_exempt_from_fairness(layout: Layout) -> None:
    create_pki(layout, IDENTITIES)
    assert subject_of(layout.certificate("kube-scheduler")) == ("system:kube-scheduler", [])
    assert subject_of(layout.certificate("kube-controller-manager"))[0] == "system:kube-controller-manager"
    assert subject_of(layout.certificate("kwok")) == ("kwok", ["system:nodes"])
    assert subject_of(layout.certificate("seatrial")) == ("seatrial", [])
    assert subject_of(layout.certificate("admin"))[1] == ["system:masters"]


def test_every_certificate_is_accepted_by_an_ordinary_tls_library(layout: Layout) -> None:
    create_pki(layout, IDENTITIES)
    for name in ["serving", *(identity.name for identity in IDENTITIES)]:
        context = ssl.create_default_context(cafile=str(layout.ca))
        context.load_cert_chain(layout.certificate(name), layout.key(name))


def test_an_identity_can_be_added_later_by_the_same_authority(layout: Layout) -> None:
    create_pki(layout, IDENTITIES)
    Authority.load(layout).issue_client(layout, Identity("tenant", "tenant-1", ("tenants",)))
    assert subject_of(layout.certificate("tenant")) == ("tenant-1", ["tenants"])
    certificate = x509.load_pem_x509_certificate(layout.certificate("tenant").read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(layout.ca.read_bytes()))


def test_a_kubeconfig_works_wherever_it_is_copied(layout: Layout) -> None:
    create_pki(layout, IDENTITIES)
    write_kubeconfig(layout, "https://127.0.0.1:6443", IDENTITIES[1])
    text = layout.kubeconfig("seatrial").read_text()
    assert str(layout.directory) not in text
    assert json.loads(text)["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"


def test_a_directory_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupProblem, match="cannot write"):
        create_pki(Layout(tmp_path / "file"), IDENTITIES)
