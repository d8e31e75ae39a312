"""Compact columns of integers for the page: differences, bytes of equal significance together, gzip, base64.

Times of 100,000 pods as JSON would be 5 MB and a second of parsing; packed they are a tenth of that. `assets/base.js` reads them
into typed arrays.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MISSING = -1  # no time; all times are 0 or more


def pack(columns: Mapping[str, npt.NDArray[Any]], texts: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """Packs columns for `unpack` of the page."""
    words = json.dumps(dict(texts or {}), separators=(",", ":")).encode()
    parts = [words, *(_shuffled(column) for column in columns.values())]
    return {
        "texts": len(words),
        "columns": [[name, len(column)] for name, column in columns.items()],
        "gz": base64.b64encode(gzip.compress(b"".join(parts), 6, mtime=0)).decode(),
    }


def ticks(values: npt.NDArray[Any], unit: float) -> npt.NDArray[np.int32]:
    """Seconds (NaN: none) as whole numbers of a unit."""
    known = np.nan_to_num(np.round(np.asarray(values, dtype=np.float64) / unit), nan=MISSING)
    return np.clip(known, MISSING, 2**31 - 1).astype(np.int32)


def unit_for(span_s: float) -> float:
    """The time unit for a span: as fine as a screen shows, and coarse enough for small numbers."""
    return 1e-5 if span_s < 20 else 1e-3 if span_s < 1e6 else 1.0


def _shuffled(column: npt.NDArray[Any]) -> bytes:
    """Zigzag-encoded differences, bytes of equal significance together."""
    values = column.astype(np.int64)
    differences = values - np.concatenate(([0], values[:-1]))
    zigzag = ((differences << 1) ^ (differences >> 63)).astype(np.uint64)
    assert not len(zigzag) or int(zigzag.max()) < 2**32, "times are 31 bits, so differences are 32"
    return np.ascontiguousarray(zigzag.astype("<u4").view(np.uint8).reshape(-1, 4).T).tobytes()
