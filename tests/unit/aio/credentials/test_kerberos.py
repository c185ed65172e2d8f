"""GSSAPI against a realm of its own, where the packages gssapi and k5test and MIT's programs are installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.aio.credentials.kerberos import KerberosClient
from kohort.client.requests.credentials import Credentials
from kohort.errors import AuthenticationFailed
from support.security.kerberos_realm import Realm, kerberos_realm

OFFER = b"\x01\x00\x01\x00"
"""What a broker of Kafka's offers: no security layer."""


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
    """Play the broker (RFC 4752); return the client's last word, and who it is."""
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
    """In which words a client with these is let in nowhere."""
    with pytest.raises(AuthenticationFailed) as caught:
        KerberosClient(own, "localhost").first()
    words = str(caught.value)
    assert words.startswith(f"Kerberos login at {own.service}/localhost failed: ")
    assert "\n" not in words
    assert "Minor (" not in words
    return words


@pytest.mark.parametrize("principal", ["alice", ""])
def test_a_keytab_logs_its_principal_in_whoever_has_a_ticket_here(realm: Realm, alice: str, principal: str):
    client = KerberosClient(credentials(principal, alice), "localhost")
    name = f"alice@{realm.name}"

    assert log_in(client, realm) == (b"\x01\x00\x00\x00" + name.encode(), name)
    assert client.is_complete


def test_without_a_keytab_the_ticket_of_the_user_is_taken(realm: Realm):
    _, name = log_in(KerberosClient(credentials(), "localhost"), realm)
    assert name == realm.user


def test_a_service_that_nobody_knows_is_told_with_the_options_that_name_it(alice: str):
    words = refusal(credentials(keytab=alice, service="nobody"))
    assert "not found in Kerberos database; sasl.kerberos.service.name and" in words


def test_a_keytab_that_is_no_use_says_what_is_wrong_with_it(realm: Realm, alice: str, tmp_path: Path):
    text = tmp_path / "text.keytab"
    text.write_text("hello")

    assert "sasl.kerberos.keytab: file /nowhere is missing" in refusal(credentials(keytab="/nowhere"))
    assert f"{text} is empty or not a keytab" in refusal(credentials(keytab=str(text)))
    other = refusal(credentials("mallory", alice))
    assert f"{alice}: No key table entry found for mallory@{realm.name}" in other


def test_a_keytab_with_an_old_key_is_to_be_written_anew(realm: Realm):
    keytab = realm.add("moved")
    realm.change_key("moved")
    assert "current one: write it again" in refusal(credentials("moved", str(keytab)))


def test_no_ticket_and_one_that_has_expired_are_to_be_renewed(
    realm: Realm, alice: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    del alice  # the principal is there
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "nothing"))
    assert "No Kerberos credentials available" in refusal(credentials())
    monkeypatch.setenv("KRB5CCNAME", str(realm.expired_ticket("alice", "secret")))
    assert "Ticket expired; get a ticket with kinit, or set sasl.kerberos.keytab" in refusal(credentials())


def test_a_kdc_that_is_not_there_is_told_with_where_it_stands(realm: Realm):
    keytab = realm.add("early")
    with realm.without_kdc():
        assert f"Cannot contact any KDC for realm '{realm.name}'" in refusal(credentials("early", str(keytab)))
    assert log_in(KerberosClient(credentials("early", str(keytab)), "localhost"), realm)[1] == f"early@{realm.name}"


def test_a_broker_that_wants_to_seal_data_is_refused(realm: Realm):
    with pytest.raises(AuthenticationFailed, match="requires a security layer"):
        log_in(KerberosClient(credentials(), "localhost"), realm, b"\x04\x00\x01\x00")
