"""The stages that fake nodes and pods play where no scenario says otherwise, and reading those of a user."""

from __future__ import annotations

from pathlib import Path

import yaml

from seatrial.model.errors import SetupProblem, UsageProblem


def default_stages() -> str:
    """Nodes are Ready and pods run at once; pods of Jobs complete after their annotation `seatrial.dev/duration`."""
    return Path(__file__).with_name("stages.yaml").read_text()


def read_stages(file: Path) -> str:
    """Text that KWOK will take: it dies with a Go stack trace on anything that is not YAML with stages."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupProblem(f"{file} cannot be read: {error}", "Name a file with KWOK stages.") from error
    try:
        documents = [d for d in yaml.safe_load_all(text) if d]
    except yaml.YAMLError as error:
        raise UsageProblem(f"{file} is not YAML: {error}", "Correct it there.") from error
    if not any(isinstance(d, dict) and d.get("kind") == "Stage" for d in documents):
        raise UsageProblem(f"{file} has no KWOK stage", "It needs documents with `kind: Stage`.")
    return text
