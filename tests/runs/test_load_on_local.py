"""Loads on a real API server: everything made and gone again, counted by the server; who is rejected, and why."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import Seatrial
from tests.runs.conftest import processes_of

pytestmark = pytest.mark.local

CHOREOGRAPHY = """
name: choreography
nodes: [{name: fake, count: 2, capacity: {cpu: 32, memory: 64Gi}}]
setups: {on: {stack: default, settings: {kube-apiserver: {audit: all}}}}
namespaces: 5
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
          versions:
            - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - - create:
        name: apps
        count: 5
        objects:
          - {apiVersion: v1, kind: Secret, metadata: {name: "app-${i}"}, stringData: {key: "${namespace}"}}
          - apiVersion: apps/v1
            kind: Deployment
            metadata: {name: "app-${i}"}
            spec:
              selector: {matchLabels: {app: "app-${i}"}}
              template:
                metadata: {labels: {app: "app-${i}"}}
                spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: none}]}
    - create:
        {name: accounts, each: 1, as: {service-account: maker},
         objects: {apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}}
    - create:
        name: mass
        each: 40
        workers: 10
        payload: 1k
        as: {user: tenant, groups: [tenants]}
        objects:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: "m-${i}"}, data: {key: "${payload}"}}
          - {apiVersion: seatrial.dev/v1, kind: Sail, metadata: {name: "m-${i}"}}
  - wait: {for: pods-running, of: apps, timeout: 1m}
  - wait: {for: available, of: apps, timeout: 1m}
  - - patch: {of: mass, kinds: ConfigMap, change: {data: {seen: "yes"}}, rate: 100/s, for: 1s, as: patcher}
    - get: {of: mass, count: 100, as: patcher}
    - list: {of: mass, limit: 15}
    - list: {of: mass, kinds: ConfigMap, across: true, from: cache}
    - watch: {of: mass, kinds: ConfigMap, for: 1s, workers: 2}
    - update: {of: mass, kinds: ConfigMap, count: 10, change: {data: {new: "yes"}}}
  - delete: {of: apps, workers: 2}
  - wait: {for: pods-gone, of: apps, timeout: 1m}
  - delete: {of: mass, kinds: ConfigMap, workers: 2}
  - delete-collection: {of: mass, kinds: Sail}
  - wait: {for: gone, of: [apps, mass], timeout: 1m}
expect: ["errors == 0", "rejected == 0", "requests(tenant) == 400"]
"""

# One worker of its own stands beside those that fill the server, so that what it waits between its requests can be seen.
HELD = """
name: held
nodes: [{name: fake, count: 50, capacity: {cpu: 32, memory: 64Gi}}]
settings: {kube-apiserver: {max-requests-inflight: 10, max-mutating-requests-inflight: 10}}
setups:
  "off": {stack: default, delay: 400ms, settings: {kube-apiserver: {fairness: "off"}}}
  "on":
    stack: default
    delay: 400ms
    priority-levels:
      - name: tenants
        type: Limited
        limited:
          nominalConcurrencyShares: 20
          limitResponse: {type: Queue, queuing: {queues: 4, handSize: 2, queueLengthLimit: 5}}
    flow-schemas:
      - name: tenants
        matchingPrecedence: 500
        priorityLevelConfiguration: {name: tenants}
        distinguisherMethod: {type: ByUser}
        rules:
          - subjects: [{kind: User, user: {name: tenant}}, {kind: User, user: {name: lone}}]
            resourceRules: &everything [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"]}]
      - name: nobody
        matchingPrecedence: 400
        priorityLevelConfiguration: {name: tenants}
        rules: [{subjects: [{kind: User, user: {name: ghost}}], resourceRules: *everything}]
steps:
  - - create:
        {name: mass, for: 12s, workers: 60, as: tenant,
         objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "m-${i}"}}}
    - create: {name: alone, for: 12s, as: lone, objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "l-${i}"}}}
expect:
  - errors == 0
  - rejected(tenant) > 0 and retried(tenant) > 0
  - 'setup != "off" or rejected(nodes) > 0'
  - 'setup != "on" or rejected(nodes) == 0 and rejected("kube-controller-manager") == 0'
"""


TOGETHER = """
name: together
nodes: [{name: fake, count: 1, capacity: {cpu: 32, memory: 64Gi}}]
stacks: [default]
steps:
  - - create: {name: a, count: 20, as: tenant, objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "a-${i}"}}}
    - create: {name: b, count: 20, as: tenant, objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "b-${i}"}}}
    - create:
        {name: c, count: 20, as: {service-account: maker},
         objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "c-${i}"}}}
