"""Schema registry clients, blocking and for asyncio: one set of calls, two transports of httpx.

A registry is asked once per schema. So each call opens its own connection, and leaves nothing to close.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kohort.aio.calls import awaiting, blocking, run_call, run_call_async
from kohort.aio.system import SystemClock, system_rng
from kohort.aio.tls.contexts import client_context
from kohort.config.client_options import registry_options_of
from kohort.config.client_security import ClientSecurityConfig
from kohort.config.schema_registry import SchemaRegistryConfig, registry_config
from kohort.errors import ConfigError
from kohort.extras import needs
from kohort.schemas.http import LARGEST_ANSWER, HttpAnswer, HttpRequest, Pause
from kohort.schemas.registry import RegistryCalls

if TYPE_CHECKING:
    import httpx

R = TypeVar("R")
TOO_SLOW: Final = b"the answer takes longer than schema.registry.timeout"


class BaseSchemaRegistry:
    """Schema registry with its cache. Serializers of blocking and asyncio clients use either class."""

    def __init__(self, config: Mapping[str, Any] | str | None = None, /, **options: Any) -> None:
        self._begin(registry_config(registry_options_of(config, options)))

    def _begin(self, config: SchemaRegistryConfig) -> None:
        self.config = config
        self._calls = self.calls = RegistryCalls(config, system_rng(), SystemClock().now_ms)
        self._turn, self._process = threading.Lock(), os.getpid()

    def run(self, call: Generator[Any, Any, R]) -> R:
        """Run a call, and block. One call at a time: the next one may find its schema in the cache."""
        if self._process != os.getpid():  # a fork copies a lock that another thread may hold
            self._turn, self._process = threading.Lock(), os.getpid()
        with self._turn, self._opened(self._httpx.Client) as client:
            return run_call(call, lambda step: _step(client, step))

    async def run_async(self, call: Generator[Any, Any, R]) -> R:
        """Run a call on the current event loop."""
        async with self._opened(self._httpx.AsyncClient) as client:
            return await run_call_async(call, lambda step: _step_async(client, step))

    def _opened(self, client: Callable[..., Any]) -> Any:
        try:
            return client(**self._options)
        except ImportError as error:  # a SOCKS proxy in the environment
            raise ConfigError(f"schema registry: the proxy of the environment cannot be used: {error}") from error

    @cached_property
    def _httpx(self) -> Any:
        with needs("schemas", "a schema registry"):
            import httpx
        return httpx

    @cached_property
    def _options(self) -> dict[str, Any]:
        context: ssl.SSLContext | bool = False
        if any(url.startswith("https:") for url in self.config.schema_registry_url):
            config = self.config
            context = client_context(
                ClientSecurityConfig(
                    ssl_ca_location=config.schema_registry_ssl_ca_location,
                    ssl_certificate_location=config.schema_registry_ssl_certificate_location,
                    ssl_key_location=config.schema_registry_ssl_key_location
                    or config.schema_registry_ssl_certificate_location,
                    ssl_key_password=config.schema_registry_ssl_key_password,
                )
            )
        return {"verify": context, "timeout": self.config.schema_registry_timeout}


class SchemaRegistry(BaseSchemaRegistry):
    """Schema registry, blocking: ``SchemaRegistry("http://localhost:8081")``. Its methods are confluent-kafka's.

    Options have Confluent's names, as keywords with underscores or in a mapping with dots: ``url``,
    ``basic_auth_user_info``, ``ssl_ca_location``. ``profile`` names a cluster in ``clusters.toml``, and texts may
    contain ``${NAME}``. Threads may share the registry, and its caches. Raises ConfigError for an unknown option or an
    invalid value; every method raises SchemaRegistryError. Needs ``kohort[schemas]``.

    Guide: docs/guides/schemas.md.
    """

    get_schema = blocking(RegistryCalls.get_schema)
    get_schema_by_guid = blocking(RegistryCalls.get_schema_by_guid)
    register_schema = blocking(RegistryCalls.register_schema)
    register_schema_full_response = blocking(RegistryCalls.register_schema_full_response)
    lookup_schema = blocking(RegistryCalls.lookup_schema)
    get_subjects = blocking(RegistryCalls.get_subjects)
    get_versions = blocking(RegistryCalls.get_versions)
    get_version = blocking(RegistryCalls.get_version)
    get_latest_version = blocking(RegistryCalls.get_latest_version)
    test_compatibility = blocking(RegistryCalls.test_compatibility)
    _run = BaseSchemaRegistry.run


class AsyncSchemaRegistry(BaseSchemaRegistry):
    """Schema registry for asyncio: the methods of ``SchemaRegistry`` as coroutines, on any event loop."""

    get_schema = awaiting(RegistryCalls.get_schema)
    get_schema_by_guid = awaiting(RegistryCalls.get_schema_by_guid)
    register_schema = awaiting(RegistryCalls.register_schema)
    register_schema_full_response = awaiting(RegistryCalls.register_schema_full_response)
    lookup_schema = awaiting(RegistryCalls.lookup_schema)
    get_subjects = awaiting(RegistryCalls.get_subjects)
    get_versions = awaiting(RegistryCalls.get_versions)
    get_version = awaiting(RegistryCalls.get_version)
    get_latest_version = awaiting(RegistryCalls.get_latest_version)
    test_compatibility = awaiting(RegistryCalls.test_compatibility)
    _run = BaseSchemaRegistry.run_async


def registry_of(config: SchemaRegistryConfig) -> Callable[[], BaseSchemaRegistry]:
    """Return a function that makes the registry of a client's options, once. It raises ConfigError without a URL."""

    @cache
    def made() -> BaseSchemaRegistry:
        if not config.schema_registry_url:
            raise ConfigError("avro and json-schema need schema.registry.url, such as http://localhost:8081")
        found = BaseSchemaRegistry.__new__(BaseSchemaRegistry)
        found._begin(config)
        return found

    return made


def _step(client: httpx.Client, step: HttpRequest | Pause) -> HttpAnswer | None:
    import httpx

    if isinstance(step, Pause):
        time.sleep(step.seconds)
        return None
    deadline = time.monotonic() + (client.timeout.read or 0)
    try:
        with client.stream(step.method, step.url, headers=step.headers, content=step.body) as answer:
            body = bytearray()
            for part in answer.iter_bytes():
                body += part
                if len(body) > LARGEST_ANSWER:
                    return _too_large()
                if time.monotonic() > deadline:
                    return HttpAnswer(0, TOO_SLOW)
            return HttpAnswer(answer.status_code, bytes(body))
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        return _no_answer(error)


async def _step_async(client: httpx.AsyncClient, step: HttpRequest | Pause) -> HttpAnswer | None:
    import httpx

    if isinstance(step, Pause):
        await asyncio.sleep(step.seconds)
        return None
    try:
        async with (
            asyncio.timeout(client.timeout.read),
            client.stream(step.method, step.url, headers=step.headers, content=step.body) as answer,
        ):
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > LARGEST_ANSWER:
                    return _too_large()
            return HttpAnswer(answer.status_code, bytes(body))
    except TimeoutError:
        return HttpAnswer(0, TOO_SLOW)
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        return _no_answer(error)


def _no_answer(error: Exception) -> HttpAnswer:
    return HttpAnswer(0, (str(error) or type(error).__name__).encode())


def _too_large() -> HttpAnswer:
    return HttpAnswer(413, f"an answer of more than {LARGEST_ANSWER >> 20} MiB".encode())
