from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from kohort.aio.credentials.logins import TokenCache, renewed_at_ms
from kohort.aio.credentials.token_sources import ATTEMPTS_MOST, Token, claims_of, https_context, token_source, unsecured
from kohort.aio.system import wall_ms
from kohort.client.requests.credentials import credentials_of
from kohort.config.client import AdminConfig
from kohort.config.client_options import client_config
from kohort.errors import AuthenticationFailed, ConnectionFailed, KohortError
from kohort.secret import Secret

SECRET = "planted-secret"
HOST = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com"


def config(**options: object) -> AdminConfig:
    required = {"bootstrap_servers": "a:1", "security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    return client_config(AdminConfig, None, {**required, **options})


def fetch(options: dict[str, object]) -> Token:
    made = config(**options)
    credentials = credentials_of(made)
    assert credentials is not None

    async def run() -> Token:
        return await token_source(made, credentials)(HOST)

    return asyncio.run(run())


def jwt(lasts_s: float = 3600, name: str = "alice") -> str:
    return unsecured({"StringClaim_sub": name, "LifetimeSeconds": str(lasts_s)}, {}, wall_ms()).text.reveal()


# Tokens from the user's callback


class Provider:
    def token(self) -> str:
        return "of an object"


async def coroutine() -> tuple[str, float]:
    await asyncio.sleep(0)
    return "of a coroutine", 1_900_000_000.0


@pytest.mark.parametrize(
    ("provider", "text", "expires_ms"),
    [
        (lambda: "opaque", "opaque", None),
        (lambda: ("t", 1_900_000_000), "t", 1_900_000_000_000),
        (lambda: ("t", 1_900_000_000_123), "t", 1_900_000_000_123),
        (lambda _config: ("of confluent's form", 1_900_000_000.5), "of confluent's form", 1_900_000_000_500),
        (lambda: ("t", None), "t", None),
        (lambda: Secret("hidden"), "hidden", None),
        (Provider(), "of an object", None),
        (coroutine, "of a coroutine", 1_900_000_000_000),
    ],
)
def test_token_callback_may_return_string_tuple_secret_or_coroutine(provider, text, expires_ms):
    token = fetch({"sasl_oauth_token_provider": provider})
    assert (token.text.reveal(), token.expires_ms) == (text, expires_ms)


def test_token_callback_with_an_argument_gets_the_configuration():
    token = fetch({"oauth_cb": lambda argument: argument, "sasl_oauthbearer_config": "principal=x"})
    assert token.text.reveal() == "principal=x"


def test_token_callback_may_return_principal_and_extensions():
    token = fetch(
        {
            "sasl_oauth_token_provider": lambda: ("t", None, "alice", {"b": "2"}),
            "sasl_oauthbearer_extensions": "a=1",
        }
    )
    assert (token.principal, token.extensions) == ("alice", {"a": "1", "b": "2"})


def test_expiry_of_a_jwt_is_read_from_the_token():
    assert abs(fetch({"sasl_oauth_token_provider": jwt}).expires_ms - wall_ms() - 3_600_000) < 60_000


def raising() -> str:
    raise LookupError("the vault is sealed")


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (raising, "sasl.oauth.token.provider raised LookupError: the vault is sealed"),
        (lambda: None, "returned NoneType: expected a token"),
        (lambda: "", "returned str: expected a token"),
        (lambda: (), "returned tuple: expected a token"),
        (lambda: b"bytes", "returned bytes: expected a token"),
        (lambda: (SECRET, "tomorrow"), "returned str as the expiry time: expected seconds since 1970"),
    ],
)
def test_error_for_failing_token_callback_names_option(provider, words):
    with pytest.raises(AuthenticationFailed) as raised:
        fetch({"sasl_oauth_token_provider": provider})
    assert words in str(raised.value)
    assert SECRET not in str(raised.value)


# Tokens from a file and from Amazon's signer


