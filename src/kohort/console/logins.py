"""Logins of the console: sessions in a cookie, limits on wrong passwords, the login page."""

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
"""Wrong passwords of a network within ``FAILED_S``; the next attempt waits."""
PRESSED: Final = 20 * FAILURES
"""Wrong passwords of all within ``FAILED_S``; from then on each network has one attempt, and none is locked out."""
FAILED_S: Final = 60.0
MOST_ADDRESSES: Final = 1_000
LONGEST: Final = 1_024
"""Of a name or a password."""


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A user, and the clients for the user's requests; None: the console's own."""

    user: str
    clients: WatchClients | None = None


TryLogin = Callable[[str, str], LoggedIn | None]
"""Tries a name and a password, and may ask a cluster; None where they are wrong."""


@dataclass(slots=True)
class ConsoleSession:
    """A login; ``token``: for its POST requests."""

    who: LoggedIn
    since_s: float
    seen_s: float
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    view: ConsoleView | None = None
    """The answers with the rights of the user; None until the first request, and with the console's own rights."""


class Sessions:
    """Sessions by the hash of their cookie; the longest idle one is dropped."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[bytes, ConsoleSession] = OrderedDict()

    def begin(self, who: LoggedIn) -> str:
        """Begin a session, and return its cookie."""
        cookie, now_s = secrets.token_urlsafe(32), self._clock()
        self._known[_hash(cookie)] = ConsoleSession(who, now_s, now_s)
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
    """Wrong passwords by network (an IPv4 address, or 64 bits of IPv6), and the wait before the next attempt."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()
        self._all: deque[float] = deque(maxlen=PRESSED)

    def wait_s(self, address: str) -> float:
        """Return the seconds until the next attempt of an address; 0 is now."""
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
        """Remove a counted attempt that was right."""
        self._failed.pop(network_of(address), None)
        if self._all:
            self._all.pop()


def network_of(address: str) -> str:
    """Return the 64-bit network of an IPv6 address; other addresses stay whole."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address) or found.ipv4_mapped is not None:
        return address
    return str(ipaddress.ip_network((int(found), 64), strict=False))


def by_password(password: str, user: str = "operator") -> TryLogin:
    """Return a login by one password, whatever the name."""
    wanted = hashlib.sha256(password.encode()).digest()

    def tried(name: str, said: str) -> LoggedIn | None:
        is_it = hmac.compare_digest(hashlib.sha256(said.encode("utf-8", "surrogatepass")).digest(), wanted)
        return LoggedIn(name.strip() or user) if is_it else None

    return tried


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()


def login_html(wanted: str, wrong: str) -> str:
    """Return the page; ``wanted``: target after the login, ``wrong``: error of the last attempt."""
    told = f'<p role="alert">{escape(wrong)}</p>' if wrong else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>kohort console: log in</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="stylesheet" href="/static/style.css"></head>'
        f'<body><main class="login"><h1>kohort console</h1>{told}'
        f'<form method="post" action="/login?next={quote(wanted, safe="")}">'
        '<p><label>Name <input name="name" autocomplete="username"></label></p>'
        '<p><label>Password <input name="password" type="password" required'
        ' autocomplete="current-password"></label></p>'
        '<p><button type="submit">Log in</button></p></form></main></body></html>\n'
    )
