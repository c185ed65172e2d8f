"""GSSAPI against a realm of its own, where the packages gssapi and k5test and MIT's programs are installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from kohort.aio.credentials.kerberos import KerberosClient
from kohort.client.requests.credentials import Credentials
from kohort.errors import AuthenticationFailed

gssapi = pytest.importorskip("gssapi")
k5test = pytest.importorskip("k5test")
pytestmark = pytest.mark.skipif(shutil.which("krb5kdc") is None, reason="needs MIT Kerberos: krb5kdc, kadmin.local")
OFFER = b"\x01\x00\x01\x00"
"""What a broker of Kafka's offers: no security layer."""


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    made = k5test.K5Realm()
    with pytest.MonkeyPatch.context() as environment:
        for name, value in made.env.items():
            environment.setenv(name, value)
        made.addprinc(f"kafka/localhost@{made.realm}")
        made.extract_keytab(f"kafka/localhost@{made.realm}", made.keytab)
        made.addprinc(f"alice@{made.realm}", "secret")
        made.alice = str(tmp_path_factory.mktemp("keys") / "alice.keytab")
        made.extract_keytab(f"alice@{made.realm}", made.alice)
        yield made
        made.stop()


def log_in(client: KerberosClient, realm: Any, offer: bytes = OFFER) -> tuple[bytes, str]:
    """Play the broker (RFC 4752); return the client's last word, and who it is."""
    name = gssapi.Name(f"kafka/localhost@{realm.realm}", gssapi.NameType.kerberos_principal)
    server = gssapi.SecurityContext(creds=gssapi.Credentials(usage="accept", name=name), usage="accept")
    token = client.first()
    while not server.complete:
        token = client.next(server.step(token) or b"")
    assert token == b""
    last = client.next(server.wrap(offer, False).message)
    assert client.next(b"") is None
    return server.unwrap(last).message, str(server.initiator_name)


@pytest.mark.parametrize("principal", ["alice", ""])
def test_a_keytab_logs_its_principal_in_whoever_has_a_ticket_here(realm: Any, principal: str):
    own = Credentials("GSSAPI", service="kafka", principal=principal, keytab=realm.alice)
    client = KerberosClient(own, "localhost")
    alice = f"alice@{realm.realm}"

    assert log_in(client, realm) == (b"\x01\x00\x00\x00" + alice.encode(), alice)
    assert client.is_complete


def test_without_a_keytab_the_ticket_of_the_user_is_taken(realm: Any):
    _, name = log_in(KerberosClient(Credentials("GSSAPI", service="kafka"), "localhost"), realm)
    assert name == realm.user_princ


def test_what_kerberos_refuses_is_told_in_its_words_and_ours(realm: Any):
    unknown = Credentials("GSSAPI", service="nobody", keytab=realm.alice)
    with pytest.raises(AuthenticationFailed, match=r"talk to nobody/localhost: .*not found in Kerberos database"):
        KerberosClient(unknown, "localhost").first()
    with pytest.raises(AuthenticationFailed, match="talk to kafka/localhost"):
        KerberosClient(Credentials("GSSAPI", service="kafka", keytab="/nowhere"), "localhost").first()


def test_a_broker_that_wants_to_seal_data_is_refused(realm: Any):
    client = KerberosClient(Credentials("GSSAPI", service="kafka"), "localhost")
    with pytest.raises(AuthenticationFailed, match="wants a security layer"):
        log_in(client, realm, b"\x04\x00\x01\x00")
