"""One script of raw requests, played to two brokers; their answers compared field by field.

A script is a function of a ``ScriptRun``. It makes actors, each with a connection of its own, and lets them ask. What a
broker makes up (ids, ports, marks of this run) is renamed in the order in which it appears; what may differ beside that
stands in ``differences.py``, with its reason. A level chooses the versions: at level n every API is asked at its lowest
version plus n, or its highest; a request loses what its version cannot say.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kohort.wire.apis import APIS
from kohort.wire.schema import FieldSpec, Message
from support.differential.differences import UNORDERED, is_allowed
from support.raw.broker_under_test import BrokerUnderTest
from support.raw.raw_client import RawClient

LEVELS = range(max(api.high - api.low for api in APIS.values()) + 1)
SILENCE_S = 20.0  # a JVM on a busy machine can stall for seconds
NO_ANSWER = "no answer"
CLOSED = "the connection is closed"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
OF_EVERYONE = {
    ("ListGroupsResponse", "groups"),
    ("MetadataResponse", "topics"),
    ("ListTransactionsResponse", "transaction_states"),
}
"""Lists of the whole broker: only the objects of this run are compared."""


@dataclass(frozen=True)
class Entry:
    """One response: its actor, its request, and its plain data with generated names replaced."""

    actor: str
    request: str
    version: int
    answer: Any


@dataclass(frozen=True)
class Difference:
    """The first difference between two transcripts."""

    request: str
    version: int
    path: str
    ours: Any
    theirs: Any
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.request} v{self.version} {self.path}: ours {self.ours!r}, theirs {self.theirs!r}"


class Names:
    """Replaces generated names."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self._texts: dict[str, str] = {}
        self.topic_ids: dict[bytes, str] = {bytes(16): "none", b"\x01" * 16: "a stranger's"}

    def text(self, value: str) -> str:
        return UUID.sub(self._text, value.replace(self.mark, "*"))

    def _text(self, found: re.Match[str]) -> str:
        return self._texts.setdefault(found[0], f"uuid-{len(self._texts)}")

    def uuid(self, value: bytes) -> str:
        return self.topic_ids.setdefault(value, f"id-{len(self.topic_ids)}")

    def plain(self, message: Message) -> dict[str, Any]:
        """Convert ``message`` to nested dicts and lists."""
        kind = type(message).__name__
        return {f.name: self._field(kind, f, getattr(message, f.name)) for f in message.FIELDS}

    def _field(self, kind: str, spec: FieldSpec, value: Any) -> Any:
        if isinstance(value, list):
            if (kind, spec.name) in OF_EVERYONE:
                value = [v for v in value if self.mark in str(v) or getattr(v, "name", "") is None]
            if (kind, spec.name) in UNORDERED:
                value = sorted(value, key=lambda v: UUID.sub("", repr(v)))  # numbering follows this order
            items = [self._value(spec, v) for v in value]
            return sorted(items, key=repr) if (kind, spec.name) in UNORDERED else items
        return self._value(spec, value)

    def _value(self, spec: FieldSpec, value: Any) -> Any:
        if isinstance(value, Message):
            return self.plain(value)
        if isinstance(value, str):
            return self.text(value)
        if spec.code == "16s":
            return self.uuid(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).replace(self.mark.encode(), b"*")
        return value


def fitted(message: Any, version: int) -> Any:
    """Return ``message`` without the fields that ``version`` does not have."""
    values = {}
    for spec in message.FIELDS:
        value = getattr(message, spec.name)
        if version not in spec.versions or (value is None and version not in spec.nullable):
            continue
        values[spec.name] = (
            [fitted(v, version) if isinstance(v, Message) else v for v in value] if isinstance(value, list) else value
        )
    return type(message)(**values)


class ScriptRun:
    """One run of a script against one broker."""

    def __init__(self, bootstrap: str, level: int) -> None:
        self.broker = BrokerUnderTest(bootstrap)
        self.level = level
        self.names = Names(self.broker.mark)
        self.transcript: list[Entry] = []
        self._wires: dict[str, RawClient] = {}

    def close(self) -> None:
        self.broker.close()

    def topic(self, name: str = "t", partitions: int = 2) -> str:
        topic = self.broker.topic(name, partitions)
        self.names.topic_ids[self.broker.topic_id(topic)] = f"the id of {name}"
        return topic

    def version(self, request: type[Message]) -> int:
        api = APIS[request.API_KEY]
        return min(api.low + self.level, api.high)

    def can_say(self, request: type[Message], field: str) -> bool:
        """Return True if this level's version of the request has the field."""
        (spec,) = [f for f in request.FIELDS if f.name == field]
        return self.version(request) in spec.versions

    def send(self, actor: str, message: Message) -> None:
        if actor not in self._wires:
            self._wires[actor] = self.broker.connect(f"client-{actor}")
        version = self.version(type(message))
        self._wires[actor].send(fitted(message, version), version)

    def take(self, actor: str) -> Any:
        """Wait for ``actor``'s next response and record it; None at a timeout or a closed connection."""
        wire = self._wires[actor]
        _, message, version = wire._requests[0]
        wire.socket.settimeout(SILENCE_S)
        answer: Any = None
        noted: Any = NO_ANSWER
        try:
            answer = wire.take()
            noted = self.names.plain(answer)
        except TimeoutError:
            pass
        except (EOFError, ConnectionError):
            noted = CLOSED
            del self._wires[actor]
        self.transcript.append(Entry(actor, type(message).__name__, version, noted))
        return answer

    def ask(self, actor: str, message: Message) -> Any:
        self.send(actor, message)
        return self.take(actor)

    def send_raw(self, actor: str, key: int, version: int, body: bytes = b"") -> None:
        """Send a frame that no message class can encode."""
        wire = self._wires.setdefault(actor, self.broker.connect(f"client-{actor}"))
        payload = struct.pack(">hhih", key, version, 1, -1) + body
        wire.send_bytes(struct.pack(">i", len(payload)) + payload)


Script = Callable[[ScriptRun], None]


def run_script(script: Script, bootstrap: str, level: int) -> list[Entry]:
    run = ScriptRun(bootstrap, level)
    try:
        script(run)
        return run.transcript
    finally:
        run.close()


def compare(ours: list[Entry], theirs: list[Entry]) -> list[Difference]:
    """Return every difference that is not allowed."""
    found = []
    for i, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        where = f"answer {i} (to {mine.actor})"
        if (mine.actor, mine.request, mine.version) != (other.actor, other.request, other.version):
            found.append(Difference(mine.request, mine.version, "what is asked", mine, other, where))
            break
        for path, a, b in unequal(mine.answer, other.answer, ""):
            if not is_allowed(mine.request, path, a, b):
                found.append(Difference(mine.request, mine.version, path, a, b, where))
    if len(ours) != len(theirs):
        found.append(Difference("", 0, "number of answers", len(ours), len(theirs), "at the end"))
    return found


def unequal(a: Any, b: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for name in a:
            yield from unequal(a[name], b[name], f"{path}.{name}" if path else name)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for x, y in zip(a, b, strict=True):
            yield from unequal(x, y, f"{path}.*")
    elif a != b:
        yield path, a, b
