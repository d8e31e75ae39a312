"""Whether two checkouts write the same studies: every shipped scenario on `sim`, same seed, compared file by file.

    python benchmarks/same_bytes.py ../before                        this checkout against the one in ../before
    python benchmarks/same_bytes.py ../before --scenario gpu-requests
    python benchmarks/same_bytes.py ../before --keep /tmp/studies    keeps the studies, and reuses those of ../before

Wall-clock fields of `study.json` and `trial.json` are left out; `report.html` embeds them and is not compared. A file that
differs is named, a JSON file with the fields that differ. One line of figures at the end; exit status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
WALL_CLOCK = {"started", "ended", "wall_s", "machine", "versions", "seatrial", "speed", "cpu_s", "program"}
ADDED = {"spent_on"}  # fields of trial.json that older checkouts do not write
NOT_COMPARED = {"report.html", "log.txt"}


def run(checkout: Path, scenario: str, out: Path) -> None:
    """Runs one scenario with the code of `checkout`; the study is relative to the working directory, so its path is the same."""
    out.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    file = out / f"{scenario}.yaml"
    file.write_bytes((HERE / "scenarios" / f"{scenario}.yaml").read_bytes())
    command = [
        sys.executable,
        "-m",
        "seatrial",
        "run",
        file.name,
        "--repeat",
        "1",
        "--seed",
        "7",
        "-o",
        scenario,
        "--force",
    ]
    done = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{checkout}: {scenario} ended with {done.returncode}:\n{done.stderr}")


def flattened(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every leaf of a JSON value with its path, wall-clock fields left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in WALL_CLOCK | ADDED:
                yield from flattened(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from flattened(inner, f"{path}[{index}]")
    else:
        yield path, value


def content(file: Path) -> dict[str, Any]:
    """What is compared of a file: the fields of JSON, the digest of anything else."""
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    if file.suffix == ".json" or file.name.endswith(".json.gz"):
        return dict(flattened(json.loads(data)))
    return {"": hashlib.sha256(data).hexdigest()}


def differences(before: Path, after: Path) -> list[str]:
    """Names every file, and in JSON every field, in which two studies differ."""
    files = {path.relative_to(root) for root in (before, after) for path in root.rglob("*") if path.is_file()}
    found = []
    for name in sorted(file for file in files if file.name not in NOT_COMPARED and not file.name.startswith(".")):
        if not (before / name).exists() or not (after / name).exists():
            found.append(f"{name}: only {'after' if (after / name).exists() else 'before'}")
            continue
        old, new = content(before / name), content(after / name)
        for field in old | new:
            if old.get(field) != new.get(field):
                shown = f" {field}: {old.get(field)!r} -> {new.get(field)!r}" if field else " differs"
                found.append(f"{name}:{shown[:300]}")
    return found


def main() -> int:
    """Compares this checkout with another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("--scenario", action="append", help="only this shipped scenario; may be repeated")
    parser.add_argument("--keep", type=Path, help="keep the studies here, and reuse those of the other checkout")
    options = parser.parse_args()
    scenarios = options.scenario or sorted(file.stem for file in (HERE / "scenarios").glob("*.yaml"))
    with tempfile.TemporaryDirectory() as temporary:
        place: Path = options.keep or Path(temporary)
        different = 0
        for scenario in scenarios:
            if not (place / "before" / scenario / "summary.csv").exists():
                run(options.before.resolve(), scenario, place / "before")
            run(HERE, scenario, place / "after")
            found = differences(place / "before" / scenario, place / "after" / scenario)
            different += bool(found)
            for line in found:
                print(f"{scenario}/{line}")
    print(f"same_bytes: {len(scenarios) - different} of {len(scenarios)} scenarios wrote the same study")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
