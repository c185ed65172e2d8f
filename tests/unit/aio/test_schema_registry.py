"""Schema registry clients over sockets: blocking, asyncio, TLS with certificates, profiles, missing packages."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from kohort import AsyncSchemaRegistry, ConfigError, Schema, SchemaRegistry, SchemaRegistryError
from kohort.schemas.schema import JSON, SchemaReference
from support.schema_registry import fake_registry
from support.security.certificates import Certificates


def test_blocking_and_asyncio_clients_have_the_same_answers() -> None:
    with fake_registry() as server:
        registry = SchemaRegistry(server.url)
        base = Schema('{"type": "string"}', JSON)
        assert registry.register_schema("base", base) == 1
        schema = Schema('{"$ref": "base.json"}', JSON, [SchemaReference("base.json", "base", 1)])  # type: ignore[arg-type]
        assert registry.register_schema("a/b", schema, normalize_schemas=True) == 2
        assert registry.test_compatibility("a/b", schema)

        async def asked() -> list[object]:
            client = AsyncSchemaRegistry({"url": server.url, "basic.auth.user.info": "me:secret"})
            return [
                await client.get_subjects(), await client.get_versions("a/b"), await client.get_schema(2),
                await client.get_schema_by_guid(server.guid(2)), await client.get_latest_version("a/b"),
                await client.lookup_schema("a/b", schema),
            ]  # fmt: skip

        expected = [
            registry.get_subjects(), registry.get_versions("a/b"), registry.get_schema(2),
            registry.get_schema_by_guid(server.guid(2)), registry.get_latest_version("a/b"),
            registry.lookup_schema("a/b", schema),
        ]  # fmt: skip
        assert asyncio.run(asked()) == expected
        assert expected[:3] == [["base", "a/b"], [1], schema]
        assert server.headers[-1]["Authorization"] == "Basic bWU6c2VjcmV0"


def test_registry_works_in_a_fork_while_another_thread_of_the_parent_asks() -> None:
    with fake_registry() as server:
        registry = SchemaRegistry(server.url)
        with registry._turn:  # as if another thread of the parent sent a request
            child = os.fork()
            if not child:
                os._exit(0 if registry.get_subjects() == [] else 1)
            _, status = os.waitpid(child, 0)

        assert os.waitstatus_to_exitcode(status) == 0
        assert registry.get_subjects() == []


def test_socks_proxy_without_its_package_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")

    with pytest.raises(ConfigError, match=r"proxy of the environment cannot be used: .*socksio"):
        SchemaRegistry("http://127.0.0.1:1").get_subjects()


def test_invalid_guid_of_a_registry_is_omitted() -> None:
    with fake_registry() as server:
        server.script.append((200, b'{"id": 7, "guid": "seven", "schema": "\\"int\\""}'))
        registry = SchemaRegistry(server.url)
        registered = registry.run(registry.calls.resolve_schema(7)).registered

    assert (registered.schema_id, registered.guid) == (7, None)


def test_registry_without_server_is_retriable() -> None:
    with fake_registry() as server:
        pass
    registry = SchemaRegistry(url=server.url, max_retries=1, retries_wait_ms=0)
    with pytest.raises(SchemaRegistryError, match="does not answer, 1 retries") as caught:
        registry.get_subjects()
    assert caught.value.retriable


def test_answer_above_the_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.aio.schema_registry.LARGEST_ANSWER", 1 << 20)
    with fake_registry() as server:
        server.script.append((200, b"[" + b" " * (1 << 21) + b"]"))
        with pytest.raises(SchemaRegistryError, match="more than 1 MiB"):
            SchemaRegistry(server.url).get_subjects()
        server.script.append((200, b"[" + b" " * (1 << 21) + b"]"))
        with pytest.raises(SchemaRegistryError, match="more than 1 MiB"):
            asyncio.run(AsyncSchemaRegistry(server.url).get_subjects())


def test_endless_answer_of_a_registry_ends_at_the_timeout() -> None:
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        while not stop.is_set():
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not stop.wait(0.02):
                    connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,), daemon=True)
        thread.start()
        options = {"url": f"http://127.0.0.1:{listener.getsockname()[1]}", "timeout": 0.2, "max_retries": 0}
        with pytest.raises(SchemaRegistryError, match="takes longer than") as caught:
            SchemaRegistry(options).get_subjects()
        assert caught.value.retriable
        with pytest.raises(SchemaRegistryError, match="takes longer than"):
            asyncio.run(AsyncSchemaRegistry(options).get_subjects())
        stop.set()


def test_profile_and_environment_name_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = tmp_path / "clusters.toml"
    profiles.write_text(
        '[prod]\nbootstrap.servers = "k:9092"\nschema.registry.url = "http://r:8081"\n'
        'schema.registry.basic.auth.user.info = "me:${REGISTRY_PASSWORD}"\n'
    )
    monkeypatch.setenv("KOHORT_PROFILES", str(profiles))
    monkeypatch.setenv("REGISTRY_PASSWORD", "secret")
    config = SchemaRegistry(profile="prod").config
    assert config.schema_registry_url == ["http://r:8081"]
    assert config.schema_registry_basic_auth_user_info is not None
    assert config.schema_registry_basic_auth_user_info.reveal() == "me:secret"
    assert "secret" not in repr(config)
    with pytest.raises(ConfigError, match="the first argument is the URL of a schema registry"):
        SchemaRegistry(3)  # type: ignore[arg-type]


def test_tls_checks_the_registry_and_shows_the_clients_certificate(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.certificate, certificates.server.key)
    context.load_verify_locations(certificates.authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    trusted = {"ssl_ca_location": str(certificates.authority.certificate), "max_retries": 0}
    with fake_registry(context) as server:
        registry = SchemaRegistry(
            server.url,
            ssl_certificate_location=str(certificates.alice.certificate), ssl_key_location=str(certificates.alice.key),
            **trusted,
        )  # fmt: skip
        assert registry.get_subjects() == []
        assert asyncio.run(registry.run_async(registry.calls.get_subjects())) == []
        with pytest.raises(SchemaRegistryError, match="CERTIFICATE_VERIFY_FAILED"):
            SchemaRegistry(server.url, max_retries=0).get_subjects()
        with pytest.raises(SchemaRegistryError, match="does not answer"):
            SchemaRegistry(server.url, **trusted).get_subjects()
