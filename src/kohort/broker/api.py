"""Declaration of an API: handler, guard, and cost of a request.

Each module of ``broker/apis`` ends with a ``BrokerApi`` for each request; ``dispatch`` collects them.
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
"""Error of the entries beyond the size limit of a response."""
NAME_US: Final = 0.8

ExtraUnits = Callable[[BrokerState, tuple[Any, ...]], int]
"""``extra_units(state, chain)``: units of work that the last item of ``chain`` adds, after its enclosing items."""
Refuse = Callable[[Request, str], Message]
"""``refuse(request, message)``: response with the error ``TOO_LARGE`` in each entry."""


class AnswerBound(Enum):
    """Size limit of a response."""

    FIXED = "a few kilobytes"
    REQUEST = "one short entry per entry of the request"
    STATE = "one entry per object of the broker"
    UNREAD = "queued.max.request.bytes; further entries have the error POLICY_VIOLATION"
    FETCH = "fetch.max.bytes, with one piece in memory"
    PAGE = "max.request.partition.size.limit; a cursor continues the list"


class NameKind(Enum):
    """Kinds of names in a request, whose objects add to its cost."""

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
    """Division of a large request along nested arrays.

    ``max_units``: units of work of one part, about 5 ms; each item is one unit, plus its ``extra_units``.
    """

    request_path: tuple[str, ...]
    response_path: tuple[str, ...]
    max_units: int
    extra_units: ExtraUnits | None = None
    writes: bool = False
    """True if a part writes: its response may wait for a flush, and becomes an error if the flush fails."""
    refuse: Refuse | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Limits of a request's cost: ``parts`` divide a large request, or ``one_step`` says why the handler is short.

    Without both, the handler is a generator of steps.
    """

    answer: AnswerBound
    once: tuple[str, Callable[[Any], Hashable | None]] | None = None
    """Outermost array and the key of its items: duplicate keys are dropped, None is kept."""
    parts: Parts | None = None
    older_parts: tuple[int, Parts] | None = None
    """First version of ``parts``, and the parts of older versions."""
    one_step: str = ""
    """Reason why the handler takes one short step."""

    def parts_of(self, version: int) -> Parts | None:
        if self.older_parts is not None and version < self.older_parts[0]:
            return self.older_parts[1]
        return self.parts

    def deduplicated(self, message: Message) -> Steps[Message]:
        """Return ``message`` without items whose key occurred before."""
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
    """Fields that name things, by their paths in the request."""
