"""Stacks on a real control plane, through the command line."""

from tests.runs.conftest import built, own_state, start

__all__ = ["built", "own_state", "start"]
