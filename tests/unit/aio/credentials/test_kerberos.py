from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.aio.credentials.kerberos import KerberosClient
from kohort.client.requests.credentials import Credentials
from kohort.errors import AuthenticationFailed
from support.security.kerberos_realm import Realm, kerberos_realm

OFFER = b"\x01\x00\x01\x00"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with kerberos_realm(tmp_path_factory.mktemp("realm")) as made:
        keytab = made.add("kafka/localhost")
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("KRB5_KTNAME", str(keytab))
            yield made


@pytest.fixture(scope="module")
def alice(realm: Realm) -> str:
    return str(realm.add("alice", "secret"))


def credentials(principal: str = "", keytab: str = "", service: str = "kafka") -> Credentials:
    return Credentials("GSSAPI", service=service, principal=principal, keytab=keytab)


def log_in(client: KerberosClient, realm: Realm, offer: bytes = OFFER) -> tuple[bytes, str]:
    import gssapi

    name = gssapi.Name(f"kafka/localhost@{realm.name}", gssapi.NameType.kerberos_principal)
    server = gssapi.SecurityContext(creds=gssapi.Credentials(usage="accept", name=name), usage="accept")
    token = client.first()
    while not server.complete:
        token = client.next(server.step(token) or b"")
    assert token == b""
    last = client.next(server.wrap(offer, False).message)
    assert client.next(b"") is None
    return server.unwrap(last).message, str(server.initiator_name)


def refusal(own: Credentials) -> str:
    with pytest.raises(AuthenticationFailed) as caught:
        KerberosClient(own, "localhost").first()
    words = str(caught.value)
    assert words.startswith(f"Kerberos login at {own.service}/localhost failed: ")
    assert "\n" not in words
    assert "Minor (" not in words
    return words


@pytest.mark.parametrize("principal", ["alice", ""])
def test_kerberos_login_with_keytab_ignores_ticket_cache_of_user(realm: Realm, alice: str, principal: str):
    client = KerberosClient(credentials(principal, alice), "localhost")
    name = f"alice@{realm.name}"

    assert log_in(client, realm) == (b"\x01\x00\x00\x00" + name.encode(), name)
    assert client.is_complete


def test_kerberos_login_without_keytab_uses_ticket_of_user(realm: Realm):
    _, name = log_in(KerberosClient(credentials(), "localhost"), realm)
    assert name == realm.user


def test_error_for_unknown_kerberos_service_names_options(alice: str):
    words = refusal(credentials(keytab=alice, service="nobody"))
    assert "not found in Kerberos database; check sasl.kerberos.service.name and" in words


def test_error_for_unusable_keytab_names_file_and_problem(realm: Realm, alice: str, tmp_path: Path):
    text = tmp_path / "text.keytab"
    text.write_text("hello")

    assert "sasl.kerberos.keytab: file /nowhere is missing" in refusal(credentials(keytab="/nowhere"))
    assert f"{text} is empty or not a keytab" in refusal(credentials(keytab=str(text)))
    other = refusal(credentials("mallory", alice))
    assert f"{alice}: No key table entry found for mallory@{realm.name}" in other


def test_error_for_outdated_keytab_advises_a_new_keytab(realm: Realm):
    keytab = realm.add("moved")
    realm.change_key("moved")
    assert "current one: write it again" in refusal(credentials("moved", str(keytab)))


def test_error_for_missing_or_expired_kerberos_ticket_advises_kinit(
    realm: Realm, alice: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    del alice
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "nothing"))
    assert "No Kerberos credentials available" in refusal(credentials())
    monkeypatch.setenv("KRB5CCNAME", str(realm.expired_ticket("alice", "secret")))
    assert "Ticket expired; get a ticket with kinit, or set sasl.kerberos.keytab" in refusal(credentials())


def test_error_for_unreachable_kdc_names_realm(realm: Realm):
    keytab = realm.add("early")
    with realm.without_kdc():
        assert f"Cannot contact any KDC for realm '{realm.name}'" in refusal(credentials("early", str(keytab)))
    assert log_in(KerberosClient(credentials("early", str(keytab)), "localhost"), realm)[1] == f"early@{realm.name}"


def test_kerberos_client_rejects_broker_that_requires_a_security_layer(realm: Realm):
    with pytest.raises(AuthenticationFailed, match="requires a security layer"):
        log_in(KerberosClient(credentials(), "localhost"), realm, b"\x04\x00\x01\x00")
