"""What a certificate says: for whom it is, who signed it, for which hosts, from when to when (X.509, RFC 5280).

A small reader of DER, for names and dates alone: whether a certificate is to be believed is OpenSSL's to decide. The
bytes may come from anybody, so whatever is wrong with them is a ProtocolError.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final, NamedTuple

from kohort.errors import ProtocolError

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_ID: Final = 0x06
OCTETS: Final = 0x04
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18
VERSION: Final = 0xA0
EXTENSIONS: Final = 0xA3
DNS_NAME: Final = 0x82
IP_ADDRESS: Final = 0x87
ALTERNATIVE_NAMES: Final = "2.5.29.17"
COMMON_NAME: Final = "2.5.4.3"
KEYWORDS: Final = {
    COMMON_NAME: "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that RFC 2253 has words for; others are written by their numbers."""
TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""Kinds of values that Java writes as text: UTF8, Printable, Teletex, IA5, General, BMP."""
ESCAPED: Final = frozenset(',+"\\<>;=#')
CENTURY_FROM: Final = 50
"""Two digits of a year below this are of the century after (RFC 5280, section 4.1.2.5.1)."""


class Element(NamedTuple):
    """One value of DER: its tag, what is in it, and all its bytes."""

    tag: int
    content: bytes
    whole: bytes


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is read of one."""

    subject: str
    """As Kafka writes it (protocol/security.md#names-in-certificates)."""
    issuer: str
    hosts: tuple[str, ...]
    """Names and addresses that it is for; without any, the common names of its subject, which nobody believes."""
    not_before: datetime
    not_after: datetime


def read_certificate(der: bytes) -> Certificate:
    """Read one. Raises ProtocolError."""
    try:
        return _read(der)
    except (ValueError, StopIteration, IndexError) as error:
        raise ProtocolError(str(error) or "it ends too early", "certificate") from None


def subject_name(der: bytes) -> str:
    """Return for whom a certificate is, as Java's ``X500Principal.getName`` does. Raises ProtocolError."""
    return read_certificate(der).subject


def _read(der: bytes) -> Certificate:
    body = _elements(_first(der, SEQUENCE).content)
    fields = list(_elements(next(body).content))
    if fields and fields[0].tag == VERSION:
        del fields[0]
    _, _, issuer, validity, subject, *rest = fields
    not_before, not_after = map(_time, _elements(validity.content))
    hosts = [host for field in rest if field.tag == EXTENSIONS for host in _hosts(field)]
    if not hosts:
        hosts = [_text(value) for oid, value in _attributes(subject) if oid == COMMON_NAME]
    return Certificate(_name(subject), _name(issuer), tuple(hosts), not_before, not_after)


def _elements(data: bytes) -> Iterator[Element]:
    at = 0
    while at < len(data):
        tag, length, begin = data[at], data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4:
                raise ValueError(f"a length of {count} bytes")
            length = int.from_bytes(data[begin : begin + count], "big")
            begin += count
        end = begin + length
        if end > len(data):
            raise ValueError("it ends too early")
        yield Element(tag, data[begin:end], data[at:end])
        at = end


def _first(data: bytes, tag: int) -> Element:
    element = next(_elements(data))
    if element.tag != tag:
        raise ValueError(f"tag {element.tag:#04x} instead of {tag:#04x}")
    return element


def _object_id(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    top = min(numbers[0] // 40, 2)
    return ".".join(map(str, [top, numbers[0] - 40 * top, *numbers[1:]]))


def _time(element: Element) -> datetime:
    text = element.content.decode("ascii").removesuffix("Z")
    if element.tag == UTC_TIME:
        text = ("20" if int(text[:2]) < CENTURY_FROM else "19") + text
    elif element.tag != GENERALIZED_TIME:
        raise ValueError(f"tag {element.tag:#04x} instead of a time")
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _hosts(extensions: Element) -> Iterator[str]:
    for extension in _elements(_first(extensions.content, SEQUENCE).content):
        oid, *_, value = _elements(extension.content)
        if _object_id(oid.content) != ALTERNATIVE_NAMES:
            continue
        for name in _elements(_first(value.content, SEQUENCE).content):
            if name.tag == DNS_NAME:
                yield name.content.decode("utf-8", "replace")
            elif name.tag == IP_ADDRESS:
                yield str(ip_address(name.content))


def _attributes(name: Element) -> Iterator[tuple[str, Element]]:
    for relative in _elements(name.content):
        for attribute in _elements(relative.content):
            oid, value = _elements(attribute.content)
            yield _object_id(oid.content), value


def _name(name: Element) -> str:
    """Write a name as in RFC 2253: the last part first."""
    parts = []
    for relative in _elements(name.content):
        attributes = [tuple(_elements(attribute.content)) for attribute in _elements(relative.content)]
        parts.append("+".join(_attribute(_object_id(oid.content), value) for oid, value in attributes))
    return ",".join(reversed(parts))


def _attribute(oid: str, value: Element) -> str:
    keyword = KEYWORDS.get(oid)
    if keyword is None or value.tag not in TEXTS:
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(_text(value))}"


def _text(value: Element) -> str:
    return value.content.decode("utf-8", "replace")


def _escaped(text: str) -> str:
    stripped = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(stripped)
    middle = "".join(f"\\{c}" if c in ESCAPED else "\\00" if c == "\0" else c for c in stripped)
    return "\\ " * before + middle + "\\ " * after
