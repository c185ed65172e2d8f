from __future__ import annotations

import asyncio
import hashlib

import pytest

from kohort.aio.credentials.logins import Logins
from kohort.client.requests.credentials import credentials_of
from kohort.client.requests.io import RequestToken, TokenReady
from kohort.config.client import AdminConfig
from kohort.config.client_options import client_config
from kohort.errors import AuthenticationFailed, KohortError, MissingExtra
from kohort.security.sasl.scram import ScramServer, credential_of

PASSWORD = "planted-secret"


def answers_to(challenges: list[bytes | None], **options: object) -> list[TokenReady]:
    all_options = {"bootstrap_servers": "a:1", "security_protocol": "SASL_SSL", **options}
    config = client_config(AdminConfig, None, all_options)
    credentials = credentials_of(config)
    assert credentials is not None
    answers: list[TokenReady] = []

    async def run() -> None:
        ready = asyncio.Event()

        def answer(token: TokenReady) -> None:
            answers.append(token)
            ready.set()

        logins = Logins(config, credentials, answer)
        for challenge in challenges:
            ready.clear()
            logins.want(RequestToken(1, "broker", challenge))
            await asyncio.wait_for(ready.wait(), 20)
        logins.close()

    asyncio.run(run())
    return answers


def by_password(mechanism: str) -> dict[str, object]:
    return {"sasl_mechanism": mechanism, "sasl_username": "alice", "sasl_password": PASSWORD}


def test_sasl_plain_login_sends_one_token():
    assert answers_to([None, b""], **by_password("PLAIN")) == [
        TokenReady(1, f"\0alice\0{PASSWORD}".encode(), "user 'alice'"),
        TokenReady(1, None, "user 'alice'"),
    ]


def test_scram_login_hashes_password_in_a_thread_and_verifies_broker():
    salted = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), b"salt", 4096)
    kept = credential_of("sha512", b"salt", 4096, salted)
    server = ScramServer("SCRAM-SHA-512", lambda _: kept, "nonce")
    config = client_config(
        AdminConfig, None, {"bootstrap_servers": "a:1", "security_protocol": "SASL_SSL", **by_password("SCRAM-SHA-512")}
    )
    credentials = credentials_of(config)

    async def run() -> TokenReady:
        answers: asyncio.Queue[TokenReady] = asyncio.Queue()
        logins = Logins(config, credentials, answers.put_nowait)
        challenge = None
        for _ in range(3):
            logins.want(RequestToken(1, "broker", challenge))
            ready = await answers.get()
            if isinstance(ready.token, bytes):
                challenge = server.evaluate(ready.token, 0)
        return ready

    assert asyncio.run(run()) == TokenReady(1, None, "user 'alice'")


@pytest.mark.parametrize("challenge", [b"", b"junk", b"\xff", b"r=x,s=,i=1", b"e=other-error"])
def test_unexpected_sasl_challenge_fails_the_login(challenge: bytes):
    (_, failed) = answers_to([None, challenge], **by_password("SCRAM-SHA-256"))
    assert isinstance(failed.token, AuthenticationFailed)
    assert PASSWORD not in str(failed.token)


def test_error_for_kerberos_login_without_gssapi_names_package():
    try:
        import gssapi  # noqa: F401
    except ImportError:
        (failed,) = answers_to([None], sasl_mechanism="GSSAPI")
        assert isinstance(failed.token, MissingExtra)
        assert "sasl.mechanism=GSSAPI needs the package gssapi: pip install 'kohort[kerberos]'" in str(failed.token)


def test_closed_connection_gets_no_sasl_token():
    config = client_config(
        AdminConfig, None, {"bootstrap_servers": "a:1", "security_protocol": "SASL_SSL", **by_password("PLAIN")}
    )
    credentials = credentials_of(config)

    async def run() -> None:
        answers: asyncio.Queue[TokenReady] = asyncio.Queue()
        logins = Logins(config, credentials, answers.put_nowait)
        logins.want(RequestToken(1, "broker", None))
        logins.forget(1)
        logins.want(RequestToken(2, "broker", None))
        assert (await answers.get()).connection == 2
        assert answers.empty()

    asyncio.run(run())


def test_login_fails_with_error_of_token_callback():
    def sealed() -> str:
        raise LookupError("the vault is sealed")

    (failed,) = answers_to([None], sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=sealed)
    assert isinstance(failed.token, KohortError)
    assert "the vault is sealed" in str(failed.token)
