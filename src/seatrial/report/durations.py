"""Durations for people: milliseconds, seconds, and hours from an hour on. Tables for programs stay in seconds."""

from __future__ import annotations

HOUR = 3600.0


def lasting(seconds: float, deviation: float | None = None, decimals: int | None = None) -> str:
    """`26.4 ms`, `12.3 ± 0.4 s`, `12 h 03 m`; with `decimals` of a second, or three digits."""
    size = abs(seconds)
    if size >= HOUR - 0.5:
        beside = "" if deviation is None else f" ± {_hours(deviation) if deviation >= 60 else f'{deviation:.0f} s'}"
        return f"{'-' if seconds < 0 else ''}{_hours(size)}{beside}"
    factor, unit = (1000, "ms") if 0 < size < 0.995 else (1, "s")
    if unit == "ms":
        decimals = 0 if size >= 0.0995 else 1
    elif decimals is None:
        decimals = 0 if size >= 999.5 else 1 if size >= 9.995 else 2
    beside = "" if deviation is None else f" ± {deviation * factor:,.{decimals}f}"
    return f"{seconds * factor:,.{decimals}f}{beside} {unit}"


def clock(seconds: float, decimals: int, deviation: float | None = None, plus_minus: str = "±") -> str:
    """The same for a column in seconds: only hours have a unit."""
    if abs(seconds) >= HOUR - 0.5:
        return lasting(seconds, deviation).replace("±", plus_minus)
    return f"{seconds:,.{decimals}f}{'' if deviation is None else f' {plus_minus} {deviation:,.{decimals}f}'}"


def roughly(seconds: float) -> str:
    """An estimate: `0.4 s`, `40 s`, `12 m`, `2 h 05 m`."""
    if 0.05 <= seconds < 0.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 90 else _hours(seconds)


def _hours(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} m" if minutes >= 60 else f"{minutes} m"
