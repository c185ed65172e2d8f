"""The console as an ASGI application. It checks each request, then serves the page or an API answer.

Blocking work runs on threads.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs, quote

from kohort.console import guard
from kohort.console.changes import Changes
from kohort.console.connections import LONGEST_NAME, AnswerBudget, ConsoleLog, in_pieces
from kohort.console.encoding import ENCODED, VARIES, gzipped, json_of, takes_gzip
from kohort.console.guard import Rejected, failure_of
from kohort.console.logins import COOKIE, LONGEST, Attempts, ConsoleSession, LoggedIn, Sessions, TryLogin, login_html
from kohort.console.page import ConsolePage
from kohort.console.reachability import ClusterUnreachable
from kohort.console.routes import ApiQuery, TimeSpan, params_of, segments_of
from kohort.console.sources import ConsoleSource, SourceNews
from kohort.console.stream import Hub
from kohort.console.user_source import UserSource
from kohort.console.views import ConsoleView
from kohort.extras import needs
from kohort.insight.findings.events import find_events
from kohort.notes import info, warning
from kohort.results.console import ConsoleCluster
from kohort.results.groups import GroupEvents, GroupStatus
from kohort.verbs.describing import row_of, unknown_row
from kohort.version import VERSION

with needs("console", "the console"):
    import anyio
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import RedirectResponse, Response, StreamingResponse

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

R = TypeVar("R")
API: Final = "/api/v1"
THREADS: Final = 8
BODY_S: Final = 10.0
ROWS_AT_ONCE: Final = 200
"""Maximum number of changed groups in one event. If more groups changed, the page requests all groups again."""
NO_STORE: Final = {"cache-control": "no-store"}


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    allow_changes: bool = False
    hosts: frozenset[str] = frozenset({"localhost"})
    """Host names that are accepted in the Host header of requests. IP addresses are always accepted."""
    login: TryLogin | None = None
    """Function that checks user name and password; None if the console needs no login."""
    secure: bool = False
    """True if the console is served over TLS: cookies then have the attribute ``Secure``."""
    pipelines: Sequence[Path] = ()


class ConsoleApp:
    """The console as an ASGI application. Call ``begin`` and ``end`` on its event loop."""

    def __init__(
        self,
        source: ConsoleSource,
        options: ConsoleOptions | None = None,
        page: ConsolePage | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._options = source, options or ConsoleOptions()
        self._page = page or ConsolePage()
        self._clock = clock
        self._changes = Changes(clock, source.now_ms) if self._options.allow_changes else None
        self._view = ConsoleView(source, self._options.pipelines, self._changes)
        self._sessions, self._attempts = Sessions(clock), Attempts(clock)
        self._token = secrets.token_urlsafe(32)
        self._groups_answer: tuple[int, bytes] = (-1, b"")
        self.hub = Hub()
        self.log = ConsoleLog()
        self._budget = AnswerBudget()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: anyio.CapacityLimiter | None = None
        self._login_threads: anyio.CapacityLimiter | None = None
        self._cluster_threads: anyio.CapacityLimiter | None = None
        """Separate threads for ``GET /cluster``: it reports outages, so it must not wait for other requests."""

    def begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads, self._login_threads = anyio.CapacityLimiter(THREADS), anyio.CapacityLimiter(2)
        self._cluster_threads = anyio.CapacityLimiter(THREADS)
        self._source.listen(self._publish_changes)

    def end(self) -> None:
        self._source.listen(lambda _: None)
        self.hub.end()
        self.log.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - every error becomes an answer
            status, failure = failure_of(error)
            response = _json(json_of(failure), status)
        for name, value in guard.ALWAYS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("content-security-policy", guard.policy())
        async with self._budget.sending(len(getattr(response, "body", b""))):
            await response(scope, receive, in_pieces(send))

    async def _answer(self, request: Request) -> Response:
        raw_path: bytes = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
        guard.check_target(raw_path, request.scope["query_string"])
        guard.check_host(request.headers, self._options.hosts)
        if request.method not in ("GET", "HEAD", "POST"):
            raise Rejected(405, f"the console does not allow {request.method}", "send GET instead")
        path = raw_path.decode("latin-1")
        session = self._sessions.of(request.cookies.get(COOKIE)) if self._options.login else None
        if path == "/login":
            return await self._login(request)
        if path.startswith("/static/"):
            return self._static(request, "/".join(segments_of(raw_path)[1:]))
        if path == API or path.startswith(f"{API}/"):
            if self._options.login is not None and session is None:
                raise Rejected(401, "a login is required", "log in at /login")
            return await self._api(request, segments_of(raw_path)[2:], session)
        if request.method == "POST":
            raise Rejected(405, "this address does not allow POST", "send GET instead")
        if self._options.login is not None and session is None:
            return RedirectResponse(f"/login?next={quote(path, safe='/%')}", 303)
        headers = {"content-security-policy": guard.policy(self._page.hashes), "cache-control": "no-cache", **VARIES}
        if _takes_gzip(request):
            return Response(self._page.index_gzipped, media_type="text/html", headers={**headers, **ENCODED})
        return Response(self._page.index, media_type="text/html", headers=headers)

    def _static(self, request: Request, name: str) -> Response:
        found = self._page.file(name)
        if found is None:
            raise Rejected(404, "the file does not exist", "reload the page of the console")
        smaller = self._page.gzipped(found.content) if _takes_gzip(request) else None
        tag = found.tag if smaller is None else f'{found.tag[:-1]}-gzip"'
        headers = {"etag": tag, "cache-control": "no-cache", **VARIES}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        headers["content-type"] = found.kind
        return Response(found.content, headers=headers) if smaller is None else _gzip(smaller, headers)

    async def _api(self, request: Request, segments: list[str], session: ConsoleSession | None) -> Response:
        guard.check_same_site(request.headers)
        token = self._token if session is None else session.token
        body = b""
        if request.method == "POST":
            guard.check_origin(request.headers, request.scope["scheme"])
            guard.check_type(request.headers, guard.JSON_TYPE)
            guard.check_token(request.headers, token)
            body = await _body(request)
        params = params_of(request.scope["query_string"])
        method = "GET" if request.method == "HEAD" else request.method
        view = self._view_of(session)
        if segments == ["stream"] and method == "GET":
            return await self._stream(request, view, params.get("group") or None)
        if segments == ["logout"] and method == "POST":
            self._sessions.end(request.cookies.get(COOKIE))
            return _json(b"{}")
        login = None if session is None else session.login
        if segments == ["cluster"] and method == "GET":
            about = lambda: json_of(self._cluster(view.source, login, token, params))  # noqa: E731 - runs on a thread
            return _json(await anyio.to_thread.run_sync(about, limiter=self._cluster_threads))
        clients = login.clients if login is not None and login.clients is not None else self._source.clients()
        user = None if login is None else login.user
        query = ApiQuery(params, body, clients, user, self._source.unreachable())
        if segments == ["groups"] and query.span.at_ms is None and view.full_rights:
            return await self._encoded(request, self._groups_now)
        return await self._encoded(request, lambda: json_of(view.answer(method, segments, query)))

    def _view_of(self, session: ConsoleSession | None) -> ConsoleView:
        clients = None if session is None else session.login.clients
        if session is None or clients is None:
            return self._view
        if session.view is None:
            narrowed = UserSource(self._source, clients, self._clock)
            session.view = ConsoleView(narrowed, self._options.pipelines, self._changes, full_rights=False)
        return session.view

    async def _encoded(self, request: Request, work: Callable[[], bytes]) -> Response:
        """Encode and gzip an API answer on a worker thread.

        Do not use this for the answer that contains the CSRF token: gzip would help to guess the token (BREACH).
        """
        takes = _takes_gzip(request)
        headers = {**NO_STORE, **VARIES, "content-type": "application/json"}

        def made() -> Response:
            content = work()
            smaller = gzipped(content) if takes else None
            return Response(content, headers=headers) if smaller is None else _gzip(smaller, headers)

        return await self._blocking(made)

    def _groups_now(self) -> bytes:
        """Return the groups of the last sample as JSON. Each sample is encoded only once."""
        try:
            at_ms = self._source.groups(None).at_ms
        except ClusterUnreachable:
            return json_of(self._view.answers.groups(TimeSpan()))
        if self._groups_answer[0] != at_ms:
            self._groups_answer = at_ms, json_of(self._view.answers.groups(TimeSpan()))
        return self._groups_answer[1]

    def _cluster(
        self, source: ConsoleSource, login: LoggedIn | None, token: str, params: dict[str, str]
    ) -> ConsoleCluster:
        about = source.about()
        at_ms = ApiQuery(params, b"", None, None).span.at_ms
        unseen: list[str] = []
        unreachable = None
        try:
            known = source.groups(None)
            unseen = [*known.unseen, *known.unseen_groups.values()]
        except ClusterUnreachable as lost:
            unreachable = lost.outage
        except Exception as error:  # noqa: BLE001 - the answer contains every error
            unseen = [failure_of(error)[1].error]
        return ConsoleCluster(
            cluster_id=about.cluster_id,
            address=about.address,
            version=VERSION,
            now_ms=source.now_ms() if at_ms is None else at_ms,
            kind=about.kind,
            title=about.title,
            allow_changes=self._options.allow_changes and about.kind == "live",
            journal=about.journal,
            unseen=unseen,
            unreachable=unreachable,
            user=None if login is None else login.user,
            token=token,
        )

    async def _blocking(self, work: Callable[[], R]) -> R:
        return await anyio.to_thread.run_sync(work, limiter=self._threads)

    async def _stream(self, request: Request, view: ConsoleView, group: str | None) -> Response:
        source = view.source
        if not view.full_rights and not await self._blocking(lambda: source.sees(group or "")):
            group = None  # no events of a group that the user may not DESCRIBE: their times would reveal the group
        queue = self.hub.open(group, is_narrowed=not view.full_rights)
        if queue is None:
            raise Rejected(503, "too many browser tabs are open", "close some tabs of the console")
        headers = {**NO_STORE, "x-accel-buffering": "no"}
        last_id = request.headers.get("last-event-id")
        content = self.hub.stream(queue, last_id, lambda: self._blocking(lambda: self._first_events(source, group)))
        return _Events(content, lambda: self.hub.close(queue), headers)

    def _first_events(self, source: ConsoleSource, group: str | None) -> bytes:
        """Return the initial events of a browser's stream: cluster reachability, time of the last sample, group state.

        They replace older values that the page may have loaded before it opened the stream.
        """
        try:
            known = source.groups(None)
        except ClusterUnreachable as lost:
            return b"event: reach\ndata: %s\n\n" % json_of({"unreachable": lost.outage})
        except Exception:  # noqa: BLE001 - the request for groups reports the error
            return b""
        events = b'event: reach\ndata: {"unreachable":null}\n\nevent: looked\ndata: {"at_ms":%d}\n\n' % known.at_ms
        found = None if group is None else known.groups.get(group)
        if found is None:
            return events
        return b"%sevent: group\ndata: %s\n\n" % (events, json_of(GroupStatus(status=found)))

    def _publish_changes(self, news: SourceNews) -> None:
        """Publish changes of groups to the browsers.

        The calling thread encodes the events, and the event loop sends them.
        """
        events: list[tuple[str, bytes, str | None]] = []
        if news.reach is not None:
            events.append(("reach", json_of({"unreachable": news.reach.unreachable}), None))
        if len(news.changed) + len(news.unknown) > ROWS_AT_ONCE or (news.reach and news.reach.unreachable is None):
            events.append(("resync", b"{}", None))
        elif news.changed or news.deleted or news.unknown:
            rows = [row_of(found) for found in news.changed]
            rows += [unknown_row(group, why) for group, why in news.unknown.items()]
            trends = self._view.answers.trends([row.group for row in rows], self._source.now_ms())
            events.append(("groups", json_of({"groups": rows, "trends": trends, "deleted": list(news.deleted)}), None))
        shown = [found for found in news.changed if self.hub.has_stream_of(found.group)]
        events += [("group", json_of(GroupStatus(status=found)), found.group) for found in shown]
        by_group: dict[str, list[Any]] = {}
        for entry in news.entries:
            by_group.setdefault(entry.group, []).append(entry)
        for group, entries in by_group.items():
            events.append(("entries", json_of(GroupEvents(group=group, events=find_events(entries))), group))
        loop = self._loop
        if loop is not None and not loop.is_closed():
            for event in events:
                loop.call_soon_threadsafe(self.hub.publish, *event)

    async def _login(self, request: Request) -> Response:
        target = _target_after_login(params_of(request.scope["query_string"]).get("next", "/"))
        if self._options.login is None:
            return RedirectResponse("/", 303)
        if request.method != "POST":
            return _html(login_html(target, ""))
        guard.check_origin(request.headers, request.scope["scheme"])
        guard.check_type(request.headers, guard.FORM_TYPE)
        fields = parse_qs((await _body(request)).decode("utf-8", "replace"), max_num_fields=10)
        name, password = (fields.get(field, [""])[0] for field in ("name", "password"))
        address = request.client.host if request.client else ""
        user = f"{name[:LONGEST_NAME]!r} from {address}"
        wait_s = self._attempts.wait_s(address)
        if wait_s > 0:
            self.log.write(warning(f"login of {user} refused after wrong passwords", ("held up", address)))
            response = _html(login_html(target, f"Too many attempts: wait {wait_s:.0f} seconds."), 429)
            response.headers["retry-after"] = f"{wait_s:.0f}"
            return response
        check, login = self._options.login, None
        if max(len(name), len(password)) <= LONGEST:
            # count the attempt as failed before the password check: this limits parallel attempts, too
            self._attempts.failed(address)
            login = await anyio.to_thread.run_sync(lambda: check(name, password), limiter=self._login_threads)
        if login is None:
            self.log.write(warning(f"login of {user} refused: wrong name or password", ("wrong", user)))
            return _html(login_html(target, "The name or the password is wrong."), 403)
        self._attempts.succeeded(address)
        self.log.write(info(f"login of {user}", ("right", user)))
        answer = RedirectResponse(target, 303)
        cookie = self._sessions.begin(login)
        answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=self._options.secure, path="/")
        return answer


class _Events(StreamingResponse):
    """A response with server-sent events. It calls ``close`` when it ends, also after an error."""

    def __init__(self, content: AsyncIterator[bytes], close: Callable[[], object], headers: dict[str, str]) -> None:
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


def _target_after_login(text: str) -> str:
    """Return the path to open after a login: ``text``, or "/" if ``text`` is not a path of the console."""
    good = text.startswith("/") and not text.startswith(("//", "/\\", "/login")) and text.isprintable()
    return text if good and len(text) <= guard.MOST_TARGET else "/"


async def _body(request: Request) -> bytes:
    """Return the body of a request. Raises Rejected if the body is too long or does not arrive in time."""
    length = request.headers.get("content-length", "0")
    parts, size = [], 0
    too_long = Rejected(413, f"the body is longer than {guard.MOST_BODY} bytes", "send a shorter body")
    if not (length.isdecimal() and len(length) < 12 and int(length) <= guard.MOST_BODY):
        raise too_long
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                size += len(part)
                if size > guard.MOST_BODY:
                    raise too_long
                parts.append(part)
    except TimeoutError:
        raise Rejected(
            408, f"the body did not arrive within {BODY_S:g} s", "send the body together with the request head"
        ) from None
    return b"".join(parts)


def _takes_gzip(request: Request) -> bool:
    return takes_gzip(request.headers.get("accept-encoding", ""))


def _gzip(content: bytes, headers: dict[str, str]) -> Response:
    return Response(content, headers={**headers, **ENCODED})


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json", headers=NO_STORE)


def _html(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="text/html", headers=NO_STORE)
