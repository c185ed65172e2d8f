"""Requests to the console's API, and the routes that map paths to answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from kohort.console.guard import Rejected
from kohort.console.reachability import ClusterUnreachable
from kohort.errors import UsageError

if TYPE_CHECKING:
    from kohort.watch.opening import WatchClients


MOST_MS: Final = 2**53
MOST_PARAMETERS: Final = 20
NAME: Final = "{}"


@dataclass(frozen=True, slots=True)
class TimeSpan:
    from_ms: int | None = None
    until_ms: int | None = None
    at_ms: int | None = None
    """Past time, in ms, of the requested state; None: now."""

    @property
    def end_ms(self) -> int | None:
        """End of the requested time span in ms: ``until_ms`` or ``at_ms``, whichever is earlier. None: now."""
        return min((ms for ms in (self.until_ms, self.at_ms) if ms is not None), default=None)


@dataclass(frozen=True, slots=True)
class ApiQuery:
    params: Mapping[str, str]
    body: bytes
    clients: WatchClients | None
    """Kafka clients with the rights of the logged-in user; None for a recording."""
    user: str | None
    unreachable: ClusterUnreachable | None = None

    @property
    def span(self) -> TimeSpan:
        return TimeSpan(self.number("from"), self.number("until"), self.number("at"))

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a query parameter that is a whole number of 0 or more. Raises UsageError for other values."""
        text = self.params.get(name)
        if text is None or text == "":
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 17) or int(text) > MOST_MS:
            raise UsageError(f"{name}: expected a whole number of 0 or more, not {text[:40]!r}")
        return int(text)

    @property
    def group(self) -> str | None:
        return self.params.get("group") or None

    def names(self, name: str) -> list[str]:
        return [text for text in self.params.get(name, "").split(",") if text]

    def with_clients(self) -> WatchClients:
        """Return the Kafka clients. Raises Rejected for a recording, ClusterUnreachable during an outage."""
        clients = self.clients_or_none()
        if clients is None:
            raise Rejected(404, "a recording has no cluster", "use kohort console --bootstrap HOST:PORT")
        return clients

    def clients_or_none(self) -> WatchClients | None:
        """Return the Kafka clients; None for a recording. Raises ClusterUnreachable during an outage."""
        if self.unreachable is not None:
            raise self.unreachable
        return self.clients

    def parse_body(self, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode(self.body or b"{}", type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"the body is invalid: {error}") from error


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Route(Generic[S]):
    path: str
    """Path below ``/api/v1/``, with ``{}`` in place of a group or topic name, such as ``groups/{}/fenced``."""
    answer: Callable[[S, ApiQuery, Sequence[str]], Any]
    """Function that computes the answer. Its arguments: handler of the route, query, names in the path."""
    method: Literal["GET", "POST"] = "GET"
    exported: bool = False
    """True if an exported page (one HTML file) contains the answer of this route."""

    def names_in(self, segments: Sequence[str]) -> list[str] | None:
        """Return the group or topic names in a request's path; None if the path does not match this route."""
        pattern = self.path.split("/")
        if len(pattern) != len(segments) or not all(p in (NAME, s) for p, s in zip(pattern, segments, strict=True)):
            return None
        return [segment for part, segment in zip(pattern, segments, strict=True) if part == NAME]


def segments_of(raw_path: bytes) -> list[str]:
    """Split a path at ``/``, then decode each segment: names may contain ``/``.

    Raises UsageError if the path is not UTF-8.
    """
    parts = raw_path.decode("latin-1").strip("/").split("/")
    try:
        return [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError as error:
        raise UsageError("the path of the address is not UTF-8") from error


def params_of(query: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS
        )
    except ValueError as error:
        raise UsageError("the query string is invalid") from error
    return dict(pairs)
