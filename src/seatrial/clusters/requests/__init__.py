"""Sends the requests of `create`, `list` and the other request phases to a real API server, and records every attempt."""
