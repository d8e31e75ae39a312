"""The verbs of the API for one identity: the only HTTP client of an API server, and of its components.

`send` takes a `Request` and returns an `Answer` whatever its code, nothing decoded: loads use it. The verbs decode into the
shape that is asked for and raise `ApiProblem` with the server's words. Every attempt of every request passes `_report`:
there it is logged (`seatrial.kube`: failures at INFO, the rest at DEBUG; no headers, no bodies) and shown to the observer.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from seatrial.kube import resources
from seatrial.kube.api_errors import ApiProblem, Lost, Status, Unreachable, read_status
from seatrial.kube.config import Access, Impersonation
from seatrial.kube.dialling import dial
from seatrial.kube.resources import MERGE, Request, Resource
from seatrial.kube.retrying import NO_RETRY, Mark, Retrier, RetryPolicy, Sleep
from seatrial.kube.shapes import Meta, Object
from seatrial.kube.streaming import Stream
from seatrial.kube.transport import Answer, Clock, ConnectionPool, clock
from seatrial.model.errors import SetupProblem, UsageProblem

T = TypeVar("T")
_log = logging.getLogger("seatrial.kube")


class Observe(Protocol):
    """Sees every attempt of every request, as the server's audit log does.

    `start` is when the attempt was due, in nanoseconds. Without an answer, `failure` has the reason alone; on success it
    is None.
    """

    def __call__(  # keywords would cost more than the record
        self, request: Request, number: int, start: int, answer: Answer | None, failure: Status | None, /
    ) -> None: ...


class ClientIdentity(msgspec.Struct, frozen=True):
    """How a client presents itself to the server: flow schemas distinguish clients by it."""

    name: str = "seatrial"
    user_agent: str = "seatrial"
    impersonate: Impersonation | None = None  # None: as the kubeconfig says


class ListMeta(msgspec.Struct, rename="camel"):
    """Metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int = 0


