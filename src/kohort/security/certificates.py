"""Subject, issuer, hosts and validity of X.509 certificates, read by ``cryptography`` (the extra ``security``).

OpenSSL alone decides whether a certificate is trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from kohort.errors import ProtocolError
from kohort.extras import needs

if TYPE_CHECKING:
    from cryptography import x509

EXTRA: Final = "security"
KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Names of attributes in RFC 2253; the name of any other attribute is its object identifier."""
TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""ASN.1 tags of values that Java writes as text: UTF8, Printable, Teletex, IA5, General, BMP."""
WIDE: Final = {0x1C: "utf-32-be", 0x1E: "utf-16-be"}
"""ASN.1 tags of strings that are not UTF-8: Universal and BMP."""
ESCAPED: Final = frozenset(',+"\\<>;=#')


@dataclass(frozen=True, slots=True)
class Certificate:
    subject: str
    """Subject in Kafka's format (protocol/security.md#names-in-certificates)."""
    issuer: str
    hosts: tuple[str, ...]
    """Subject alternative names (DNS names, addresses); without them the common names, which clients do not accept."""
    not_before: datetime
    not_after: datetime


def check_reader(purpose: str) -> None:
    """Raise MissingExtra if ``cryptography`` is not installed."""
    with needs(EXTRA, purpose):
        import cryptography.x509  # noqa: F401


def read_certificate(der: bytes) -> Certificate:
    """Parse a certificate. Raises ProtocolError, MissingExtra."""
    check_reader("reading a certificate")
    from cryptography import x509

    unreadable = (ValueError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)
    try:
        found = x509.load_der_x509_certificate(der)
        subject, issuer = _name(found.subject), _name(found.issuer)
        return Certificate(subject, issuer, _hosts(found), found.not_valid_before_utc, found.not_valid_after_utc)
    except unreadable as error:
        raise ProtocolError(str(error) or "malformed", "certificate") from None


def subject_name(der: bytes) -> str:
    """Return the subject in the format of Java's ``X500Principal.getName``. Raises ProtocolError, MissingExtra."""
    return read_certificate(der).subject


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return tuple(_text(attribute) for attribute in common)
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def _name(name: x509.Name) -> str:
    """Return a name in the format of RFC 2253, which begins with the last part."""
    return ",".join("+".join(map(_attribute, part)) for part in reversed(name.rdns))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    oid, tag = attribute.oid.dotted_string, attribute._type.value
    keyword = KEYWORDS.get(oid)
    if keyword is not None and tag in TEXTS:
        return f"{keyword}={_escaped(_text(attribute))}"
    return f"{keyword or oid}=#{_der(tag, attribute.value).hex()}"


def _der(tag: int, value: str | bytes) -> bytes:
    content = value if isinstance(value, bytes) else value.encode(WIDE.get(tag, "utf-8"))
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _text(attribute: x509.NameAttribute[str | bytes]) -> str:
    value = attribute.value
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _escaped(text: str) -> str:
    stripped = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(stripped)
    middle = "".join(f"\\{c}" if c in ESCAPED else "\\00" if c == "\0" else c for c in stripped)
    return "\\ " * before + middle + "\\ " * after
