"""Values of unquoted words by the core rules of YAML 1.2. By those of PyYAML (1.1) `on` is true and `1:30` is ninety.

What JSON cannot hold (infinities, numbers of absurd length) stays text.
"""

from __future__ import annotations

import math
import re

from seatrial.model.plan import Scalar

_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Scalar | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
LONGEST_NUMBER = 40


def resolve(text: str) -> Scalar | None:
    """The value of a plain (unquoted) scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > LONGEST_NUMBER:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


def spell(value: Scalar | None) -> str:
    """The value as YAML has it: `true`, not `True`."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