class Listing(msgspec.Struct, Generic[T]):
    """One page of a list, or the whole list."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[T] = msgspec.field(default_factory=list)


class _Served(msgspec.Struct, rename="camel"):
    name: str
    kind: str
    namespaced: bool = True


class _ServedList(msgspec.Struct):
    resources: list[_Served] = []


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return _decoders.get(shape) or _decoders.setdefault(shape, msgspec.json.Decoder(shape))


class Client:
    """One API server as one identity."""

    def __init__(
        self, access: Access, *, connections: int = 8, identity: ClientIdentity | None = None, timeout: float = 60.0,
        retry: RetryPolicy | None = None, mark: Mark | None = None, observe: Observe | None = None,
        clock: Clock = clock, pool: ConnectionPool | None = None,
    ) -> None:  # fmt: skip
        self.access = access
        self.identity = identity or ClientIdentity()
        self.timeout = timeout
        self.retry = retry or RetryPolicy()
        self.mark = mark
        self.observe = observe
        self.clock = clock
        self.pool = pool or ConnectionPool(access, connections, clock)
        self._retrier = Retrier(self._attempt, mark, clock, self.pool.recovering)
        self._authorization: str | None = None
        self._headers = b""  # the lines common to all requests
        self._found: dict[tuple[str, str], Resource] = {}

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections, those of `acting_as` clients too."""
        await self.pool.close()

    def acting_as(
        self, identity: ClientIdentity, *, observe: Observe | None = None, retry: RetryPolicy | None = None
    ) -> Client:
        """A client of another identity that shares our connections."""
        return Client(
            self.access, identity=identity, timeout=self.timeout, retry=retry or self.retry, mark=self.mark,
            observe=observe or self.observe, clock=self.clock, pool=self.pool,
        )  # fmt: skip

    # -- requests

    def send(
        self, request: Request, intended: int = 0, retry: RetryPolicy | None = None, sleep: Sleep = asyncio.sleep
    ) -> Coroutine[Any, Any, Answer]:
        """Retries by the rules of `retrying`. Errors are returned as answers; a request without any answer raises."""
        return self._retrier.send(request, intended, retry or self.retry, sleep)

    async def stream(self, request: Request, handle: Callable[[int, bytes], None]) -> Stream:
        """Sends the request over a connection of its own, whose answer `handle` gets piece by piece (`streaming`)."""
        if not self.access.credentials.fresh():
            await self.access.credentials.refresh()
        data = self._encode(request)
        stream = await dial(self.access, lambda: Stream(self.clock, handle), self.pool.tls())
        stream.begin(data)
        return stream

    def report_stream(self, request: Request, start: int, code: int, reason: str) -> None:
        """Reports a stream that ends now."""
        now = self.clock()
        answer = Answer(code, reason, -1.0, b"", start, start, start, now) if code else None
        self._report(request, 1, start, now, answer, Status(reason=reason) if reason else None)

    def _encode(self, request: Request) -> bytes:
        authorization = self.access.credentials.authorization
        if authorization != self._authorization:
            self._authorization = authorization
            self._headers = _header_lines(self.access, self.identity)
        start = f"{request.method} {self.access.prefix}{request.path} HTTP/1.1\r\n".encode()
        if not request.body:
            return start + self._headers + b"\r\n"
        length = f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n\r\n".encode()
        return start + self._headers + length + request.body

    async def _attempt(self, request: Request, due: int, number: int, renew: bool = True) -> Answer:
        """One attempt. After a 401, which did nothing, one more where new credentials can be had."""
        start, credentials = due or self.clock(), self.access.credentials
        if not credentials.fresh():
            await credentials.refresh()
        try:
            answer = await self.pool.exchange(
                self._encode(request), keep=request.keep, intended=start, timeout=request.timeout or self.timeout
            )
        except Lost as lost:
            self._report(request, number, start, self.clock(), None, Status(reason=lost.why))
            raise Lost(lost.why, str(request)) from None
        except Unreachable as error:
            self._report(request, number, start, self.clock(), None, Status(reason=error.message))
            raise
        failure = None
        if answer.code >= 400:
            failure = read_status(answer.code, answer.body)
            failure = failure if failure.reason else msgspec.structs.replace(failure, reason=answer.reason)
        self._report(request, number, start, answer.done, answer, failure)
        if answer.code == 401 and renew and await credentials.refresh(rejected=True):
            return await self._attempt(request, self.clock(), number, renew=False)
        return answer

    def _report(
        self, request: Request, number: int, start: int, end: int, answer: Answer | None, failure: Status | None
    ) -> None:
        if self.observe is not None:
            self.observe(request, number, start, answer, failure)
        # A server that is coming up fails its readiness probe twenty times a second.
        probe = request.path in ("/readyz", "/healthz", "/livez")
        level = logging.INFO if failure is not None and not probe else logging.DEBUG
        if _log.isEnabledFor(level):
            said = [str(answer.code)] if answer else []
            said += [failure.reason] if failure else []
            _log.log(
                level, "%s %s%s as %s: %s in %.1f ms (attempt %d)", request.method, self.access.server, request.path,
                self.identity.name, " ".join(said), (end - start) / 1e6, number,
            )  # fmt: skip

    # -- verbs

    async def ask(self, request: Request, shape: type[T]) -> T:
        """Decodes the answer into `shape`; raises `ApiProblem` for an error."""
        answer = await self.send(request)
        if answer.code >= 300:
            raise ApiProblem.of(answer.code, answer.body, str(request))
        decoded: T = _decoder(shape).decode(answer.body or b"{}")
        return decoded

    async def get(self, resource: Resource, name: str, namespace: str = "", *, shape: type[T]) -> T:
        """Reads one object."""
        return await self.ask(resources.get(resource, name, namespace), shape)

    async def find(self, resource: Resource, name: str, namespace: str = "", *, shape: type[T]) -> T | None:
        """Reads one object; None if it does not exist."""
        try:
            return await self.get(resource, name, namespace, shape=shape)
        except ApiProblem as problem:
            if problem.code == 404:
                return None
            raise

    async def list(self, resource: Resource, namespace: str = "", *, shape: type[T], **query: object) -> Listing[T]:
        """One page, or everything without `limit`; `resourceVersion="0"` is answered from the server's cache."""
        return await self.ask(resources.listing(resource, namespace, **query), Listing[shape])  # type: ignore[valid-type]

    async def pages(
        self, resource: Resource, namespace: str = "", *, shape: type[T], limit: int = 500, **query: object
    ) -> AsyncIterator[Listing[T]]:
        """All pages of one list. Raises if the continue token expires: a new list would be of another state."""
        page = await self.list(resource, namespace, shape=shape, limit=limit, **query)
        yield page
        query.pop("resourceVersion", None)
        query.pop("resourceVersionMatch", None)
        while page.metadata.continue_:
            page = await self.list(
                resource, namespace, shape=shape, limit=limit, continue_=page.metadata.continue_, **query
            )
            yield page

    async def create(self, resource: Resource, body: object, name: str, namespace: str = "") -> Meta:
        """Creates an object; returns its metadata."""
        return (await self.ask(resources.create(resource, body, name, namespace), Object)).metadata

    async def replace(self, resource: Resource, body: object, name: str, namespace: str = "") -> Meta:
        """Replaces an object; returns its metadata."""
        return (await self.ask(resources.replace(resource, body, name, namespace), Object)).metadata

    async def patch(
        self,
        resource: Resource,
        body: object,
        name: str,
        namespace: str = "",
        *,
        how: str = MERGE,
        subresource: str = "",
    ) -> Meta:
        """Patches an object (`how`: see `resources`); returns its metadata."""
        request = resources.patch(resource, body, name, namespace, how=how, subresource=subresource)
        return (await self.ask(request, Object)).metadata

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
    ) -> None:
        """Deletes an object, if it exists."""
        try:
            await self.ask(resources.delete(resource, name, namespace, propagation=propagation), object)
        except ApiProblem as problem:
            if problem.code != 404:
                raise

    async def delete_collection(self, resource: Resource, namespace: str = "", **query: object) -> None:
        """Deletes all objects that the query selects."""
        await self.ask(resources.delete_collection(resource, namespace, **query), object)

    # -- the server

    async def probe(self) -> str:
        """The server's version. Raises `SetupProblem` if the server does not answer like an API server or rejects us."""
        request = Request("get", "version", "GET", "/version", timeout=15.0)
        try:
            answer = await self.send(request, retry=NO_RETRY)
            if answer.code == 403:  # a server that was just restarted refuses everyone until its roles are loaded
                self.pool.note_loss()
                answer = await self.send(request)
        except Lost as lost:
            raise SetupProblem(
                f"{self.access.place}: {self.access.server} does not answer: {lost.why}",
                "check that this is the address of an API server, and that it is healthy",
            ) from None
        if answer.code in (401, 403):
            refused = (
                "does not accept the credentials"
                if answer.code == 401
                else "does not even show its version to the user"
            )
            raise SetupProblem(
                f"{self.access.place}: {self.access.server} {refused} of context "
                f"'{self.access.context}': {read_status(answer.code, answer.body).message or answer.reason}",
                "log in to the cluster again; `kubectl auth whoami` shows who the server thinks you are",
            )
        try:
            return str(_decoder(dict[str, Any]).decode(answer.body)["gitVersion"])
        except (KeyError, msgspec.MsgspecError):
            raise SetupProblem(
                f"{self.access.place}: {self.access.server} answered {answer.code} {answer.reason}: no API server",
                "correct the address in the kubeconfig; a log-in page of a proxy answers like this too",
            ) from None

    async def resource_of(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind, from the server's discovery."""
        known = self._found.get((api_version, kind))
        if known is not None:
            return known
        group, _, version = api_version.rpartition("/")
        request = Request("get", "", "GET", f"/apis/{api_version}" if group else f"/api/{api_version}")
        try:
            served = (await self.ask(request, _ServedList)).resources
        except ApiProblem as problem:
            if problem.code != 404:
                raise
            raise UsageProblem(
                f"the server does not know '{api_version}'", "install it (a CRD?), or correct apiVersion"
            ) from None
        for one in served:
            if "/" not in one.name:
                self._found[api_version, one.kind] = Resource(group, version, one.name, one.kind, one.namespaced)
        if (api_version, kind) not in self._found:
            kinds = sorted({one.kind for one in served if "/" not in one.name})
            near = difflib.get_close_matches(kind, kinds, 1)
            raise UsageProblem(
                f"'{api_version}' has no kind '{kind}'" + (f"; did you mean '{near[0]}'?" if near else ""),
                f"it has: {', '.join(kinds)}",
            )
        return self._found[api_version, kind]


def _header_lines(access: Access, identity: ClientIdentity) -> bytes:
    host = f"[{access.host}]" if ":" in access.host else access.host
    pairs = [
        ("Host", f"{host}:{access.port}"),
        ("User-Agent", identity.user_agent),
        ("Accept", "application/json, */*"),
    ]
    if access.credentials.authorization:
        pairs.append(("Authorization", access.credentials.authorization))
    pairs += (access.impersonate if identity.impersonate is None else identity.impersonate).headers()
    for name, value in pairs:
        if "\r" in value or "\n" in value:
            raise UsageProblem(f"the header {name} would have a line break in it", f"correct {value!r}")
    return "".join(f"{name}: {value}\r\n" for name, value in pairs).encode()
