"""Random streams that depend on the load alone.

A stream derives from (seed, parameters, repeat, name), never from the set-up or the trial's number: every set-up sees the
same load, and running a subset of the trials gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np


def stream_seed(seed: int, params: Mapping[str, Any], repeat: int, name: str) -> int:
    """The seed of one random stream of a trial."""
    text = json.dumps([seed, sorted(params.items()), repeat, name], default=str)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def arrays(seed: int) -> np.random.Generator:
    """A stream for many numbers at a time."""
    return np.random.Generator(np.random.PCG64(seed))


def scalars(seed: int) -> random.Random:
    """A stream for single numbers: faster per number than numpy's."""
    return random.Random(seed)
