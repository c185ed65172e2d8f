"""Error messages with advice for failed TLS connections, from OpenSSL's reason codes and the peer's certificate."""

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
"""OpenSSL's error numbers (X509_V_ERR_...) for unknown issuers and untrusted self-signed certificates."""
OTHER_HOST: Final = frozenset({62, 64})
NAME_MAX_CHARS: Final = 200
HOSTS_MAX: Final = 5
PLAINTEXT_REASONS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"})
PROTOCOLS: Final = "set security.protocol=PLAINTEXT or SASL_PLAINTEXT, or use another port"

OF_CLIENTS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, but ssl.client.auth=required",
    "NO_SHARED_CIPHER": "client and listener have no common cipher suite (ssl.cipher.suites)",
    "UNSUPPORTED_PROTOCOL": "client and listener have no common TLS version (ssl.enabled.protocols)",
    "TLSV1_ALERT_PROTOCOL_VERSION": "client and listener have no common TLS version (ssl.enabled.protocols)",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the issuer of the listener's certificate: add the CA"
    " to the client (ssl.ca.location, ssl.truststore.location)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client rejects the listener's certificate: its issuer may be unknown"
    " (ssl.truststore.location), or the host name wrong",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client rejects the listener's certificate: its host name may be wrong",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client considers the listener's certificate expired",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "client and listener have no common cipher suite or certificate type",
}

WANTS_CERTIFICATE: Final = (
    "the broker requires a client certificate: set ssl.certificate.location and ssl.key.location"
    " (or ssl.keystore.location)"
)
OF_BROKERS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": WANTS_CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": "the broker does not trust the issuer of this client's certificate"
    " (its listener's ssl.truststore.location)",
    "TLSV1_ALERT_ACCESS_DENIED": "the broker refuses this client's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the broker considers this client's certificate expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the broker considers this client's certificate revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the broker rejects this client's certificate",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the broker does not support this type of client certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "broker and client have no common TLS version (ssl.enabled.protocols)",
    "UNSUPPORTED_PROTOCOL": "broker and client have no common TLS version (ssl.enabled.protocols)",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": "broker and client have no common cipher suite (ssl.cipher.suites)",
    "TLSV1_ALERT_INTERNAL_ERROR": "the broker aborted the TLS handshake (internal error): see its log",
}


@dataclass(frozen=True, slots=True)
class TlsTarget:
    """Broker address and TLS options of a client's connection, as named in error messages."""

    host: str
    port: int
    authorities: str
    """Source of the trusted CAs, such as ``ssl.ca.location=/etc/ca.pem``."""
    has_certificate: bool


@dataclass(frozen=True, slots=True)
class TlsRefusal(Exception):
    """Error of a client's failed TLS connection. ``is_lasting`` is True if retries cannot succeed."""

    message: str
    is_lasting: bool

    def __str__(self) -> str:
        return self.message


def of_client(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == EXPIRED:
            return "its certificate has expired"
        if error.verify_code in UNKNOWN_ISSUER:
            return "its certificate is not signed by a CA in ssl.truststore.location"
        return f"its certificate is invalid: {error.verify_message}"
    return OF_CLIENTS.get(error.reason or "") or f"the TLS handshake failed: {_plain(error)}"


def of_broker(
    error: ssl.SSLError, target: TlsTarget, shown: bytes | None = None, now: datetime | None = None
) -> TlsRefusal:
    """Convert an OpenSSL error of a client's connection to a TlsRefusal. ``shown`` is the broker's certificate."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsRefusal(_of_certificate(error, target, _read(shown), now or datetime.now(UTC)), is_lasting=True)
    reason = error.reason or ""
    if reason in PLAINTEXT_REASONS:
        return no_tls_error()
    if reason == "SSLV3_ALERT_BAD_CERTIFICATE":
        message = "the broker rejects this client's certificate" if target.has_certificate else WANTS_CERTIFICATE
        return TlsRefusal(message, is_lasting=True)
    if reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
        message = "broker and client have no common cipher suite (ssl.cipher.suites)"
        return TlsRefusal(message if target.has_certificate else f"{message}, or {WANTS_CERTIFICATE}", is_lasting=True)
    message = OF_BROKERS.get(reason, "")
    return TlsRefusal(message or f"TLS failed: {_plain(error)}", is_lasting=bool(message))


def no_tls_error(problem: str = "the server does not use TLS", *, is_lasting: bool = True) -> TlsRefusal:
    return TlsRefusal(f"{problem}: {PROTOCOLS}", is_lasting=is_lasting)


def _of_certificate(
    error: ssl.SSLCertVerificationError, target: TlsTarget, shown: Certificate | None, now: datetime
) -> str:
    code = error.verify_code
    certificate = "the broker's certificate"
    if shown:
        certificate += f" ({shown.subject or 'without a name'})"
    if code == EXPIRED:
        if shown is None or shown.not_after >= now:
            return f"{certificate}, or a certificate of its chain, has expired; this machine's clock: {_date(now)}"
        return f"{certificate} expired on {_date(shown.not_after)}; this machine's clock: {_date(now)}"
    if code == NOT_YET_VALID:
        since = f" until {_date(shown.not_before)}" if shown else ""
        return f"{certificate} is not valid{since}; this machine's clock: {_date(now)}"
    if code in UNKNOWN_ISSUER:
        signer = " was signed by a CA that"
        if shown:
            signer = f" was signed by {shown.issuer or 'a CA without a name'}, which"
        if shown and shown.issuer == shown.subject:
            signer = " is self-signed and"
        return f"{certificate}{signer} is not among the CAs of {target.authorities}: set its file in ssl.ca.location"
    if code in OTHER_HOST:
        hosts = f" is for {', '.join(shown.hosts) or 'no host'}" if shown else " is for other hosts"
        return (
            f"{certificate}{hosts}; the client connects to {target.host}: use a host name of the certificate, renew"
            " it for this host, or set ssl.endpoint.identification.algorithm=none"
        )
    return f"{certificate} is invalid: {error.verify_message}"


def _read(shown: bytes | None) -> Certificate | None:
    """Parse an unverified certificate for error messages, and shorten its names."""
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
