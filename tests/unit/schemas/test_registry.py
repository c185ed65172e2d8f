"""Registry calls without sockets: retries, addresses, errors, caches, references, subject strategies."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from random import Random
from typing import Any

import pytest

from kohort.clock import ManualClock
from kohort.config.schema_registry import registry_config
from kohort.errors import ConfigError, SchemaRegistryError
from kohort.schemas.http import HttpAnswer, HttpRequest, Pause
from kohort.schemas.registry import Bounded, RegistryCalls
from kohort.schemas.schema import Schema, SchemaReference
from kohort.schemas.serde import SerializationContext
from kohort.schemas.subjects import subject_strategy
from support.schema_registry import FakeRegistry

Respond = Callable[[HttpRequest], HttpAnswer]
NO_ANSWER = HttpAnswer(0, b"connection refused")


class Played:
    """A registry's calls, played against a function. ``log``: addresses and pauses in order."""

    def __init__(self, respond: Respond, **options: Any) -> None:
        self.clock = ManualClock()
        config = registry_config({"url": "http://one,http://two/path/", **options})
        self.calls = RegistryCalls(config, Random(1), self.clock.now_ms)
        self.log: list[Any] = []
        self.requests: list[HttpRequest] = []
        self._respond = respond

    def run(self, call: Generator[Any, Any, Any]) -> Any:
        answer: Any = None
        while True:
            try:
                step = call.send(answer)
            except StopIteration as done:
                return done.value
            if isinstance(step, Pause):
                self.log.append(step.seconds)
                answer = None
                continue
            self.requests.append(step)
            self.log.append(step.url)
            answer = self._respond(step)


def fake(registry: FakeRegistry) -> Respond:
    def respond(request: HttpRequest) -> HttpAnswer:
        path = request.url.removeprefix("http://one").partition("?")[0]
        status, body = registry.answer(request.method, path, json.loads(request.body) if request.body else None)
        return HttpAnswer(status, json.dumps(body).encode())

    return respond


def test_each_attempt_tries_all_addresses_then_pauses() -> None:
    played = Played(lambda _request: NO_ANSWER, max_retries=3, retries_wait_ms=1000, retries_max_wait_ms=2000)
    with pytest.raises(SchemaRegistryError, match="does not answer, 3 retries: connection refused") as caught:
        played.run(played.calls.get_subjects())
    assert caught.value.retriable
    assert played.log[:2] == ["http://one/subjects", "http://two/path/subjects"]
    pauses = [step for step in played.log if isinstance(step, float)]
    assert len(pauses) == 3
    assert all(0 <= pause < limit for pause, limit in zip(pauses, (1, 2, 2), strict=True))


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_overloaded_registry_is_asked_again(status: int) -> None:
    answers = [HttpAnswer(status, b""), HttpAnswer(status, b""), HttpAnswer(200, b'["a"]')]
    played = Played(lambda _request: answers.pop(0))
    assert played.run(played.calls.get_subjects()) == ["a"]


def test_address_that_answers_is_the_first_of_the_next_request() -> None:
    played = Played(lambda r: NO_ANSWER if r.url.startswith("http://one") else HttpAnswer(200, b"[]"))
    played.run(played.calls.get_subjects())
    played.run(played.calls.get_subjects())
    assert played.log == ["http://one/subjects", "http://two/path/subjects", "http://two/path/subjects"]


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (404, b'{"error_code": 40401, "message": "Subject \'x\' not found."}', 40401, "check subject_name_strategy"),
        (401, b"<html>", 401, r"schema\.registry\.basic\.auth\.user\.info"),
        (409, b'{"error_code": 409, "message": "incompatible"}', 409, "test_compatibility"),
        (409, b'{"error_code": 40901, "message": "incompatible"}', 40901, "test_compatibility"),
        (
            422,
            b'{"error_code": 42201, "message": "bad\\nschema"}',
            42201,
            r"bad\\nschema \(42201\): correct the schema",
        ),
        (301, b"", 301, "no message"),
        (200, b'{"id": "x"}', 200, "unexpected answer"),
        (200, b"[" * 100_000, 200, "unexpected answer"),
        (200, b"{}", 0, "has id None"),
        (413, b"an answer of more than 32 MiB", 413, "more than 32 MiB"),
    ],
)
def test_refusal_names_code_subject_and_remedy(status: int, body: bytes, code: int, message: str) -> None:
    played = Played(lambda _request: HttpAnswer(status, body))
    with pytest.raises(SchemaRegistryError, match=message) as caught:
        played.run(played.calls.register_schema("x", Schema('"int"')))
    assert (caught.value.code, caught.value.subject, caught.value.retriable) == (code, "x", False)
    assert len(played.requests) == 1


