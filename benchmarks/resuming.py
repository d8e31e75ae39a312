"""Whether a study of 60 trials that is killed (`kill -9`) and resumed gets the bytes of one that never was.

    python benchmarks/resuming.py [--moments 20] [--seed 1]

Each moment is drawn from the time that the whole command takes, so that trials, workers that start, tables and pictures are all
hit. Before study.json exists there is nothing to resume: such a run is begun again. Exit status 1 if any byte differs.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.study.test_resuming import SWEEP  # noqa: E402
from tests.study_contents import contents  # noqa: E402

COMMAND = [sys.executable, "-m", "seatrial", "run"]


def run(folder: Path, *arguments: str) -> float:
    """Runs to the end; how long that takes."""
    began = time.monotonic()
    done = subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"resuming: exit status {done.returncode}: {done.stderr[-2000:]}")
    return time.monotonic() - began


def kill(folder: Path, after: float) -> int:
    """Kills a run after so many seconds; how many trials it had begun."""
    process = subprocess.Popen(
        [*COMMAND, "sweep.yaml", "-o", "out", "-j", "2"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(after)
    process.kill()
    process.wait()
    return len(list((folder / "out" / "trials").glob("*")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    same, resumed, begun = 0, 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sweep.yaml").write_text(SWEEP)
        whole = run(folder, "sweep.yaml", "-o", "never", "-j", "2")
        never = contents(folder / "never")
        for _ in range(options.moments):
            shutil.rmtree(folder / "out", ignore_errors=True)
            begun.append(kill(folder, draw.uniform(0, whole)))
            if (folder / "out" / "study.json").is_file():
                resumed += 1
                run(folder, "--resume", "out", "-j", "2")
            else:
                run(folder, "sweep.yaml", "-o", "out", "-j", "2")
            same += contents(folder / "out") == never
    print(
        f"resuming: {same} of {options.moments} studies of 60 trials, killed at random moments of {whole:.1f} s, have the same "
        f"bytes; {resumed} resumed, killed with {', '.join(map(str, sorted(begun)))} trials begun"
    )
    sys.exit(same < options.moments)


if __name__ == "__main__":
    main()
