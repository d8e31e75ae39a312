"""`seatrial run OUT/study.json`: a study is run again with the scenario, options, seed and cluster that study.json holds."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.plan import Scalar, Target
from seatrial.record.layout import FORMAT
from seatrial.scenario.document import Scenario, from_document, read, shipped_files
from seatrial.scenario.settings_file import with_settings_file


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """Scenario and options of an earlier run."""

    scenario: Scenario
    on: str
    setups: list[str] | None
    stacks: list[str] | None
    sets: dict[str, list[Scalar]]
    repeat: int | None
    seed: int
    target: Target
    vary: list[str] = field(default_factory=list)
    limit: str = ""
    file: str = ""  # of the scenario, as the user named it
    document: Mapping[str, Any] = field(default_factory=dict)  # of the scenario, as study.json has it

    def scenario_now(self) -> Scenario:
        """The scenario file as it is today; what study.json holds if the file is gone."""
        if self.file and Path(self.file).is_file():
            return with_settings_file(read(self.file))
        built_in = shipped_files().get(Path(self.file).stem)
        if built_in is not None:
            scenario = with_settings_file(read(built_in.stem))
            if scenario.document == self.document:
                return scenario
        return self.scenario


def earlier_run(where: str) -> EarlierRun | None:
    """The run that a study.json describes; None if `where` is not a JSON file, but a scenario."""
    path = Path(where)
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        study = json.loads(path.read_bytes())
    except ValueError as error:
        raise SetupProblem(f"{path} is not JSON: {error}", "restore it from a backup, or run the scenario") from None
    if not isinstance(study, dict) or not isinstance(study.get("format"), int):
        raise UsageProblem(f"{path} describes no study", "name OUT/study.json, or a scenario")
    if study["format"] > FORMAT:
        raise UsageProblem(
            f"{path} has format {study['format']}, written by seatrial {study.get('seatrial')}; this one reads up to {FORMAT}",
            "upgrade seatrial",
        )
    document, asked = study.get("scenario") or {}, study.get("asked") or {}
    if not document.get("steps"):
        raise UsageProblem(
            f"{path} holds no scenario ({study.get('name')})", "only a study of `seatrial run` can be run again"
        )
    known = {name: study["target"][name] for name in _KEPT if name in (study.get("target") or {})}
    return EarlierRun(
        from_document(_with_files(document, str(asked.get("file", ""))), where),
        str(study.get("on", "sim")),
        asked.get("setup"),
        asked.get("stack"),
        dict(asked.get("set") or {}),
        asked.get("repeat"),
        int(study.get("seed", 1)),
        Target(**{**known, "profile": tuple(known.get("profile", ()))}),
        list(asked.get("vary") or ()),
        str(asked.get("limit") or ""),
        str(asked.get("file", "")),
        document,
    )


_KEPT = ("cluster", "binaries", "context", "kubeconfig", "profile")


def _with_files(document: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Paths of programs, configurations and data are relative to the directory of the scenario file."""
    whole: dict[str, Any] = copy.deepcopy(dict(document))
    for holder in _holding("empirical", whole.get("steps")):
        empirical = holder["empirical"]
        if isinstance(empirical, dict) and isinstance(empirical.get("file"), str):
            empirical["file"] = str((Path(file).parent / empirical["file"]).absolute())
    for named in _holding("trace", whole.get("steps")):
        if isinstance(named["trace"], str):
            named["trace"] = str((Path(file).parent / named["trace"]).absolute())
    for setup in (whole.get("setups") or {}).values():
        for part in (setup.get("components") or {}).values():
            for key in ("binary", "config"):
                if part.get(key):
                    part[key] = str((Path(file).parent / part[key]).absolute())
    return whole


def _holding(key: str, data: Any) -> Iterator[Any]:
    """All mappings that have a key, however deep."""
    if isinstance(data, dict) and key in data:
        yield data
    for child in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _holding(key, child)
