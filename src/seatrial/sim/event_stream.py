"""The events (kind Event) of a component, sent one after another through its client's token bucket."""

from __future__ import annotations

from seatrial.sim.apiserver import WRITE, ApiClient, ApiServer

QUEUED_AT_MOST = (
    1000  # client-go, tools/record/event.go, maxQueuedEvents: what comes on top is dropped (DropIfChannelFull)
)


class EventStream:
    """Sends what is queued, one request at a time."""

    def __init__(self, api: ApiServer, client: ApiClient) -> None:
        self._api, self._client = api, client
        self._waiting = 0
        self._sending = False

    def add(self, count: int = 1) -> None:
        """Queues events; without a QPS limit they delay nothing and are skipped."""
        if self._client.limited:
            self._waiting = min(self._waiting + count, QUEUED_AT_MOST)
            if not self._sending:
                self._send(None)

    def _send(self, _: object) -> None:
        self._sending = self._waiting > 0
        if self._sending:
            self._waiting -= 1
            self._api.call(self._client, WRITE, self._send)
