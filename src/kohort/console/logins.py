"""Logins of the console: sessions with cookies, limits on wrong passwords, the login page."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from kohort.console.views import ConsoleView
    from kohort.watch.opening import WatchClients


COOKIE: Final = "kohort_session"
IDLE_S: Final = 12 * 3600.0
LIFE_S: Final = 7 * 24 * 3600.0
MOST_SESSIONS: Final = 1_000
FAILURES: Final = 5
"""Maximum number of wrong passwords from one network in ``FAILED_S`` seconds. Then logins from it must wait."""
PRESSED: Final = 20 * FAILURES
"""Limit of wrong passwords from all networks in ``FAILED_S`` seconds. Above it, each network may send only one."""
FAILED_S: Final = 60.0
MOST_ADDRESSES: Final = 1_000
LONGEST: Final = 1_024


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A logged-in user. ``clients``: Kafka clients for the user's requests; None: the console's own clients."""

    user: str
    clients: WatchClients | None = None


TryLogin = Callable[[str, str], LoggedIn | None]
"""Function that checks user name and password. It returns None if they are wrong, and may block."""


@dataclass(slots=True)
class ConsoleSession:
    """A login session. ``token``: CSRF token that the session's POST requests must contain."""

    login: LoggedIn
    since_s: float
    seen_s: float
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    view: ConsoleView | None = None
    """API answers within the user's rights. None before the first request, or if the user has the console's rights."""


class Sessions:
    """Login sessions, each under the hash of its cookie. Above the limit, the session that is idle longest ends."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[bytes, ConsoleSession] = OrderedDict()

    def begin(self, login: LoggedIn) -> str:
        cookie, now_s = secrets.token_urlsafe(32), self._clock()
        self._known[_hash(cookie)] = ConsoleSession(login, now_s, now_s)
        while len(self._known) > MOST_SESSIONS:
            self._known.popitem(last=False)
        return cookie

    def of(self, cookie: str | None) -> ConsoleSession | None:
        if not cookie:
            return None
        key, now_s = _hash(cookie), self._clock()
        found = self._known.get(key)
        if found is None:
            return None
        if now_s - found.seen_s > IDLE_S or now_s - found.since_s > LIFE_S:
            del self._known[key]
            return None
        found.seen_s = now_s
        self._known.move_to_end(key)
        return found

    def end(self, cookie: str | None) -> None:
        self._known.pop(_hash(cookie or ""), None)


class Attempts:
    """Times of wrong passwords from each network. A network is an IPv4 address, or a /64 of IPv6."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()
        self._all: deque[float] = deque(maxlen=PRESSED)

    def wait_s(self, address: str) -> float:
        """Return the time in seconds until a client address may try to log in again; 0: now."""
        now_s = self._clock()
        is_pressed = len(self._all) == PRESSED and now_s - self._all[0] < FAILED_S
        most = 1 if is_pressed else FAILURES
        times = self._failed.get(network_of(address), ())
        return max(0.0, times[-most] + FAILED_S - now_s) if len(times) >= most else 0.0

    def failed(self, address: str) -> None:
        now_s, network = self._clock(), network_of(address)
        self._failed.setdefault(network, deque(maxlen=FAILURES)).append(now_s)
        self._failed.move_to_end(network)
        self._all.append(now_s)
        while len(self._failed) > MOST_ADDRESSES:
            self._failed.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """Forget the wrong passwords of the client's network after a successful login."""
        self._failed.pop(network_of(address), None)
        if self._all:
            self._all.pop()


def network_of(address: str) -> str:
    """Return the /64 network of an IPv6 address. Return any other address unchanged."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address) or found.ipv4_mapped is not None:
        return address
    return str(ipaddress.ip_network((int(found), 64), strict=False))


def by_password(password: str, user: str = "operator") -> TryLogin:
    """Return a login function that checks the console's password. It accepts any user name."""
    expected = hashlib.sha256(password.encode()).digest()

    def check(name: str, entered: str) -> LoggedIn | None:
        is_right = hmac.compare_digest(hashlib.sha256(entered.encode("utf-8", "surrogatepass")).digest(), expected)
        return LoggedIn(name.strip() or user) if is_right else None

    return check


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()


def login_html(target: str, error: str) -> str:
    """Return the HTML of the login page. ``target``: path to open after login; ``error``: error of the last attempt."""
    alert = f'<p role="alert">{escape(error)}</p>' if error else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>kohort console: log in</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="stylesheet" href="/static/style.css"></head>'
        f'<body><main class="login"><h1>kohort console</h1>{alert}'
        f'<form method="post" action="/login?next={quote(target, safe="")}">'
        '<p><label>Name <input name="name" autocomplete="username"></label></p>'
        '<p><label>Password <input name="password" type="password" required'
        ' autocomplete="current-password"></label></p>'
        '<p><button type="submit">Log in</button></p></form></main></body></html>\n'
    )
