"""Whether the client counts as the server does: 10,000 requests of every kind, 429s among them, against the audit log.

    python benchmarks/client_truth.py [--requests N]

Prints one line and ends with status 1 unless the counts by identity, verb, resource and code are equal, and those of a custom
resource that nobody else touches equal the server's own request counter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

SCENARIO = """
name: client-truth
nodes: [{name: fake, count: 10, capacity: {cpu: 32, memory: 64Gi}}]
setups:
  off: {stack: default, settings: {kube-apiserver: {fairness: off, audit: all, max-mutating-requests-inflight: 30}}}
namespaces: 10
steps:
  - create:
      name: kinds
      count: 1
      objects:
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: sails.seatrial.dev}
        spec:
          group: seatrial.dev
          scope: Namespaced
          names: {plural: sails, kind: Sail}
          versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
  - create:
      name: sails
      count: SAILS
      workers: 60
      as: {user: tenant, groups: [tenants]}
      objects: {apiVersion: seatrial.dev/v1, kind: Sail, metadata: {name: "s-${i}"}}
  - - get: {of: sails, workers: 10, as: reader}
    - patch: {of: sails, change: {metadata: {annotations: {a: b}}}, rate: 200/s, as: {user-agent: patcher}}
    - list: {of: sails, limit: 50, as: {service-account: lister}}
  - delete: {of: sails, workers: 60, as: tenant}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "s.yaml").write_text(SCENARIO.replace("SAILS", str(options.requests // 4)))
        subprocess.run(
            [sys.executable, "-m", "seatrial", "run", "s.yaml", "--on", "local", "-o", "out"],
            cwd=folder, check=False, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        [directory] = (Path(folder) / "out" / "trials").iterdir()
        trial = json.loads((directory / "trial.json").read_text())
        rows = pl.read_parquet(directory / "requests.parquet").filter(pl.col("seen_by") == "client")
        measured = pl.read_parquet(directory / "metrics.parquet")
    truth = trial["validity"]["requests_against_audit"]
    sails = measured.filter(
        (pl.col("metric") == "apiserver_request_total") & pl.col("labels").str.contains("resource=sails,", literal=True)
        & ~pl.col("labels").str.contains("verb=WATCH", literal=True)
    )  # fmt: skip
    counter = sum(float(value) for value in sails.group_by("labels").agg(pl.col("value").max())["value"])
    mine = rows.filter(pl.col("resource") == "sails").height
    rejected = rows.filter(pl.col("code") == 429).height
    print(
        f"client_truth: {truth['client']:,} requests by the client, {truth['server']:,} in the audit log, {rejected:,} of them "
        f"429, {len(truth['differences'])} differences by identity, verb, resource and code; of the custom resource {mine:,} "
        f"by the client, {counter:,.0f} by the server's counter"
    )
    return 0 if not truth["differences"] and mine == counter and truth["client"] else 1


if __name__ == "__main__":
    sys.exit(main())
