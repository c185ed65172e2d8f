"""Checks of requests: host (against DNS rebinding), origin, token, size; and errors as answers, without tracebacks."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.console.reachability import ClusterUnreachable, GroupUnknown
from kohort.errors import (
    ApiError,
    ApiTimeout,
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    KohortError,
    MissingExtra,
    UsageError,
)
from kohort.metrics.serving import is_trusted_host
from kohort.results.console import ConsoleFailure
from kohort.verbs.refusals import NothingThere, RefusedByState

MOST_TARGET: Final = 128 << 10
"""Bytes of path and query: the name of a group has up to 32,767, and each is three in an address."""
MOST_BODY: Final = 256 << 10
JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = "application/x-www-form-urlencoded"
TOKEN_HEADER: Final = "x-kohort-token"
POLICY: Final = (
    "default-src 'none'; script-src 'self'{hashes}; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "font-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ALWAYS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


class Rejected(Exception):
    """A request that is not let in: its status, why, and what to do."""

    def __init__(self, status: int, error: str, what_to_do: str) -> None:
        super().__init__(error)
        self.status, self.error, self.what_to_do = status, error, what_to_do


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names by which the console may be called. An address in figures may always: nobody rebinds it."""

    names: frozenset[str] = frozenset({"localhost"})

    def allows(self, header: str | None) -> bool:
        """Tell whether a Host header names this console."""
        return header is not None and is_trusted_host(header, self.names)


def check_host(headers: Mapping[str, str], hosts: Hosts) -> None:
    """Raise Rejected for a name that is not this console's."""
    if not hosts.allows(headers.get("host")):
        raise Rejected(421, "this console is not known by that name", "use its address, or start it with --allow-host")


def check_target(raw_path: bytes, query: bytes) -> None:
    """Raise Rejected for an address that is too long."""
    if len(raw_path) + len(query) > MOST_TARGET:
        raise Rejected(414, f"the address is longer than {MOST_TARGET} bytes", "ask for less")


def check_not_foreign(headers: Mapping[str, str]) -> None:
    """Raise Rejected where a browser says that another site asks."""
    if headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
        raise Rejected(403, "another site asks for this", "open the console itself")


def check_origin(headers: Mapping[str, str], scheme: str) -> None:
    """Raise Rejected for a POST that this console's own page has not sent."""
    check_not_foreign(headers)
    origin = headers.get("origin")
    if origin is None:
        raise Rejected(403, "there is no Origin header", f"send Origin: {scheme}://{headers.get('host', '')}")
    if origin.lower() != f"{scheme}://{headers.get('host', '')}".lower():
        raise Rejected(403, "the Origin is another site", "open the console itself")


def check_type(headers: Mapping[str, str], wanted: str) -> None:
    """Raise Rejected for a body of another kind."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != wanted:
        raise Rejected(415, f"the body is not {wanted}", f"send Content-Type: {wanted}")


def check_token(headers: Mapping[str, str], token: str) -> None:
    """Raise Rejected for a POST without the token that GET /cluster gives."""
    said = headers.get(TOKEN_HEADER, "").encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(said, token.encode()):
        raise Rejected(403, "the token is missing or another", "load the page anew: GET /api/v1/cluster has the token")


def policy(hashes: tuple[str, ...] = ()) -> str:
    """Return the content policy; ``hashes`` are those of inline scripts that may run."""
    return POLICY.format(hashes="".join(f" 'sha256-{one}'" for one in hashes))


logger = logging.getLogger("kohort.console")
UNREACHABLE: Final = (503, "check that the brokers run and that this host reaches them; the console retries by itself")
KINDS: Final[tuple[tuple[type[KohortError], int, str], ...]] = (
    (NothingThere, 404, "look at the list: it may be gone, or be called otherwise"),
    (RefusedByState, 409, "change what stands against it, and make the plan anew"),
    (UsageError, 400, "correct the request"),
    (ConfigError, 400, "correct the request"),
    (ClusterUnreachable, *UNREACHABLE),
    (GroupUnknown, *UNREACHABLE),
    (MissingExtra, 501, "install what is named"),
    (AuthenticationFailed, 502, "the console's own user is not let in by the cluster: look at its options"),
    (ConnectionFailed, *UNREACHABLE),
    (ApiTimeout, *UNREACHABLE),
)


def failure_of(error: Exception) -> tuple[int, ConsoleFailure]:
    """Return the status and the body that tell of an error."""
    if isinstance(error, Rejected):
        members: Sequence[str] = getattr(error, "members", ())
        return error.status, ConsoleFailure(error=error.error, what_to_do=error.what_to_do, members=list(members))
    if isinstance(error, ApiError):
        return _of_broker(error)
    for kind, status, what_to_do in KINDS:
        if isinstance(error, kind):
            return status, ConsoleFailure(error=str(error), what_to_do=what_to_do)
    if isinstance(error, KohortError):
        return 502, ConsoleFailure(error=str(error), what_to_do="see the console's log")
    logger.exception("a request was not answered", exc_info=error)
    return 500, ConsoleFailure(error="the console has a bug", what_to_do="see its log, and report it")


def _of_broker(error: ApiError) -> tuple[int, ConsoleFailure]:
    name = error.code.name
    if "AUTHORIZATION" in name:
        status, what_to_do = 403, "ask for the right to it"
    elif name.startswith("UNKNOWN_TOPIC") or name.endswith("NOT_FOUND"):
        status, what_to_do = 404, "look at the list: it may be gone, or be called otherwise"
    elif error.code.retriable:
        status, what_to_do = 503, "try again"
    else:
        status, what_to_do = 409, f"kohort explain {name} says more"
    return status, ConsoleFailure(error=str(error), what_to_do=what_to_do)
