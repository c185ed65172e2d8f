import datetime
import ssl

import pytest
import trustme

from kohort.aio.tls.failures import TlsTarget, of_broker
from support.security.tls_pair import TlsPair, client_context

NOW = datetime.datetime(2026, 5, 1, 12, 0, tzinfo=datetime.UTC)
TARGET = TlsTarget("broker.example", 9093, "ssl.ca.location=/etc/ca.pem", has_certificate=False)


def refusal_for(certificate, ca, host="broker.example", *, believed=True):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(server)
    client = client_context()
    if believed:
        ca.configure_trust(client)
    error = TlsPair(client, server, host).shake().failures["client"]
    shown = ssl.PEM_cert_to_DER_cert(certificate.cert_chain_pems[0].bytes().decode())
    return of_broker(error, TARGET, shown, NOW)


@pytest.fixture(scope="module")
def ca():
    return trustme.CA(organization_name="Signers")


def test_error_for_unknown_issuer_names_issuer_and_ca_option(ca):
    refusal = refusal_for(ca.issue_cert("broker.example", common_name="b"), ca, believed=False)
    assert refusal.is_lasting
    assert ",O=Signers, which is not among the CAs of ssl.ca.location=/etc/ca.pem" in refusal.message


def test_error_for_expired_certificate_has_expiry_date_and_current_date(ca):
    long_ago = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    certificate = ca.issue_cert("broker.example", not_before=long_ago, not_after=long_ago)
    words = refusal_for(certificate, ca).message
    assert words.endswith("expired on 2020-01-02 03:04:05 UTC; this machine's clock: 2026-05-01 12:00:00 UTC")


def test_error_for_not_yet_valid_certificate_has_its_start_date(ca):
    later = datetime.datetime(2090, 1, 1, tzinfo=datetime.UTC)
    certificate = ca.issue_cert("broker.example", not_before=later, not_after=later)
    assert (
        "is not valid until 2090-01-01 00:00:00 UTC; this machine's clock: 2026-05-01"
        in refusal_for(certificate, ca).message
    )


def test_error_for_wrong_host_name_lists_names_in_certificate(ca):
    words = refusal_for(ca.issue_cert("a.example", "b.example"), ca).message
    assert "is for a.example, b.example; the client connects to broker.example" in words
    many = [f"{n}.example" for n in range(1000)]
    assert "is for 0.example, 1.example, 2.example, 3.example, 4.example, ... (1000 in all); the client" in (
        refusal_for(ca.issue_cert(*many), ca).message
    )


def test_control_characters_in_certificate_names_are_escaped(ca):
    odd = ca.issue_cert("broker.example", common_name="a\nb\x1b[31m" + "x" * 40)
    words = refusal_for(odd, ca, believed=False).message
    assert words.isprintable()
    assert r"CN=a\nb\x1b[31m" in words


def test_tls_error_has_a_message_even_without_certificate_details(ca):
    error = ssl.SSLCertVerificationError(1, "no")
    for code in (9, 10, 18, 19, 20, 21, 62, 64, 99):
        error.verify_code, error.verify_message = code, "message"
        assert of_broker(error, TARGET, None, NOW).message.startswith("the broker's certificate")
        assert of_broker(error, TARGET, b"rubbish", NOW).is_lasting
