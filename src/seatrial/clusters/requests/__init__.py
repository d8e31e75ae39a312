"""Puts requests on a real API server and records every one: the load of `create`, `list` and the other request phases."""
