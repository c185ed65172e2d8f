"""Supported APIs, and the versions that broker and clients use.

The versions are those of Apache Kafka 4.4 (protocol/requests.md#served-versions). A message may also declare an
unstable version, which is neither advertised nor negotiated.
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
    """API with its two messages, its range of served versions, and its first flexible version."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    low: int
    high: int
    flexible_from: int

    @property
    def advertised_low(self) -> int:
        """Lowest advertised version; 0 for Produce, or librdkafka disables compression (KAFKA-18659)."""
        return 0 if self.key == PRODUCE else self.low

    def serves(self, version: int) -> bool:
        return self.low <= version <= self.high


HIGHEST_SERVED: Final = {INIT_PRODUCER_ID: 5}
"""Highest served version of each API with an unstable version: InitProducerId 6 is unstable (KIP-939)."""


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
"""APIs by key, collected from the messages in ``wire/messages``."""


def api_of(message: Message | type[Message]) -> Api:
    key = message.API_KEY
    if key is None:
        raise KeyError(f"{message!r} is neither a request nor a response")
    return APIS[key]
