"""The verbs of the API for one identity, and the hook that sees every request.

`send` is the load's way in: a `Request` in, an `Answer` out whatever its code, nothing decoded. The verbs are for
the tens of things a run does by itself: they decode into the shape that is asked for and raise `ApiProblem`, which
has the server's words.
"""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from seatrial.kube import resources
from seatrial.kube.config import Access, Impersonation
from seatrial.kube.errors import ApiProblem, Lost, Unreachable, read_status
from seatrial.kube.resources import MERGE, Request, Resource
from seatrial.kube.retrying import ONCE, Mark, Patience, Persistence
from seatrial.kube.shapes import Meta, Object
from seatrial.kube.transport import Answer, Clock, Pool, clock
from seatrial.model.errors import SetupProblem, UsageProblem

T = TypeVar("T")


class Observe(Protocol):
    """Sees every request as it went over the wire, retries each by itself: what the server's audit log sees.

    `start` is when the request was due and `duration` runs from there, in nanoseconds. `code` is 0 where no answer
    came, and `reason` then says why.
    """

    def __call__(  # keywords would cost more than the record
        self, start: int, duration: int, verb: str, resource: str, identity: str, code: int, reason: str, /
    ) -> None: ...


class Identity(msgspec.Struct, frozen=True):
    """How a phase of a load shows itself to the server: flow schemas tell identities apart."""

    name: str = "seatrial"
    user_agent: str = "seatrial"
    impersonate: Impersonation | None = None  # None: what the kubeconfig says


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int = 0


