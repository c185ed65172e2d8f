"""Supported APIs, and the versions that broker and clients use.

The versions are those of Apache Kafka 4.4 (protocol/requests.md#served-versions): where a message declares one more, it
is not yet stable, and is read and written but neither advertised nor negotiated.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kohort.wire import messages
from kohort.wire.schema import MAX_VERSION, Message

PRODUCE: Final = 0
API_VERSIONS: Final = 18
INIT_PRODUCER_ID: Final = 22


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its two messages, the versions served (both ends included), the first version that is flexible."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    low: int
    high: int
    flexible_from: int

    @property
    def advertised_low(self) -> int:
        """The lowest version shown to clients: Produce claims 0, or librdkafka gives up compression (KAFKA-18659)."""
        return 0 if self.key == PRODUCE else self.low

    def serves(self, version: int) -> bool:
        return self.low <= version <= self.high


HIGHEST_SERVED: Final = {INIT_PRODUCER_ID: 5}
"""Where 4.4 stops short of what is declared: InitProducerId 6 is a draft (KIP-939)."""


def _declared() -> Iterator[type[Message]]:
    for module in pkgutil.iter_modules(messages.__path__, f"{messages.__name__}."):
        for declared in vars(importlib.import_module(module.name)).values():
            if isinstance(declared, type) and issubclass(declared, Message) and declared.API_KEY is not None:
                yield declared


def _api(request: type[Message], response: type[Message]) -> Api:
    assert request.API_KEY is not None
    assert request.API_KEY == response.API_KEY
    assert request.VERSIONS == response.VERSIONS
    low, high = request.VERSIONS
    flexible_from = request.FLEXIBLE.low if request.FLEXIBLE.high == MAX_VERSION else MAX_VERSION
    name = request.__name__.removesuffix("Request")
    return Api(request.API_KEY, name, request, response, low, HIGHEST_SERVED.get(request.API_KEY, high), flexible_from)


def _apis() -> dict[int, Api]:
    declared = {message.__name__: message for message in _declared()}
    requests = sorted((m for n, m in declared.items() if n.endswith("Request")), key=lambda m: m.API_KEY or 0)
    apis = (_api(m, declared[f"{m.__name__.removesuffix('Request')}Response"]) for m in requests)
    return {api.key: api for api in apis}


APIS: Final[dict[int, Api]] = _apis()
"""By key. A new API is here once ``wire/messages`` declares its two messages."""


def api_of(message: Message | type[Message]) -> Api:
    """Return the API of a request or response. Raises KeyError."""
    key = message.API_KEY
    if key is None:
        raise KeyError(f"{message!r} is neither a request nor a response")
    return APIS[key]
