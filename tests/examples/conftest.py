"""The example packages, installed into a fresh environment: offline, and in about a second.

A wheel of pure Python is a folder with its metadata beside it. It is made here from the package's own pyproject.toml: its build
backend would have to be fetched from a package index first. seatrial and what it needs come from the environment of the tests.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.conftest import Seatrial, command_in

EXAMPLES = Path(__file__).parents[2] / "examples"


def install(package: Path, environment: Path) -> Path:
    """Makes the environment, installs the package; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=120)
    [site] = environment.glob("lib/python*/site-packages")
    (site / "tests-environment.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    project = tomllib.loads((package / "pyproject.toml").read_text())
    about = project["project"]
    for folder in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        (site / Path(folder).name).symlink_to(package / folder)
    metadata = site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in about["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    return environment / "bin" / "python"


@pytest.fixture(scope="session")
def turnstile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has examples/turnstile."""
    return install(EXAMPLES / "turnstile", tmp_path_factory.mktemp("environment") / "venv")


@pytest.fixture
def fresh(turnstile: Path, tmp_path: Path) -> Seatrial:
    """`seatrial` in that environment, in an empty directory."""
    return command_in(tmp_path, str(turnstile), "-m", "seatrial")
