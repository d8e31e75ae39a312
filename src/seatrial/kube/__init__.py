"""The Kubernetes client: fast enough not to limit a load, with watches whose timestamps can be trusted.

The general clients for Python cost more CPU per request than the API server does, and take no timestamps. From the
bottom up: `config` (server and credentials), `dialling`, `parsing` and `transport` (bytes), `resources` and `retrying`
(requests as data, and their retries), `client` (verbs), `streaming` and `watching`. This package does not know of
trials, stacks or scenarios.
"""

from seatrial.kube.api_errors import ApiProblem, Lost, Status, Unreachable
from seatrial.kube.client import Client, ClientIdentity, Listing, Observe
from seatrial.kube.config import Access, Impersonation, access_from
from seatrial.kube.resources import Request, Resource
from seatrial.kube.retrying import NO_RETRY, Mark, RetryPolicy
from seatrial.kube.transport import Answer, ConnectionPool, clock
from seatrial.kube.watching import Gap, WatchState, list_once, watch

__all__ = [
    "NO_RETRY",
    "Access",
    "Answer",
    "ApiProblem",
    "Client",
    "ClientIdentity",
    "ConnectionPool",
    "Gap",
    "Impersonation",
    "Listing",
    "Lost",
    "Mark",
    "Observe",
    "Request",
    "Resource",
    "RetryPolicy",
    "Status",
    "Unreachable",
    "WatchState",
    "access_from",
    "clock",
    "list_once",
    "watch",
]
