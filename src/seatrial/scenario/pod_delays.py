"""What groups of fake nodes have in common, however they are written: how long pods take to start, and how many a node takes."""

from __future__ import annotations

from pydantic import Field

from seatrial.model.plan import Span
from seatrial.scenario.field_types import SpanText
from seatrial.scenario.fields import Fields

DEFAULT_PODS = 110  # of a node, as the kubelet has it


class PodDelays(Fields):
    """Delays of the pods of a fake node."""

    create: SpanText = Field(
        Span(), description="From bound to container being created: 1s, or 1s..3s for evenly between."
    )
    start: SpanText = Field(Span(), description="From container being created to running: 10s, or 5s..15s.")
