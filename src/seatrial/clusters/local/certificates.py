"""A certificate authority per cluster, a client certificate per component, and kubeconfig files to use them.

Separate identities let Priority & Fairness and the audit log tell who did what; the load is not in `system:masters`, so that
fairness applies to it. Keys are elliptic (P-256), made in a few milliseconds, except for the authority's: an API server checks
the signature on a client's certificate with every request, and an RSA signature is checked in a fifth of the time. Making that
key takes 0.15 s, now and then 0.6 s (docs/local.md).
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from seatrial.clusters.supervision.directories import Layout, write_private
from seatrial.model.control_plane import Identity

EXPONENT = 3  # of the authority's key: a signature is checked with 2 multiplications instead of 17 (docs/local.md)
LIFETIME = datetime.timedelta(days=3650)
SKEW = datetime.timedelta(days=1)  # a clock that is set back must not make a fresh certificate invalid
SERVING = "serving"
WEBHOOKS = "tls"  # the same files under the names that controller-runtime looks for
SERVICE_ACCOUNTS = "service-accounts"
_SigningKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


class Authority:
    """Signs what this cluster trusts. Its key is in the cluster's directory, so identities can be added later."""

    def __init__(self, key: _SigningKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, common_name: str) -> Authority:
        """A new authority."""
        key = rsa.generate_private_key(EXPONENT, 2048)
        name = _subject(common_name)
        builder = _builder(name, name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return cls(key, builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, layout: Layout) -> Authority:
        """The authority of a cluster."""
        key = serialization.load_pem_private_key(layout.key("ca").read_bytes(), password=None)
        assert isinstance(key, _SigningKey)
        return cls(key, x509.load_pem_x509_certificate(layout.ca.read_bytes()))

    def save(self, layout: Layout) -> None:
        """Writes certificate and key."""
        write_private(layout.ca, self._certificate.public_bytes(serialization.Encoding.PEM))
        write_private(layout.key("ca"), _pem(self._key))

    def issue_client(self, layout: Layout, identity: Identity) -> None:
        """Writes certificate and key of an identity."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(identity.user, identity.groups), self._certificate.subject, key.public_key())
        self._sign(layout, identity.name, key, builder, ExtendedKeyUsageOID.CLIENT_AUTH)

    def issue_server(self, layout: Layout) -> None:
        """Writes one serving certificate for all components: they all listen on 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject("seatrial"), self._certificate.subject, key.public_key())
        alternatives: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        alternatives += [x509.DNSName(name) for name in ("localhost", "kubernetes.default.svc")]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        self._sign(layout, SERVING, key, builder, ExtendedKeyUsageOID.SERVER_AUTH)
        layout.certificate(WEBHOOKS).symlink_to(layout.certificate(SERVING).name)
        layout.key(WEBHOOKS).symlink_to(layout.key(SERVING).name)

    def _sign(
        self,
        layout: Layout,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        builder: x509.CertificateBuilder,
        purpose: x509.ObjectIdentifier,
    ) -> None:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        write_private(layout.certificate(name), certificate.public_bytes(serialization.Encoding.PEM))
        write_private(layout.key(name), _pem(key))


def create_pki(layout: Layout, identities: Iterable[Identity]) -> Authority:
    """Writes what a control plane needs to start: authority, serving certificate, client certificates, service account key."""
    authority = Authority.create(f"seatrial {layout.name}")
    authority.save(layout)
    authority.issue_server(layout)
    for identity in identities:
        authority.issue_client(layout, identity)
    signer = ec.generate_private_key(ec.SECP256R1())
    write_private(layout.key(SERVICE_ACCOUNTS), _pem(signer))
    # From an elliptic PKCS#8 key the API server reads the private key, but not the public one.
    public = signer.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    write_private(layout.pki / f"{SERVICE_ACCOUNTS}.pub", public)
    return authority


def _pem(key: _SigningKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _subject(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    parts: list[x509.NameAttribute[Any]] = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def write_kubeconfig(layout: Layout, url: str, identity: Identity) -> None:
    """With the certificates inside, so that the file works wherever it is copied to. The context is `seatrial-NAME`."""
    context = f"seatrial-{layout.name}"
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": {"server": url, "certificate-authority-data": _base64(layout.ca)}}],
        "users": [
            {
                "name": f"{context}-{identity.name}",
                "user": {
                    "client-certificate-data": _base64(layout.certificate(identity.name)),
                    "client-key-data": _base64(layout.key(identity.name)),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": f"{context}-{identity.name}"}}],
        "current-context": context,
    }
    write_private(layout.kubeconfig(identity.name), (json.dumps(document, indent=2) + "\n").encode())


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
