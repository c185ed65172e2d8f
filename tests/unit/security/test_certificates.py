"""Certificate fields in Java's format, and malformed certificates."""

import contextlib
import datetime
import random
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type as Kind
from cryptography.x509.oid import NameOID as N

from kohort.errors import ProtocolError
from kohort.security.certificates import read_certificate

KEY = ec.generate_private_key(ec.SECP256R1())
FROM = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
UNTIL = datetime.datetime(2053, 5, 18, 1, 2, 3, tzinfo=datetime.UTC)


def part(*attributes):
    return x509.RelativeDistinguishedName([x509.NameAttribute(*attribute) for attribute in attributes])


def certificate(*parts, hosts=()):
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(parts))
        .issuer_name(x509.Name([part((N.COMMON_NAME, "ca"))]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(FROM)
        .not_valid_after(UNTIL)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("parts", "subject"),  # as java.security.cert.X509Certificate writes them
    [
        ([part((N.COMMON_NAME, "alice")), part((N.ORGANIZATIONAL_UNIT_NAME, "eng")),
          part((N.ORGANIZATION_NAME, "Kohort")), part((N.COUNTRY_NAME, "DE"))], "C=DE,O=Kohort,OU=eng,CN=alice"),
        ([part((N.COMMON_NAME, 'a,b+c"d\\e<f>g;h=i#j/k'))], r"CN=a\,b\+c\"d\\e\<f\>g\;h\=i\#j/k"),
        ([part((N.COMMON_NAME, " lead and trail "))], "CN=\\ lead and trail\\ "),
        ([part((N.COMMON_NAME, "   "))], "CN=\\ \\ \\ "),
        ([part((N.COMMON_NAME, "#hash"))], r"CN=\#hash"),
        ([part((N.COMMON_NAME, "Jürgen 你好 😀"))], "CN=Jürgen 你好 😀"),
        ([part((N.COMMON_NAME, "nul\0x"))], r"CN=nul\00x"),
        ([part((N.COMMON_NAME, "bob"), (N.ORGANIZATIONAL_UNIT_NAME, "x"))], "OU=x+CN=bob"),
        ([part((N.EMAIL_ADDRESS, "a@b.c")), part((N.COMMON_NAME, "m"))],
         "CN=m,1.2.840.113549.1.9.1=#16056140622e63"),
        ([part((N.SERIAL_NUMBER, "123")), part((N.TITLE, "Dr"))], "2.5.4.12=#0c024472,2.5.4.5=#1303313233"),
        ([part((N.DOMAIN_COMPONENT, "com")), part((N.USER_ID, "u1")), part((N.STREET_ADDRESS, "st")),
          part((N.STATE_OR_PROVINCE_NAME, "BY")), part((N.LOCALITY_NAME, "M"))], "L=M,ST=BY,STREET=st,UID=u1,DC=com"),
        ([part((N.COMMON_NAME, "t61ü", Kind.T61String))], "CN=t61ü"),
        ([part((N.COMMON_NAME, "vis", Kind.VisibleString))], "CN=#1a03766973"),
        ([], ""),
    ],
)  # fmt: skip
def test_subject_matches_java_format(parts, subject):
    assert read_certificate(certificate(*parts)).subject == subject


def test_certificate_has_issuer_validity_and_hosts():
    hosts = [x509.DNSName("b.example"), x509.IPAddress(ip_address("::1"))]
    found = read_certificate(certificate(part((N.COMMON_NAME, "b")), hosts=hosts))
    assert (found.issuer, found.not_before, found.not_after) == ("CN=ca", FROM, UNTIL)
    assert found.hosts == ("b.example", "::1")


def test_common_name_is_the_host_of_a_certificate_without_alternative_names():
    assert read_certificate(certificate(part((N.COMMON_NAME, "b.example")))).hosts == ("b.example",)


@pytest.mark.filterwarnings("ignore")  # cryptography warns of values that it accepts
def test_malformed_certificate_raises_protocol_error():
    whole = certificate(part((N.COMMON_NAME, "b")), hosts=[x509.DNSName("b.example")])
    for end in range(len(whole)):
        with pytest.raises(ProtocolError):
            read_certificate(whole[:end])
    chance = random.Random(1)
    for _ in range(5000):
        broken = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        with contextlib.suppress(ProtocolError):
            read_certificate(bytes(broken))