def test_login_of_the_url_is_sent_but_never_shown() -> None:
    config = {"url": "http://user:p%40ss@one"}
    played = Played(lambda _request: HttpAnswer(403, b""), **config)
    with pytest.raises(SchemaRegistryError) as caught:
        played.run(played.calls.get_subjects())
    assert played.requests[0].headers["Authorization"] == "Basic dXNlcjpwQHNz"
    assert "p@ss" not in str(caught.value)
    assert "user" not in played.requests[0].url


@pytest.mark.parametrize(
    "options",
    [
        {"bearer_auth_token": "s3cret\n"},
        {"bearer_auth_token": "s3cr\xe9t"},
        {"bearer_auth_token": "x", "bearer_auth_identity_pool_id": "s3cret\r\n"},
        {"url": "http://me:s3cret/x@one"},
    ],
)
def test_invalid_login_is_rejected_without_showing_it(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"expected") as caught:
        registry_config({"url": "http://one", **options})
    assert "s3cr" not in str(caught.value)


def test_repr_of_the_options_hides_the_login_of_a_url() -> None:
    config = registry_config({"url": "http://me:s3cret@one:1,http://two"})
    assert "s3cret" not in repr(config)
    assert "['http://[hidden]@one:1', 'http://two']" in repr(config)


@pytest.mark.parametrize("schema_id", [-1, 1 << 32, None])
def test_id_that_does_not_fit_the_wire_is_the_registrys_error(schema_id: int | None) -> None:
    played = Played(lambda _: HttpAnswer(200, json.dumps({"id": schema_id}).encode()))
    with pytest.raises(SchemaRegistryError, match=f"has id {schema_id}: expected 4 bytes"):
        played.run(played.calls.register_schema("x", Schema('"int"')))


def test_bearer_token_has_its_cluster_and_pool() -> None:
    played = Played(
        lambda _request: HttpAnswer(200, b"[]"),
        bearer_auth_token="t0ken", bearer_auth_logical_cluster="lsrc-1", bearer_auth_identity_pool_id="pool-1",
    )  # fmt: skip
    played.run(played.calls.get_subjects())
    headers = played.requests[0].headers
    assert headers["Authorization"] == "Bearer t0ken"
    assert (headers["target-sr-cluster"], headers["Confluent-Identity-Pool-Id"]) == ("lsrc-1", "pool-1")


def test_subject_is_escaped_in_the_path() -> None:
    played = Played(lambda _request: HttpAnswer(200, b"[1]"))
    played.run(played.calls.get_versions(":.ctx:a/b c"))
    assert played.log == ["http://one/subjects/%3A.ctx%3Aa%2Fb%20c/versions"]


def test_schemas_are_cached_and_failures_are_not() -> None:
    registry = FakeRegistry()
    played = Played(fake(registry))
    with pytest.raises(SchemaRegistryError):
        played.run(played.calls.get_schema(1))
    schema = Schema('"int"')
    for _ in range(2):
        assert played.run(played.calls.register_schema("x", schema)) == 1
        assert played.run(played.calls.get_schema(1)) == schema
        assert played.run(played.calls.get_version("x", 1)).version == 1
    assert len(played.requests) == 4


def test_latest_version_is_read_again_after_its_ttl() -> None:
    registry = FakeRegistry()
    registry.register("x", {"schema": '"int"'})
    played = Played(fake(registry), cache_latest_ttl_sec=10)
    assert played.run(played.calls.get_latest_version("x")).version == 1
    registry.register("x", {"schema": '"long"'})
    played.clock.advance(9_999)
    assert played.run(played.calls.get_latest_version("x")).version == 1
    played.clock.advance(1)
    assert played.run(played.calls.get_latest_version("x")).version == 2


