"""seatrial: puts a Kubernetes batch stack under load and says how it behaves."""

__version__ = "0.1.0"
