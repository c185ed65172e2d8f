"""Declaration of a Kafka API: its handler, its authorization guard, and the cost limits of a request.

Each module of ``broker/apis`` ends with a ``BrokerApi`` for each request type; ``dispatch`` collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from kohort.broker.authorization import Guard
from kohort.broker.request import Handler, Request
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode
from kohort.steps import Pace, Steps
from kohort.wire.schema import Message

TOO_LARGE: Final = ErrorCode.POLICY_VIOLATION
"""Error code of response entries that do not fit into the size limit of the response."""
NAME_US: Final = 0.8
FREED_EARLY: Final = 5_000
"""Number of partitions above which Fetch and Produce free their requests before they answer, to save memory."""

ExtraUnits = Callable[[BrokerState, tuple[Any, ...]], int]
"""``extra_units(state, chain)``: additional work units of request entry ``chain[-1]``, nested in ``chain[:-1]``."""
Refuse = Callable[[Request, str], Message]
"""``refuse(request, message)``: build a response in which each entry has the error ``TOO_LARGE``."""


class AnswerBound(Enum):
    """Size limit of an API's responses."""

    FIXED = "a few kilobytes"
    REQUEST = "one short entry per entry of the request"
    STATE = "one entry per object of the broker"
    UNREAD = "half of queued.max.request.bytes; further entries have the error POLICY_VIOLATION"
    FETCH = "fetch.max.bytes, with one piece in memory"
    PAGE = "max.request.partition.size.limit; a cursor continues the list"


class NameKind(Enum):
    """Kind of object that a name in a request refers to. The work may grow with the object's partitions or members."""

    TOPIC = "topic"
    TOPIC_ID = "topic id"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    RESOURCE = "resource with options"
    PATTERN = "regular expression"
    ASSIGNMENT = "assignment of a classic member"
    SUBSCRIPTION = "subscription of a classic member"
    USER = "user"


PARTITIONS: Final = ("topics", "partitions")


@dataclass(frozen=True, slots=True)
class Parts:
    """Division of a large request into smaller requests (parts), along its nested arrays.

    ``max_units``: maximum work units of a part, which take about 5 ms. An array entry is one unit, plus its
    ``extra_units``.
    """

    request_path: tuple[str, ...]
    response_path: tuple[str, ...]
    max_units: int
    extra_units: ExtraUnits | None = None
    writes: bool = False
    """True if the API writes records. Its response may wait for a log flush, and is an error if the flush fails."""
    refuse: Refuse | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Limits of the work and of the response size of an API's requests.

    ``parts`` divide large requests; ``one_step`` explains why every request is short. Without both, the handler is a
    generator that yields while it serves a large request.
    """

    answer: AnswerBound
    once: tuple[str, Callable[[Any], Hashable | None]] | None = None
    """Outermost array of the request, and a function that returns an entry's key. Of entries with equal keys, only the
    first is served; entries with key None are all served.
    """
    parts: Parts | None = None
    older_parts: tuple[int, Parts] | None = None
    """First API version that ``parts`` divides, and the ``Parts`` for older versions."""
    one_step: str = ""
    """Note for maintainers: why the handler is short for every request, so that no request needs to be divided."""

    def parts_of(self, version: int) -> Parts | None:
        if self.older_parts is not None and version < self.older_parts[0]:
            return self.older_parts[1]
        return self.parts

    def deduplicated(self, message: Message) -> Steps[Message]:
        """Return the request without array entries that have the same key as an earlier entry."""
        if self.once is None:
            return message
        name, key_of = self.once
        pace = Pace()
        seen: set[Hashable] = set()
        unique = []
        for item in getattr(message, name) or ():
            key = key_of(item)
            if key is None or key not in seen:
                seen.add(key)
                unique.append(item)
            if pace.is_due(NAME_US):
                yield
        if len(unique) == len(getattr(message, name) or ()):
            return message
        made = copy(message)
        setattr(made, name, unique)
        return made


ONE_NAME: Final = Cost(AnswerBound.FIXED, one_step="one name")


def identity(item: Any) -> Any:
    return item


@dataclass(frozen=True, slots=True)
class BrokerApi:
    request: type[Message]
    handle: Handler
    guard: Guard
    cost: Cost
    names: Mapping[str, NameKind] = field(default_factory=dict)
    """Request fields that contain names, as a dict: field path to kind of name."""
