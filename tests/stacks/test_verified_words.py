"""What `seatrial stacks` says of how a stack was verified."""

from __future__ import annotations

import pytest

from seatrial import stacks


@pytest.mark.parametrize("name", [n for n in stacks.names() if not stacks.model_verified(stacks.find(n))])
def test_a_model_that_does_not_count_as_verified_names_what_was_not_compared(name: str) -> None:
    verified = stacks.find(name).verified
    assert "not compared" in verified or verified.startswith("only by its source"), verified