def test_token_is_read_from_a_file(tmp_path: Path):
    path = tmp_path / "a token"
    path.write_text(f"{jwt()}\n")
    url = path.as_uri()

    assert claims_of(fetch({"sasl_oauthbearer_token_endpoint_url": url}).text.reveal())["sub"] == "alice"

    for content, words in ((b" ", "is empty"), (b"\xff\xfe", "not a text file"), (None, "No such file")):
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(AuthenticationFailed, match=words):
            fetch({"sasl_oauthbearer_token_endpoint_url": url})


def test_amazon_signer_gets_region_from_broker_host_name(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("aws_msk_iam_sasl_signer")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    token = fetch({"sasl_mechanism": "AWS_MSK_IAM"})

    text = token.text.reveal()
    signed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    assert "kafka.eu-west-1.amazonaws.com" in signed
    assert 800_000 < token.expires_ms - wall_ms() <= 900_000


# Tokens from an identity provider


class TokenEndpoint(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[str | None, dict[str, list[str]]]] = []
        self.answers: list[tuple[int, bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/token"


class _Handler(BaseHTTPRequestHandler):
    server: TokenEndpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.requests.append((self.headers["Authorization"], parse_qs(body)))
        answers = self.server.answers
        status, content = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def issuer() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


def oidc(issuer: TokenEndpoint, **options: object) -> dict[str, object]:
    return {
        "sasl_oauthbearer_token_endpoint_url": issuer.url,
        "sasl_oauthbearer_client_id": "id",
        "sasl_oauthbearer_client_secret": SECRET,
        "sasl_login_retry_backoff_ms": 0,
        **options,
    }


def granted(**fields: object) -> tuple[int, bytes]:
    return 200, json.dumps({"access_token": jwt(), "token_type": "Bearer", **fields}).encode()


def test_token_request_has_client_credentials_in_header_and_scope_in_body(issuer: TokenEndpoint):
    issuer.answers = [granted()]

    token = fetch(oidc(issuer, sasl_oauthbearer_scope="read write", sasl_oauthbearer_extensions="a=1"))

    assert claims_of(token.text.reveal())["sub"] == "alice"
    assert token.extensions == {"a": "1"}
    pair = base64.b64encode(f"id:{SECRET}".encode()).decode()
    assert issuer.requests == [(f"Basic {pair}", {"grant_type": ["client_credentials"], "scope": ["read write"]})]


def test_client_credentials_in_header_are_url_encoded_if_configured(issuer: TokenEndpoint):
    issuer.answers = [granted()]
    fetch(oidc(issuer, sasl_oauthbearer_client_id="a b:c", sasl_oauthbearer_header_urlencode=True))
    (header, _) = issuer.requests[0]
    assert base64.b64decode(header.removeprefix("Basic ")) == f"a+b%3Ac:{SECRET}".encode()


def test_expiry_of_opaque_token_is_read_from_token_response(issuer: TokenEndpoint):
    issuer.answers = [granted(access_token="opaque", expires_in=600)]
    assert 500_000 < fetch(oidc(issuer)).expires_ms - wall_ms() <= 600_000


@pytest.mark.parametrize("status", [400, 401, 403, 404, 415, 501, 302])
def test_permanent_error_of_token_endpoint_is_not_retried_and_its_message_has_no_secret(
    issuer: TokenEndpoint, status: int
):
    issuer.answers = [(status, b'{"error": "invalid_client", "error_description": "no such\\nclient"}')]

    with pytest.raises(AuthenticationFailed) as raised:
        fetch(oidc(issuer))

    assert len(issuer.requests) == 1
    assert f"the token endpoint {issuer.url} answers {status}" in str(raised.value)
    assert "invalid_client: no such\\nclient" in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_temporary_error_of_token_endpoint_is_retried(issuer: TokenEndpoint, status: int):
    issuer.answers = [(status, b""), (status, b""), granted()]
    assert claims_of(fetch(oidc(issuer)).text.reveal())["sub"] == "alice"
    assert len(issuer.requests) == 3


def test_failure_of_last_token_request_raises_connection_failed(issuer: TokenEndpoint):
    issuer.answers = [(503, b"<html>")]
    with pytest.raises(ConnectionFailed, match="answers 503"):
        fetch(oidc(issuer))
    assert len(issuer.requests) == ATTEMPTS_MOST


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b'{"access_token": 7}', b"<html>", b"\xff"])
def test_token_response_without_a_token_is_rejected(issuer: TokenEndpoint, body: bytes):
    issuer.answers = [(200, body)]
    with pytest.raises(AuthenticationFailed, match="returned no access_token in its answer"):
        fetch(oidc(issuer))


def test_unreachable_token_endpoint_raises_connection_failed(issuer: TokenEndpoint):
    options = oidc(issuer)
    options["sasl_oauthbearer_token_endpoint_url"] = "http://127.0.0.1:1/token"
    with pytest.raises(ConnectionFailed, match=r"is unreachable: .*refused"):
        fetch(options)


def test_token_endpoint_with_untrusted_certificate_never_gets_the_secret(issuer: TokenEndpoint, tmp_path: Path):
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    issuer.socket = context.wrap_socket(issuer.socket, server_side=True)
    issuer.answers = [granted()]
    options = oidc(issuer, sasl_oauthbearer_token_endpoint_url=issuer.url.replace("http:", "https:"))

    with pytest.raises(AuthenticationFailed, match=r"is not trusted: .*https\.ca\.location"):
        fetch(options)
    assert issuer.requests == []

    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    assert fetch({**options, "https_ca_location": str(tmp_path / "ca.pem")}).expires_ms
    pem = authority.cert_pem.bytes().decode()
    assert fetch({**options, "https_ca_pem": pem}).expires_ms


@pytest.mark.parametrize("option", ["https_ca_location", "ssl_ca_location"])
def test_error_for_unreadable_ca_file_names_path(option: str, tmp_path: Path):
    with pytest.raises(AuthenticationFailed, match=r"cannot read the CA certificates in .*none\.pem"):
        https_context(config(sasl_oauth_token_provider=jwt, **{option: str(tmp_path / "none.pem")}))


def test_jwt_assertion_is_signed_or_read_from_a_file(issuer: TokenEndpoint, tmp_path: Path):
    pytest.importorskip("joserfc")
    from joserfc.jwk import ECKey

    issuer.answers = [granted()]
    key = tmp_path / "key.pem"
    key.write_bytes(ECKey.generate_key("P-256").as_pem(private=True))
    signing = {
        "sasl_oauthbearer_token_endpoint_url": issuer.url,
        "sasl_oauthbearer_grant_type": "jwt-bearer",
        "sasl_oauthbearer_assertion_algorithm": "ES256",
        "sasl_oauthbearer_assertion_private_key_file": str(key),
        "sasl_oauthbearer_assertion_claim_iss": "me",
        "sasl_oauthbearer_assertion_claim_jti_include": True,
    }

    fetch(signing)

    (header, form) = issuer.requests[0]
    assert header is None
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    claims = claims_of(form["assertion"][0])
    assert claims["iss"] == "me"
    assert claims["exp"] - claims["nbf"] == 360
    assert claims["jti"]

    (tmp_path / "assertion").write_text("ready-made\n")
    fetch({**signing, "sasl_oauthbearer_assertion_file": str(tmp_path / "assertion")})
    assert issuer.requests[1][1]["assertion"] == ["ready-made"]

    key.write_text("no key")
    with pytest.raises(AuthenticationFailed, match="cannot sign with ES256"):
        fetch(signing)


# Renewal and cache of tokens


@pytest.mark.parametrize(
    ("lasts_s", "chance", "after_s"),
    [
        (3600, 0.0, 2880),
        (3600, 1.0, 3060),
        (900, 1.0, 600),  # the buffer moves the renewal to five minutes before the expiry
        (400, 0.0, 100),
        (365, 0.0, 65),
        (300, 0.0, 240),  # minimum period and buffer together exceed the lifetime, so both are ignored
    ],
)
def test_token_renewal_time_is_the_same_as_in_kafka(lasts_s: int, chance: float, after_s: int):
    made = config(sasl_oauth_token_provider=jwt)
    token = Token(Secret("t"), 1_000_000 + lasts_s * 1000, {})
    assert renewed_at_ms(made, token, 1_000_000, chance) == 1_000_000 + after_s * 1000


class Source:
    def __init__(self, *tokens: Token | KohortError) -> None:
        self.tokens = list(tokens)
        self.requests: list[str] = []

    async def __call__(self, host: str) -> Token:
        self.requests.append(host)
        await asyncio.sleep(0)
        token = self.tokens.pop(0)
        if isinstance(token, KohortError):
            raise token
        return token


def lasting(name: str, lasts_ms: int | None) -> Token:
    return Token(Secret(name), None if lasts_ms is None else wall_ms() + lasts_ms, {})


def with_cache(source: Source, story, *, admin_config: AdminConfig | None = None, **options: object) -> None:
    async def run() -> None:
        cache = TokenCache(admin_config or config(sasl_oauth_token_provider=jwt), source, **options)
        await story(cache)
        cache.close()

    asyncio.run(run())


def test_concurrent_and_later_logins_share_a_token():
    source = Source(lasting("one", 3_600_000))

    async def story(cache: TokenCache) -> None:
        found = await asyncio.gather(*(cache.token(host) for host in "abc"))
        assert {token.text.reveal() for token in found} == {"one"}
        assert (await cache.token("d")).text.reveal() == "one"

    with_cache(source, story)
    assert len(source.requests) == 1


def test_token_with_unknown_expiry_is_fetched_for_each_login():
    source = Source(lasting("one", None), lasting("two", None))

    async def story(cache: TokenCache) -> None:
        assert [(await cache.token("a")).text.reveal() for _ in range(2)] == ["one", "two"]

    with_cache(source, story)


def test_token_rejected_by_a_broker_is_not_used_again():
    source = Source(lasting("one", 3_600_000), lasting("two", 3_600_000))

    async def story(cache: TokenCache) -> None:
        await cache.token("a")
        cache.reject("a")
        assert (await cache.token("a")).text.reveal() == "two"

    with_cache(source, story)


def test_expired_token_is_rejected_and_fetched_again():
    source = Source(lasting("late", -40_000), lasting("good", 3_600_000))

    async def story(cache: TokenCache) -> None:
        with pytest.raises(AuthenticationFailed, match=r"expired 40 s ago by this machine.s clock"):
            await cache.token("a")
        assert (await cache.token("a")).text.reveal() == "good"

    with_cache(source, story)


def test_msk_token_is_cached_for_each_host():
    source = Source(lasting("one", 3_600_000), lasting("two", 3_600_000))

    async def story(cache: TokenCache) -> None:
        assert [(await cache.token(host)).text.reveal() for host in "aba"] == ["one", "two", "one"]

    with_cache(source, story, per_host=True)
    assert source.requests == ["a", "b"]


def test_error_of_token_fetch_fails_all_waiting_logins_but_not_the_next_login():
    source = Source(ConnectionFailed("no network"), lasting("one", 3_600_000))

    async def story(cache: TokenCache) -> None:
        failed = await asyncio.gather(cache.token("a"), cache.token("b"), return_exceptions=True)
        assert [str(error) for error in failed] == ["no network", "no network"]
        assert (await cache.token("a")).text.reveal() == "one"

    with_cache(source, story)


def test_valid_token_is_used_while_its_renewal_fails():
    source = Source(lasting("old", 3_600_000), *[ConnectionFailed("no network")] * 3)

    async def story(cache: TokenCache) -> None:
        await cache.token("a")
        assert [(await cache.token("a")).text.reveal() for _ in range(2)] == ["old", "old"]
        assert len(source.requests) > 1

    with_cache(source, story, admin_config=config(sasl_oauth_token_provider=jwt, **AT_ONCE))


AT_ONCE = {
    "sasl_login_refresh_window_factor": 0,
    "sasl_login_refresh_window_jitter": 0,
    "sasl_login_refresh_min_period_seconds": 0,
}
