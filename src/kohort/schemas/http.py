"""Requests to a schema registry and its answers, without sockets: addresses, login, retries, errors.

``send`` is a generator: it yields each ``HttpRequest`` and gets an ``HttpAnswer``, or yields a ``Pause``.
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import quote

import msgspec

from kohort.clock import Rng
from kohort.config.schema_registry import RegistryAddress, SchemaRegistryConfig
from kohort.errors import SchemaRegistryError
from kohort.notes import one_line

T = TypeVar("T")
MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
RETRIED: Final = frozenset((408, 429, 500, 502, 503, 504))
LARGEST_ANSWER: Final = 32 << 20
"""Limit of an answer in bytes: the transport rejects a larger one."""
HINTS: Final[Mapping[int, str]] = {
    401: "check schema.registry.basic.auth.user.info or schema.registry.bearer.auth.token",
    403: "the registry's login lacks the right",
    404: "check the path in schema.registry.url",
    40401: "register a schema, or check subject_name_strategy",
    40402: "get_versions() lists the versions",
    40403: "register the schema (auto_register=True), or check schema.registry.url",
    409: "test_compatibility() tests a schema; change it so that the subject's compatibility level allows it",
    42201: "correct the schema",
    42205: "the registry or the subject is read-only",
}
OTHER_CODES: Final = {40901: 409}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """Request for the transport, with the URL of one address."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status and body of an answer. Status 0: no answer, and ``body`` is the reason."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait of the transport before the next request."""

    seconds: float


Exchange = Generator[HttpRequest | Pause, Any, T]


class _Problem(msgspec.Struct):
    error_code: int = 0
    message: str | None = None


class RegistryClient:
    """Addresses and login of a registry. The address that answered last is the first of the next request."""

    def __init__(self, config: SchemaRegistryConfig, rng: Rng) -> None:
        self._addresses = [RegistryAddress.parse(url) for url in config.schema_registry_url]
        self._headers = [_headers(config, address) for address in self._addresses]
        self._first = 0
        self._retries = config.schema_registry_max_retries
        self._wait_s = config.schema_registry_retries_wait_ms / 1000
        self._longest_wait_s = config.schema_registry_retries_max_wait_ms / 1000
        self._rng = rng

    def send(
        self, method: str, path: str, result: type[T], *, body: Any = None, subject: str | None = None
    ) -> Exchange[T]:
        """Send a request, and return the parsed answer. Raises SchemaRegistryError.

        Each attempt tries all addresses. The delays between attempts are random, up to a limit that doubles.
        """
        encoded = None if body is None else msgspec.json.encode(body)
        answer, at = HttpAnswer(0, b""), self._first
        for attempt in range(self._retries + 1):
            if attempt:
                yield Pause(min(self._wait_s * 2 ** (attempt - 1), self._longest_wait_s) * self._rng.random())
            for _ in self._addresses:
                at = self._first
                answer = yield HttpRequest(method, self._addresses[at].url + path, self._headers[at], encoded)
                if answer.status not in RETRIED and answer.status:
                    return self._parsed(answer, at, result, subject)
                self._first = (at + 1) % len(self._addresses)
        self._fail(answer, at, subject, retriable=True)

    def _parsed(self, answer: HttpAnswer, at: int, result: type[T], subject: str | None) -> T:
        if not 200 <= answer.status < 300:
            self._fail(answer, at, subject)
        try:
            return msgspec.json.decode(answer.body, type=result)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SchemaRegistryError(
                f"schema registry {self._addresses[at].url}: unexpected answer: {error}",
                code=answer.status,
                subject=subject,
            ) from None

    def _fail(self, answer: HttpAnswer, at: int, subject: str | None, *, retriable: bool = False) -> NoReturn:
        url = self._addresses[at].url
        if not answer.status:
            problem = answer.body.decode(errors="replace")
            tries = f", {self._retries} retries" if self._retries else ""
            raise SchemaRegistryError(
                f"schema registry {url} does not answer{tries}: {problem}", subject=subject, retriable=True
            )
        try:
            found = msgspec.json.decode(answer.body, type=_Problem)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = _Problem()
        code = found.error_code or answer.status
        text = one_line(found.message or answer.body[:200].decode(errors="replace") or "no message", 1000)
        where = f", subject {subject!r}" if subject else ""
        hint = HINTS.get(OTHER_CODES.get(code, code)) or HINTS.get(answer.status, "")
        raise SchemaRegistryError(
            f"schema registry {url}{where}: {text} ({code}){': ' if hint else ''}{hint}",
            code=code,
            subject=subject,
            retriable=retriable,
        )


def escaped(name: str) -> str:
    """Escape a subject for a path; a slash, too."""
    return quote(name, safe="")


def _headers(config: SchemaRegistryConfig, address: RegistryAddress) -> dict[str, str]:
    headers = {"Accept": f"{MEDIA_TYPE}, application/json", "Content-Type": MEDIA_TYPE, "Accept-Encoding": "identity"}
    login = config.schema_registry_basic_auth_user_info or address.user_info
    if config.schema_registry_bearer_auth_token is not None:
        headers["Authorization"] = f"Bearer {config.schema_registry_bearer_auth_token.reveal()}"
        if config.schema_registry_bearer_auth_logical_cluster:
            headers["target-sr-cluster"] = config.schema_registry_bearer_auth_logical_cluster
        if config.schema_registry_bearer_auth_identity_pool_id:
            headers["Confluent-Identity-Pool-Id"] = config.schema_registry_bearer_auth_identity_pool_id
    elif login is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(login.reveal().encode()).decode()
    return headers
