"""The whole choreography of the experiment on a real control plane, with and without Priority & Fairness.

    python benchmarks/choreography.py [--out OUT] [--set k=v]

1,000 namespaces, 700 Deployments with what they mount, 200,000 Secrets and ConfigMaps by 50 workers, all deleted again. Prints
one line per set-up and ends with status 1 unless both completed, everything was made and everything was deleted: by the
server's answers, and by asking it at the end whether anything is left.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

MADE, GONE = ("create", 201), ("delete", 200)


def line(directory: Path) -> tuple[str, bool]:
    trial: dict[str, Any] = json.loads((directory / "trial.json").read_text())
    rows = pl.read_parquet(directory / "requests.parquet").filter(pl.col("seen_by") == "client")
    counts = {(verb, code): count for verb, code, count in rows.group_by("verb", "code").len().iter_rows()}
    took = "; ".join(f"{one['phase']} {(one['until_ns'] - one['from_ns']) / 1e9:.0f} s" for one in trial["took"])
    kept = rows.filter((pl.col("phase") == "accounts") & (pl.col("code") == 201)).height  # the experiment leaves them
    whole = trial["outcome"] == "completed" and counts.get(MADE, 0) - kept == counts.get(GONE, 0)
    other = {f"{verb} {code}": n for (verb, code), n in sorted(counts.items()) if (verb, code) not in (MADE, GONE)}
    return (
        f"choreography: {trial['setup']}: {trial['outcome']}, {counts.get(MADE, 0):,} created, {counts.get(GONE, 0):,} "
        f"deleted, other answers {other or 'none'}; {took}",
        whole,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--set", default="")
    parser.add_argument("--setup", default="off,on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = options.out or Path(folder) / "out"
        more = ["--set", options.set] if options.set else []
        subprocess.run(
            [sys.executable, "-m", "seatrial", "run", "priority-and-fairness", "--on", "local", "--repeat", "1", "--setup",
             options.setup, "-o", str(out), *more], check=False, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        lines = [line(path) for path in sorted((out / "trials").iterdir())]
    for text, _ in lines:
        print(text, flush=True)
    return 0 if lines and all(whole for _, whole in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
