"""Kubeconfig files, one per identity, with the certificates inside so that a file works wherever it is copied to."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from seatrial.clusters.local.places import Layout, write_private
from seatrial.model.control_plane import Identity


def write_kubeconfig(layout: Layout, url: str, identity: Identity) -> None:
    """The context is called `seatrial-NAME`. JSON is YAML, and needs no library to write."""
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
