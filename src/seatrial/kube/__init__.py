"""The Kubernetes client: for a load that must not be limited by its client, and for watches whose stamps can be
trusted.

The general clients for Python cost more per request than the API server does, and stamp nothing. Read from the
bottom: `config` (where and as whom), `dialling`, `parsing` and `transport` (bytes), `resources` and `retrying`
(requests as data, and when to send them again), `client` (verbs), `streaming` and `watching`. Nothing here knows of
trials, stacks or scenarios.
"""

from seatrial.kube.client import Client, Identity, Listing, Observe
from seatrial.kube.config import Access, Impersonation, access_from
from seatrial.kube.errors import ApiProblem, Lost, Status, Unreachable
from seatrial.kube.resources import Request, Resource
from seatrial.kube.retrying import ONCE, Mark, Patience
from seatrial.kube.transport import Answer, Pool, clock
from seatrial.kube.watching import Gap, Watching, list_once, watch

__all__ = [
    "ONCE",
    "Access",
    "Answer",
    "ApiProblem",
    "Client",
    "Gap",
    "Identity",
    "Impersonation",
    "Listing",
    "Lost",
    "Mark",
    "Observe",
    "Patience",
    "Pool",
    "Request",
    "Resource",
    "Status",
    "Unreachable",
    "Watching",
    "access_from",
    "clock",
    "list_once",
    "watch",
]
