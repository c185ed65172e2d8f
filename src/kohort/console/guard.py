"""Checks of requests (host, origin, token, size), and the answers to requests that fail."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping, Sequence
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
"""Maximum total length of path and query in bytes.

The longest group name has 32,767 bytes, and three times as many when it is percent-encoded.
"""
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
    "referrer-policy": "same-origin",  # with no-referrer, browsers send the login form with "Origin: null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


class Rejected(Exception):
    """The console rejects a request with an HTTP status. ``members``: group members that prevent a change."""

    def __init__(self, status: int, error: str, advice: str, members: Sequence[str] = ()) -> None:
        super().__init__(error)
        self.status = status
        self.failure = ConsoleFailure(error=error, advice=advice, members=list(members))


def check_host(headers: Mapping[str, str], names: frozenset[str]) -> None:
    """Raise Rejected unless the Host header is one of ``names`` or an IP address. This prevents DNS rebinding."""
    if not is_trusted_host(headers.get("host", ""), names):
        advice = "open the printed address, or start kohort console with --allow-host"
        raise Rejected(421, "the Host header is not a host name of this console", advice)


def check_target(raw_path: bytes, query: bytes) -> None:
    if len(raw_path) + len(query) > MOST_TARGET:
        raise Rejected(414, f"the address is longer than {MOST_TARGET} bytes", "shorten path and query of the address")


def check_same_site(headers: Mapping[str, str]) -> None:
    """Raise Rejected if the browser reports that another site sent the request."""
    if headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
        raise Rejected(403, "the request comes from another site", "open the address of the console directly")


def check_origin(headers: Mapping[str, str], scheme: str) -> None:
    """Raise Rejected for a POST request that was not sent by the console's own page."""
    check_same_site(headers)
    origin = headers.get("origin")
    if origin is None:
        raise Rejected(403, "the Origin header is missing", f"send Origin: {scheme}://{headers.get('host', '')}")
    if origin.lower() != f"{scheme}://{headers.get('host', '')}".lower():
        raise Rejected(403, "the Origin header names another site", "open the address of the console directly")


def check_type(headers: Mapping[str, str], expected: str) -> None:
    if headers.get("content-type", "").partition(";")[0].strip().lower() != expected:
        raise Rejected(415, f"the type of the body is not {expected}", f"send Content-Type: {expected}")


def check_token(headers: Mapping[str, str], token: str) -> None:
    """Raise Rejected for a POST request without the CSRF token that ``GET /cluster`` returns."""
    sent = headers.get(TOKEN_HEADER, "").encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(sent, token.encode()):
        raise Rejected(403, "the CSRF token is missing or wrong", "reload the page: GET /api/v1/cluster has the token")


def policy(hashes: tuple[str, ...] = ()) -> str:
    """Return the value of the Content-Security-Policy header. ``hashes``: hashes of the inline scripts to allow."""
    return POLICY.format(hashes="".join(f" 'sha256-{one}'" for one in hashes))


logger = logging.getLogger("kohort.console")
UNREACHABLE: Final = (503, "check that the brokers run and that this host reaches them; the console retries by itself")
NOT_FOUND: Final = "check the name in the list: it may be deleted, or spelled differently"
KINDS: Final[tuple[tuple[type[KohortError], int, str], ...]] = (
    (NothingThere, 404, NOT_FOUND),
    (RefusedByState, 409, "resolve the conflict, and create a new plan"),
    (UsageError, 400, "correct the request"),
    (ConfigError, 400, "correct the request"),
    (ClusterUnreachable, *UNREACHABLE),
    (GroupUnknown, *UNREACHABLE),
    (MissingExtra, 501, "install the missing package"),
    (AuthenticationFailed, 502, "the cluster rejects the login of the console: check the options of the console"),
    (ConnectionFailed, *UNREACHABLE),
    (ApiTimeout, *UNREACHABLE),
)


def failure_of(error: Exception) -> tuple[int, ConsoleFailure]:
    if isinstance(error, Rejected):
        return error.status, error.failure
    if isinstance(error, ApiError):
        return _of_broker(error)
    for kind, status, advice in KINDS:
        if isinstance(error, kind):
            return status, ConsoleFailure(error=str(error), advice=advice)
    if isinstance(error, KohortError):
        return 502, ConsoleFailure(error=str(error), advice="check the log of the console")
    logger.exception("a request failed", exc_info=error)
    return 500, ConsoleFailure(error="the console has a bug", advice="report it, with the log of the console")


def _of_broker(error: ApiError) -> tuple[int, ConsoleFailure]:
    name = error.code.name
    if "AUTHORIZATION" in name:
        status, advice = 403, "request an ACL for your user"
    elif name.startswith("UNKNOWN_TOPIC") or name.endswith("NOT_FOUND"):
        status, advice = 404, NOT_FOUND
    elif error.code.retriable:
        status, advice = 503, "try again"
    else:
        status, advice = 409, f"kohort explain {name} explains the error"
    return status, ConsoleFailure(error=str(error), advice=advice)
