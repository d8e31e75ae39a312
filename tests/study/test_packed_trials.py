"""A trial's directory arrives as it was packed, and nothing is written beside it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from seatrial.model.errors import SetupProblem
from seatrial.study.packed_trials import pack, unpack


def test_files_arrive_with_their_bytes_and_modes(tmp_path: Path) -> None:
    made = tmp_path / "made"
    (made / "profiles").mkdir(parents=True)
    files = {
        "trial.json": b"{}",
        "observed.parquet": bytes(range(256)) * 9,
        "profiles/one.txt": b"a" * 9999,
        "empty": b"",
    }
    for name, data in files.items():
        (made / name).write_bytes(data)
    (made / "empty").chmod(0o600)
    packed = pack(made)
    assert len(packed) < 9999, "text is compressed"
    unpack(packed, tmp_path / "arrived")
    found = {
        str(one.relative_to(tmp_path / "arrived")): one for one in (tmp_path / "arrived").rglob("*") if one.is_file()
    }
    assert {name: one.read_bytes() for name, one in found.items()} == files
    assert {name: one.stat().st_mode for name, one in found.items()} == {n: (made / n).stat().st_mode for n in files}


@pytest.mark.parametrize("name", ["../away", "/away", "in/../../away"])
def test_a_name_that_leads_out_of_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(SetupProblem, match="leads out of its directory"):
        unpack(packed.getvalue(), tmp_path / "arrived")
    assert not list(tmp_path.glob("**/away"))