class Listing(msgspec.Struct, Generic[T]):
    """One page of a list."""

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
    """One API server as one identity. Clients made by `acting_as` share its connections."""

    def __init__(
        self, access: Access, *, connections: int = 8, identity: Identity | None = None, timeout: float = 60.0,
        patience: Patience | None = None, mark: Mark | None = None, observe: Observe | None = None,
        clock: Clock = clock, pool: Pool | None = None,
    ) -> None:  # fmt: skip
        self.access = access
        self.identity = identity or Identity()
        self.timeout = timeout
        self.patience = patience or Patience()
        self.mark = mark
        self.observe = observe
        self.clock = clock
        self.pool = pool or Pool(access, connections, clock)
        self._persistence = Persistence(self._once, mark, clock, self.pool.shaken)
        self._authorization: str | None = None
        self._fields = b""
        self._found: dict[tuple[str, str], Resource] = {}

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.pool.close()

    def acting_as(
        self, identity: Identity, *, observe: Observe | None = None, patience: Patience | None = None
    ) -> Client:
        """The same server over the same connections under another name."""
        return Client(
            self.access, identity=identity, timeout=self.timeout, patience=patience or self.patience, mark=self.mark,
            observe=observe or self.observe, clock=self.clock, pool=self.pool,
        )  # fmt: skip

    # -- what goes over the wire

    async def send(self, request: Request, intended: int = 0, patience: Patience | None = None) -> Answer:
        """Sends until answered, by the rules of `retrying`. Errors come back as answers; no answer at all is raised."""
        return await self._persistence.send(request, intended, patience or self.patience)

    async def fields(self) -> bytes:
        """The header lines common to all requests of this identity, with credentials that are valid now."""
        credentials = self.access.credentials
        if not credentials.fresh():
            await credentials.refresh()
        if credentials.authorization != self._authorization:
            self._authorization = credentials.authorization
            self._fields = _header_lines(self.access, self.identity)
        return self._fields

    def encode(self, request: Request, fields: bytes) -> bytes:
        start = f"{request.method} {self.access.prefix}{request.path} HTTP/1.1\r\n".encode()
        if not request.body:
            return start + fields + b"\r\n"
        length = f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n\r\n".encode()
        return start + fields + length + request.body

    async def _once(self, request: Request, intended: int) -> Answer:
        """One attempt; a 401 is given a second chance where new credentials can be had, since it did nothing."""
        answer = await self._exchange(request, intended)
        if answer.code == 401 and await self.access.credentials.refresh(rejected=True):
            answer = await self._exchange(request, self.clock())
        return answer

    async def _exchange(self, request: Request, intended: int) -> Answer:
        start = intended or self.clock()
        data = self.encode(request, await self.fields())
        try:
            answer = await self.pool.exchange(
                data, keep=request.keep, intended=start, timeout=request.timeout or self.timeout
            )
        except Lost as lost:
            self.saw(start, request.verb, request.resource, 0, lost.why)
            raise Lost(lost.why, str(request)) from None
        except Unreachable as error:
            self.saw(start, request.verb, request.resource, 0, error.message)
            raise
        if self.observe is not None:
            reason = "" if answer.code < 400 else read_status(answer.code, answer.body).reason or answer.reason
            self.observe(
                start, answer.done - start, request.verb, request.resource, self.identity.name, answer.code, reason
            )
        return answer

    def saw(self, start: int, verb: str, resource: str, code: int, reason: str) -> None:
        """Tells the observer of a request that ends now."""
        if self.observe is not None:
            self.observe(start, self.clock() - start, verb, resource, self.identity.name, code, reason)

    # -- verbs

    async def ask(self, request: Request, shape: type[T]) -> T:
        """Sends, raises unless it went well, decodes."""
        answer = await self.send(request)
        if answer.code >= 300:
            raise ApiProblem.of(answer.code, answer.body, str(request))
        decoded: T = _decoder(shape).decode(answer.body or b"{}")
        return decoded

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, shape: type[T], subresource: str = ""
    ) -> T:
        return await self.ask(resources.get(resource, name, namespace, subresource=subresource), shape)

    async def find(self, resource: Resource, name: str, namespace: str = "", *, shape: type[T]) -> T | None:
        """Like `get`, but None where there is no such object."""
        try:
            return await self.get(resource, name, namespace, shape=shape)
        except ApiProblem as problem:
            if problem.code == 404:
                return None
            raise

    async def list(self, resource: Resource, namespace: str = "", *, shape: type[T], **query: object) -> Listing[T]:
        """One page, or everything where no `limit` is given; `resourceVersion="0"` is answered from the cache."""
        request = resources.listing(resource, namespace, **query)
        answer = await self.send(request)
        if answer.code >= 300:
            raise ApiProblem.of(answer.code, answer.body, str(request))
        page: Listing[T] = _decoder(Listing[shape]).decode(answer.body)  # type: ignore[valid-type]
        return page

    async def pages(
        self, resource: Resource, namespace: str = "", *, shape: type[T], limit: int = 500, **query: object
    ) -> AsyncIterator[Listing[T]]:
        """All pages. If the server forgets the place in between, that is an error: a new list is another state."""
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
        return (await self.ask(resources.create(resource, body, name, namespace), Object)).metadata

    async def replace(
        self, resource: Resource, body: object, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Meta:
        request = resources.replace(resource, body, name, namespace, subresource=subresource)
        return (await self.ask(request, Object)).metadata

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
        request = resources.patch(resource, body, name, namespace, how=how, subresource=subresource)
        return (await self.ask(request, Object)).metadata

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, propagation: str = "Background",
        grace: int | None = None, missing_ok: bool = True,
    ) -> None:  # fmt: skip
        request = resources.delete(resource, name, namespace, propagation=propagation, grace=grace)
        answer = await self.send(request)
        if answer.code >= 300 and not (missing_ok and answer.code == 404):
            raise ApiProblem.of(answer.code, answer.body, str(request))

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, propagation: str = "Background", grace: int | None = None,
        **query: object,
    ) -> None:  # fmt: skip
        request = resources.delete_collection(resource, namespace, propagation=propagation, grace=grace, **query)
        await self.ask(request, object)

    # -- the server

    async def probe(self) -> str:
        """The server's version. Fails as a set-up problem where the server, or we, cannot be known."""
        request = Request("get", "version", "GET", "/version", timeout=15.0)
        try:
            answer = await self.send(request, patience=ONCE)
            if answer.code == 403:  # one that has just come back refuses everyone until it knows its roles
                self.pool.trouble()
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
                else "does not tell even its version to the user"
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
        """Where the server keeps a kind of objects."""
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
                f"the server does not know '{api_version}'", "install what brings it (a CRD?), or correct apiVersion"
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


def _header_lines(access: Access, identity: Identity) -> bytes:
    host = f"[{access.host}]" if ":" in access.host else access.host
    pairs = [("Host", f"{host}:{access.port}"), ("User-Agent", identity.user_agent), ("Accept", "application/json")]
    if access.credentials.authorization:
        pairs.append(("Authorization", access.credentials.authorization))
    pairs += (access.impersonate if identity.impersonate is None else identity.impersonate).headers()
    for name, value in pairs:
        if "\r" in value or "\n" in value:
            raise UsageProblem(f"the header {name} would have a line break in it", f"correct {value!r}")
    return "".join(f"{name}: {value}\r\n" for name, value in pairs).encode()
