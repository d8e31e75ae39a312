"""What tests of the simulator count."""

from __future__ import annotations

from collections import Counter

import pytest

from seatrial.sim.apiserver import ApiClient


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many requests each client sent."""
    found: Counter[str] = Counter()
    slot = ApiClient.slot

    def counted(self: ApiClient, now: int) -> int:
        found[self.name] += 1
        return slot(self, now)

    monkeypatch.setattr(ApiClient, "slot", counted)
    return found
