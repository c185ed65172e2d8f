"""What went wrong with TLS, in words that say what to do: from OpenSSL's reasons, and from the certificate shown."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from kohort.errors import MissingExtra, ProtocolError
from kohort.notes import one_line
from kohort.security.certificates import Certificate, read_certificate

EXPIRED: Final = 10
NOT_YET_VALID: Final = 9
UNKNOWN_ISSUER: Final = frozenset({2, 18, 19, 20, 21, 24})
"""OpenSSL's numbers (X509_V_ERR_...): no issuer found, or one that signed itself and is not among those believed."""
OTHER_HOST: Final = frozenset({62, 64})
NAME_MAX_CHARS: Final = 200
HOSTS_MAX: Final = 5
"""How much of a stranger's certificate is told."""
PLAINTEXT_REASONS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"})
PROTOCOLS: Final = "set security.protocol=PLAINTEXT or SASL_PLAINTEXT, or take another port"

OF_CLIENTS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and ssl.client.auth=required",
    "NO_SHARED_CIPHER": "it has no cipher in common with the listener (ssl.cipher.suites)",
    "UNSUPPORTED_PROTOCOL": "it speaks no version of TLS that the listener does (ssl.enabled.protocols)",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks no version of TLS that the listener does (ssl.enabled.protocols)",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know who signed the listener's certificate: give it that authority"
    " (ssl.ca.location, ssl.truststore.location)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept the listener's certificate: it may not know who signed it"
    " (ssl.truststore.location), or want it for another host",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept the listener's certificate, which may be for another host than"
    " the one that it asked for",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it takes the listener's certificate for expired",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it finds no cipher or certificate that both sides take",
}

WANTS_CERTIFICATE: Final = (
    "the broker wants a certificate of this client: set ssl.certificate.location and ssl.key.location"
    " (or ssl.keystore.location)"
)
OF_BROKERS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": WANTS_CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": "the broker does not know who signed this client's certificate"
    " (its listener's ssl.truststore.location)",
    "TLSV1_ALERT_ACCESS_DENIED": "the broker refuses this client's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the broker takes this client's certificate for expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the broker takes this client's certificate for revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the broker does not accept this client's certificate",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the broker does not accept this kind of client certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the broker speaks no version of TLS that this client does (ssl.enabled.protocols)",
    "UNSUPPORTED_PROTOCOL": "the broker speaks no version of TLS that this client does (ssl.enabled.protocols)",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": "the broker has no cipher in common with this client (ssl.cipher.suites)",
    "TLSV1_ALERT_INTERNAL_ERROR": "the broker broke off the TLS handshake (internal error): its log says why",
}


@dataclass(frozen=True, slots=True)
class BrokerAsked:
    """What a client asked for and with what: for the words of its failures."""

    host: str
    port: int
    authorities: str
    """Where the authorities are from that it believes: ``ssl.ca.location=/etc/ca.pem``."""
    has_certificate: bool


@dataclass(frozen=True, slots=True)
class TlsRefusal(Exception):
    """A client's TLS failed. ``is_lasting``: no further try mends it."""

    words: str
    is_lasting: bool

    def __str__(self) -> str:
        return self.words


def of_client(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == EXPIRED:
            return "its certificate has expired"
        if error.verify_code in UNKNOWN_ISSUER:
            return "its certificate is not signed by an authority of ssl.truststore.location"
        return f"its certificate is refused: {error.verify_message}"
    return OF_CLIENTS.get(error.reason or "") or f"the TLS handshake failed: {_plain(error)}"


def of_broker(
    error: ssl.SSLError, asked: BrokerAsked, shown: bytes | None = None, now: datetime | None = None
) -> TlsRefusal:
    """Say why a broker was not reached by TLS; ``shown`` is the certificate that it shows, where that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsRefusal(_of_certificate(error, asked, _read(shown), now or datetime.now(UTC)), is_lasting=True)
    reason = error.reason or ""
    if reason in PLAINTEXT_REASONS:
        return speaks_no_tls()
    if reason == "SSLV3_ALERT_BAD_CERTIFICATE":
        words = "the broker does not accept this client's certificate" if asked.has_certificate else WANTS_CERTIFICATE
        return TlsRefusal(words, is_lasting=True)
    if reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
        words = "the broker has no cipher in common with this client (ssl.cipher.suites)"
        return TlsRefusal(words if asked.has_certificate else f"{words}, or {WANTS_CERTIFICATE}", is_lasting=True)
    words = OF_BROKERS.get(reason, "")
    return TlsRefusal(words or f"TLS failed: {_plain(error)}", is_lasting=bool(words))


def speaks_no_tls(how: str = "", *, is_lasting: bool = True) -> TlsRefusal:
    return TlsRefusal(f"it does not speak TLS{how}: {PROTOCOLS}", is_lasting=is_lasting)


def _of_certificate(
    error: ssl.SSLCertVerificationError, asked: BrokerAsked, shown: Certificate | None, now: datetime
) -> str:
    code = error.verify_code
    whose = f"the broker's certificate ({shown.subject or 'without a name'})" if shown else "the broker's certificate"
    if code == EXPIRED:
        if shown is None or shown.not_after >= now:
            return f"{whose}, or one that it is signed by, has expired; this clock says {_date(now)}"
        return f"{whose} expired on {_date(shown.not_after)}; this clock says {_date(now)}"
    if code == NOT_YET_VALID:
        since = f" until {_date(shown.not_before)}" if shown else ""
        return f"{whose} is not valid{since}; this clock says {_date(now)}"
    if code in UNKNOWN_ISSUER:
        signer = f" was signed by {shown.issuer or 'nobody with a name'}, which" if shown else " was signed by who"
        if shown and shown.issuer == shown.subject:
            signer = " was signed by nobody else, and it"
        return f"{whose}{signer} is not among the authorities of {asked.authorities}: give its file in ssl.ca.location"
    if code in OTHER_HOST:
        hosts = f" is for {', '.join(shown.hosts) or 'no host at all'}" if shown else " is for other hosts"
        return (
            f"{whose}{hosts}; asked for {asked.host}: connect by a name that it is for, have it made for this one, or"
            " set ssl.endpoint.identification.algorithm=none"
        )
    return f"{whose} is refused: {error.verify_message}"


def _read(shown: bytes | None) -> Certificate | None:
    """Read a certificate that nobody has checked, for words that people read."""
    try:
        found = None if shown is None else read_certificate(shown)
    except (ProtocolError, MissingExtra):
        return None
    if found is None:
        return None
    hosts = [one_line(host, NAME_MAX_CHARS) for host in found.hosts[:HOSTS_MAX]]
    if len(found.hosts) > HOSTS_MAX:
        hosts.append(f"... ({len(found.hosts)} in all)")
    subject, issuer = one_line(found.subject, NAME_MAX_CHARS), one_line(found.issuer, NAME_MAX_CHARS)
    return replace(found, subject=subject, issuer=issuer, hosts=tuple(hosts))


def _plain(error: ssl.SSLError) -> str:
    return (error.reason or type(error).__name__).lower().replace("_", " ")


def _date(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