def test_latest_versions_stay_fresh_longer_than_a_slow_registry_takes() -> None:
    registry = FakeRegistry()
    for subject in ("t-key", "t-value"):
        registry.register(subject, {"schema": '"int"'})
    played = Played(fake(registry), cache_latest_ttl_sec=0, cache_capacity=1)
    answer = played._respond

    def slow(request: HttpRequest) -> HttpAnswer:
        played.clock.advance(5000)
        return answer(request)

    played._respond = slow
    for subject in ("t-key", "t-value"):
        played.run(played.calls.resolve_latest(subject))
    assert played.calls.cached_latest("t-key") is not None
    assert played.calls.cached_latest("t-value") is not None
    played.clock.advance(10_000)
    assert played.calls.cached_latest("t-value") is None


def test_references_come_depth_first_and_once() -> None:
    registry = FakeRegistry()
    registry.register("c", {"schema": '"c"'})
    for name, uses in (("b", ["c"]), ("d", ["c", "b"])):
        references = [{"name": use, "subject": use, "version": 1} for use in uses]
        registry.register(name, {"schema": f'"{name}"', "references": references})
    played = Played(fake(registry))
    schema = Schema('"a"', references=(SchemaReference("d", "d", 1), SchemaReference("b", "b", 1)))
    found = played.run(played.calls.resolve_references(schema))
    assert found == (("c", '"c"'), ("b", '"b"'), ("d", '"d"'))
    assert len(played.requests) == 3


def test_cycle_of_references_ends_with_an_error() -> None:
    played = Played(
        lambda _request: HttpAnswer(
            200, b'{"id": 1, "schema": "x", "references": [{"name": "a", "subject": "a", "version": 1}]}'
        )
    )
    schema = Schema("x", references=(SchemaReference("a", "a", 1),))
    with pytest.raises(SchemaRegistryError, match="nested more than 64 levels"):
        played.run(played.calls.resolve_references(schema))


def test_full_cache_drops_its_oldest_entry() -> None:
    cache: Bounded[int, str] = Bounded(2)
    for key in (1, 2, 2, 3):
        cache.put(key, "x")
    assert [cache.get(key) for key in (1, 2, 3)] == [None, "x", "x"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "schema.registry.url is missing"),
        ({"url": "localhost:8081"}, "expected http://HOST:PORT"),
        ({"url": "http://x:port"}, "expected http://HOST:PORT"),
        ({"url": "http://u:secret@x?y=1"}, "url='x\\?y=1'"),
        ({"url": "http://x", "urls": "y"}, "unknown option 'urls' of a schema registry; did you mean url"),
        ({"url": "http://x", "timeout": 0}, "expected seconds above 0"),
        ({"url": "http://x", "max.retries": -1}, "max.retries=-1"),
        ({"url": "http://x", "basic.auth.user.info": "a:b", "bearer.auth.token": "t"}, "exclude each other"),
        ({"url": "http://x", "ssl.key.location": "k"}, "needs schema.registry.ssl.certificate.location"),
        ({"url": "http://x", "bearer.auth.credentials.source": "OAUTHBEARER"}, "expected STATIC_TOKEN"),
    ],
)
def test_wrong_option_of_a_registry_is_rejected(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        registry_config(options)
    assert "secret" not in str(caught.value)


def test_strategies_name_subjects() -> None:
    ctx = SerializationContext("t", "key")
    assert subject_strategy("TOPIC")(ctx, "a.B") == "t-key"
    assert subject_strategy("record")(ctx, "a.B") == "a.B"
    assert subject_strategy("TOPIC_RECORD")(ctx, "a.B") == "t-a.B"
    assert subject_strategy(lambda ctx, name: f"{ctx.field}.{name}")(ctx, "B") == "key.B"
    with pytest.raises(ConfigError, match="no record name: use strategy TOPIC"):
        subject_strategy("RECORD")(ctx, None)
