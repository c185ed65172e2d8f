"""Declaration of an API: its handler, the rights that it takes, the cost of a request.

Each module of ``broker/apis`` ends with one ``BrokerApi`` for each request that it serves; ``dispatch`` collects them.
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
"""Error of the entries beyond the largest answer."""
NAME_US: Final = 0.8

Brings = Callable[[BrokerState, tuple[Any, ...]], int]
"""``brings(state, chain)``: units of work that the last item of ``chain`` brings beside itself. The items that hold it
stand before it, the outermost first."""
Refuse = Callable[[Request, str], Message]
"""``refuse(request, message)``: the answer whose entries all say ``TOO_LARGE``."""


class Noun(Enum):
    """Things that a request names and that bring more than their name."""

    TOPIC = "topic"
    TOPIC_ID = "topic id"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    RESOURCE = "resource with options"
    EXPRESSION = "regular expression"
    ASSIGNMENT = "assignment of a classic member"
    SUBSCRIPTION = "subscription of a classic member"
    USER = "user"


class AnswerBound(Enum):
    """Bound of an answer."""

    FIXED = "a few kilobytes, whatever the request names"
    REQUEST = "entries of bounded length, as many as the request has"
    HELD = "each thing of one kind once, as many as the broker holds"
    UNREAD = "queued.max.request.bytes: the entries beyond it say POLICY_VIOLATION"
    FETCH = "fetch.max.bytes; of it one piece is in memory"
    PAGE = "max.request.partition.size.limit: the next request goes on from the cursor"


PARTITIONS: Final = ("topics", "partitions")
"""Nested arrays of many requests and responses."""
TOPICS: Final = {"topics.name": Noun.TOPIC}
TOPICS_OR_IDS: Final = {**TOPICS, "topics.topic_id": Noun.TOPIC_ID}


@dataclass(frozen=True, slots=True)
class Parts:
    """Division of a request along nested arrays: ``asked`` of the request, ``answered`` of its answer.

    ``most``: units of work in one part, about five milliseconds; an item is one unit, and what it ``brings``.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    most: int
    brings: Brings | None = None
    writes: bool = False
    """True where a part writes: its answer may wait for the disk, and is withdrawn if the write fails."""
    refuse: Refuse | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Bounds of one request of an API.

    With ``parts`` a large request is divided, with ``one_step`` the only step of the handler is short. Without both the
    handler is a generator of steps.
    """

    answer: AnswerBound
    names: Mapping[str, Noun] = field(default_factory=dict)
    """Fields that name things, by their paths in the request."""
    once: tuple[str, Callable[[Any], Hashable | None]] | None = None
    """Outermost array, and the key of its items: later items with a known key are dropped, unless it is None."""
    parts: Parts | None = None
    older_parts: tuple[int, Parts] | None = None
    """The version from which ``parts`` holds, and the parts of the versions before."""
    one_step: str = ""
    """Reason why the only step of the handler is short."""

    def parts_of(self, version: int) -> Parts | None:
        """Return the division of a request of ``version``."""
        if self.older_parts is not None and version < self.older_parts[0]:
            return self.older_parts[1]
        return self.parts

    def named_once(self, message: Message) -> Steps[Message]:
        """Return ``message`` without the items whose key an earlier item has."""
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


def itself(item: Any) -> Any:
    """Return ``item``: the key of an array of names that count once."""
    return item


@dataclass(frozen=True, slots=True)
class BrokerApi:
    """One API of the broker."""

    request: type[Message]
    handle: Handler
    guard: Guard
    """Rights that a request takes where there is an authorizer."""
    cost: Cost
