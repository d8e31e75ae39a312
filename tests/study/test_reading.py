"""A run reads its study once: `Study.open` is passed on from the tables to the last line on the terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

SCENARIO = """
name: reads
nodes: [{name: n, count: 1, capacity: {cpu: 4, memory: 8Gi}}]
params: {jobs: [1, 2]}
stacks: [default]
steps:
  - create: {name: maps, objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "m-${i}"}}, count: 5, rate: 5/s}
  - submit: {name: jobs, count: "${jobs}", duration: 1s, requests: {cpu: 10m}}
  - wait: {for: completed, timeout: 1m}
expect: ["completed == submitted"]
"""
TABLES = ("observed", "pods", "requests", "metrics")
# Opens of Python are audited; polars opens Parquet files by itself.
COUNTING = """
import json, os, sys
import polars
out, opened, read_parquet = sys.argv[1], [], polars.read_parquet

def audit(event, arguments):
    if event == "open" and str(arguments[0]).startswith(out) and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_DIRECTORY):
        opened.append(str(arguments[0]))

def counted(source, **options):
    opened.append(str(source))
    return read_parquet(source, **options)

polars.read_parquet = counted
sys.addaudithook(audit)
sys.argv[:2] = ["seatrial"]
from seatrial.cli.main import main
try:
    main()
finally:
    os.write(3, json.dumps(opened).encode())
"""


def _reads(out: Path, *arguments: str) -> Counter[str]:
    """How often each file of the study is opened for reading by one command."""
    opens = out.with_suffix(".opens")
    with opens.open("wb") as file:
        subprocess.run(
            ["bash", "-c", 'exec 3>&1 >/dev/null; exec "$@"', "-", sys.executable, "-c", COUNTING, str(out), *arguments],
            stdout=file, check=True,
        )  # fmt: skip
    return Counter(Path(name).name for name in json.loads(opens.read_text()) if Path(name).suffix != ".seg")


def test_a_run_reads_each_file_of_its_study_once(tmp_path: Path) -> None:
    (tmp_path / "reads.yaml").write_text(SCENARIO)
    out = tmp_path / "out"
    read = _reads(out, "run", str(tmp_path / "reads.yaml"), "-j", "1", "-o", str(out))
    assert read["study.json"] == 1
    per_trial = {name: count / 2 for name, count in read.items()}
    for name in ("trial.json", "observed.parquet", "pods.parquet", "nodes.txt"):
        assert per_trial[name] == 1, name
    for name in ("submitted.jsonl", "requests.parquet", "metrics.parquet"):
        assert per_trial[name] == 2, f"{name}: a trial that judges itself, perhaps in another process, and the report"


def test_a_report_reads_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "reads.yaml").write_text(SCENARIO)
    out = tmp_path / "out"
    _reads(out, "run", str(tmp_path / "reads.yaml"), "-j", "1", "-o", str(out))
    read = _reads(out, "report", str(out), "--junit", str(tmp_path / "junit.xml"))
    assert read["study.json"] == 1
    for name in ("trial.json", "submitted.jsonl", "nodes.txt", *(f"{table}.parquet" for table in TABLES)):
        assert read[name] == 2, f"{name}: once for each trial"
