"""Durations, quantities and rates as people write them, as the integers we count in.

Time is integer nanoseconds everywhere. Amounts are integers in the smallest unit that Kubernetes lets one write: CPU in
millicores, everything else in units (bytes for memory, pieces for GPUs and pods).
"""

from __future__ import annotations

import re
from fractions import Fraction

NANOSECOND = 1
MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

_DURATION_UNITS = {"ns": NANOSECOND, "us": MICROSECOND, "µs": MICROSECOND, "ms": MILLISECOND,
                   "s": SECOND, "m": MINUTE, "h": HOUR, "d": 24 * HOUR}  # fmt: skip
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)", re.ASCII)

_SUFFIXES = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
             "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
             "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
             "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60)}  # fmt: skip
_QUANTITY = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,3}))?([numkMGTPE]|[KMGTPE]i)?", re.ASCII)
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h)", re.ASCII)
_RATE_UNITS = {"s": 1, "m": 60, "h": 3600}


class NotWhole(ValueError):
    """A fraction of a resource that is counted in integers."""

    def __init__(self, text: str | int | float, resource: str) -> None:
        self.what = f"'{text}' is not a whole number of {resource}"
        slices = "; a slice of a GPU is a resource of its own, like nvidia.com/mig-1g.5gb" if "gpu" in resource else ""
        self.remedy = f"write a whole number: Kubernetes refuses fractions of it{slices}"
        super().__init__(f"{self.what}; {self.remedy}")


def parse_duration(text: str) -> int:
    """`1m30s` → nanoseconds. A bare number is refused: its unit is ambiguous."""
    text = text.strip()
    if text == "0":
        return 0
    if not _DURATION.fullmatch(text):
        raise ValueError(f"'{text}' is not a duration; write it like 10s, 1m30s or 250ms")
    return sum(int(Fraction(number) * _DURATION_UNITS[unit]) for number, unit in _DURATION_PART.findall(text))


def parse_quantity(text: str | int | float, resource: str = "") -> int:
    """`5m`, `50M`, `256Gi` → an integer amount of `resource`, rounded up as Kubernetes does where it takes fractions."""
    value = _exact(text)
    if resource and not _has_fractions(resource) and value.denominator != 1:
        raise NotWhole(text, resource)
    value *= 1000 if resource == "cpu" else 1
    return -(-value.numerator // value.denominator)


def _has_fractions(resource: str) -> bool:
    """Those of CPU are counted in millicores, those of a byte are rounded up. All else is counted in pieces, as
    apimachinery's validation has it (`must be an integer`)."""
    return resource in ("cpu", "memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")


def _exact(text: str | int | float) -> Fraction:
    match = _QUANTITY.fullmatch(str(text).strip())
    if not match:
        raise ValueError(f"'{text}' is not a quantity; write it like 500m, 2, 50M or 256Gi")
    number, exponent, suffix = match.groups()
    return Fraction(number) * _SUFFIXES[suffix or ""] * Fraction(10) ** int(exponent or 0)


def format_quantity(amount: int, resource: str) -> str:
    """The quantity as a manifest has it; `parse_quantity` gives the same amount back."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral-storage") and amount:
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            if amount % int(_SUFFIXES[suffix]) == 0:
                return f"{amount // int(_SUFFIXES[suffix])}{suffix}"
    return str(amount)


def parse_rate(text: str) -> float:
    """`10/s`, `30/m` → per second."""
    match = _RATE.fullmatch(text.strip())
    if not match or float(match[1]) <= 0:
        raise ValueError(f"'{text}' is not a rate; write it like 10/s, 0.5/s or 30/m")
    return float(match[1]) / _RATE_UNITS[match[2]]


def format_duration(nanoseconds: int) -> str:
    """Short and exact for what people write, e.g. `1m30s`, `250ms`."""
    if nanoseconds == 0:
        return "0s"
    parts: list[str] = []
    for unit in ("h", "m", "s", "ms", "us", "ns"):
        whole, nanoseconds = divmod(nanoseconds, _DURATION_UNITS[unit])
        if whole:
            parts.append(f"{whole}{unit}")
    return "".join(parts)