expect: ["errors == 0", "requests(tenant) == 40", "requests == 60"]
"""


def _trial(out: Path, setup: str) -> tuple[dict[str, Any], pl.DataFrame]:
    [directory] = (out / "trials").glob(f"*-{setup}-r1")
    return json.loads((directory / "trial.json").read_text()), pl.read_parquet(directory / "requests.parquet")


def test_phases_that_begin_together_wait_until_their_identity_may_act(
    seatrial_giving_roles_slowly: Seatrial, tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(TOGETHER)
    done = seatrial_giving_roles_slowly("run", "s.yaml", "--on", "local", "-o", "out")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_choreography_leaves_nothing_and_the_server_counts_what_the_client_counts(
    seatrial: Seatrial, tmp_path: Path, own_state: Path
) -> None:
    (tmp_path / "s.yaml").write_text(CHOREOGRAPHY)
    done = seatrial("run", "s.yaml", "--on", "local", "-o", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    trial, rows = _trial(tmp_path / "out", "on")
    assert trial["outcome"] == "completed"
    sent = rows.filter(pl.col("seen_by") == "client")
    counts = dict(sent.group_by(pl.concat_str("verb", "resource", "code", separator=" ")).len().iter_rows())
    assert counts["create sails 201"] == counts["create configmaps 201"] == 200
    assert counts["delete configmaps 200"] == 200
    assert counts["deletecollection sails 200"] == 5
    assert counts["create serviceaccounts 201"] == counts["delete deployments 200"] == 5
    assert counts["list configmaps 200"] == 5 * 3 + 1
    assert counts["watch configmaps 200"] == 2
    audit = trial["validity"]["requests_against_audit"]
    assert audit["differences"] == []
    assert audit["client"] == audit["server"] == sent.height
    measured = pl.read_parquet(next((tmp_path / "out").glob("trials/*/metrics.parquet")))
    made = measured.filter(
        (pl.col("metric") == "apiserver_request_total") & (pl.col("labels") == "code=201,resource=sails,verb=POST")
    )
    assert made["value"].max() == 200
    assert {"load_average", "cpu_busy_seconds", "memory_used_bytes"} <= set(measured["metric"])
    assert {"etcd", "client", "kube-apiserver"} <= set(
        measured.filter(pl.col("metric") == "process_cpu_seconds")["source"]
    )
    # Not as expectations: a busy machine makes the trial invalid, and then nothing measured passes a gate.
    summary = pl.read_csv(tmp_path / "out" / "summary.csv")
    assert summary["api_p99_s"][0] > 0 and summary["pod_start_p99_s"][0] > 0
    starts = pl.read_parquet(next((tmp_path / "out").glob("trials/*/starts.parquet")))
    assert starts.height == 5
    # Both may arrive in one piece, and then have one stamp.
    assert (starts["created_ns"] <= starts["running_ns"]).all() and (starts["running_ns"] < starts["gone_ns"]).all()
    assert (tmp_path / "out" / "api.png").is_file()
    assert not processes_of(own_state)
    text = "".join(path.read_text() for path in (tmp_path / "out").rglob("*.json"))
    assert "BEGIN" not in text and "token" not in text.lower()


def test_held_requests_fill_the_server_and_fairness_keeps_nodes_out_of_it(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(HELD)
    done = seatrial("run", "s.yaml", "--on", "local", "-o", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the flow schema 'nobody' matched no request" in done.stdout
    assert "queue-full, in priority level tenants (flow schema tenants)" in done.stdout
    summary = pl.read_csv(tmp_path / "out" / "summary.csv").filter(pl.col("setup") == "on")
    assert summary["queued_max"][0] > 0
    table = pl.read_csv(tmp_path / "out" / "api.csv")
    flow = table.filter((pl.col("about") == "flow") & (pl.col("who") == "tenants") & (pl.col("setup") == "on"))
    by_server = flow.filter(pl.col("statistic").str.starts_with("rejected"))["value"].sum()
    for setup in ("off", "on"):
        _, rows = _trial(tmp_path / "out", setup)
        sent = rows.filter(pl.col("seen_by") == "client")
        rejected = sent.filter(pl.col("code") == 429)
        assert (rejected["retry_after_s"] >= 1).all()  # the server asks for more when it has to say so often
        held = sent.filter(pl.col("code") == 201)["took_ns"]
        assert (held >= 400_000_000).all()
        if setup == "on":
            assert rejected.height == by_server
        alone = sent.filter(pl.col("phase") == "alone").sort("sent_ns").rows(named=True)
        for earlier, later in pairwise(alone):
            waited = later["sent_ns"] - earlier["at_ns"] - earlier["took_ns"]
            assert waited >= max(earlier["retry_after_s"], 0) * 1_000_000_000
    _, rows = _trial(tmp_path / "out", "off")
    assert rows.filter((pl.col("identity") == "nodes") & (pl.col("code") == 429)).height > 0


def test_a_load_as_masters_and_a_limit_of_zero_are_refused_with_their_place(seatrial: Seatrial, tmp_path: Path) -> None:
    wrong = HELD.replace("as: lone", "as: {user: lone, groups: [system:masters]}")
    (tmp_path / "s.yaml").write_text(wrong.replace("max-requests-inflight: 10", "max-requests-inflight: 0", 1))
    done = seatrial("run", "s.yaml", "--on", "local", "-o", "out")
    assert done.returncode == 2
    assert "s.yaml:4:52: '0' is not a number of 1 or more" in done.stderr
    assert "a load never runs as system:masters" in done.stderr
    assert not (tmp_path / "out").exists()
