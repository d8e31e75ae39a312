"""Columns of numbers for the page, small: whole numbers, differences, bytes of a kind together, gzip, base64.

Times of 100,000 pods as JSON would be 5 MB and a second of parsing; so they are a tenth of that, and `assets/base.js` reads them
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

MISSING = -1  # a time that does not exist; all others are 0 or more


def pack(columns: Mapping[str, npt.NDArray[Any]], texts: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """What `unpack` of the page makes columns of again."""
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
    """Of a clock over so long a time: so fine that nothing on a screen would show more, so coarse that the numbers stay small."""
    return 1e-5 if span_s < 20 else 1e-3 if span_s < 1e6 else 1.0


def _shuffled(column: npt.NDArray[Any]) -> bytes:
    """Differences, small ones of either sign as small numbers; all lowest bytes first, the mostly empty highest ones last."""
    values = column.astype(np.int64)
    differences = values - np.concatenate(([0], values[:-1]))
    zigzag = ((differences << 1) ^ (differences >> 63)).astype(np.uint64)
    assert not len(zigzag) or int(zigzag.max()) < 2**32, "times are 31 bits, so differences are 32"
    return np.ascontiguousarray(zigzag.astype("<u4").view(np.uint8).reshape(-1, 4).T).tobytes()
