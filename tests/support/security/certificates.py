"""Certificates for tests: valid ones, and one of each kind to be rejected; as PEM and PKCS12."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

PASSWORD = "store-secret"
"""Password of every PKCS12 file."""
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Certified:
    """A certificate with its key, in three formats."""

    certificate: Path
    """PEM: the certificate and its issuers."""
    key: Path
    """PEM: the private key, PKCS8."""
    store: Path
    """PKCS12: both."""
    subject: str
    """Subject of the certificate, in the order of RFC 2253."""

    @property
    def pem(self) -> Path:
        """Key and certificate in one file."""
        return self.store.with_suffix(".pem")


@dataclass(frozen=True)
class Authority:
    """A certificate authority with its trust store, as PEM and as PKCS12."""

    certificate: Path
    store: Path


class Certificates:
    """Certificates of one secured cluster and its clients; the files are in ``folder``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca, self._foreign = trustme.CA(), trustme.CA()
        self.authority = self._authority(self._ca, "ca")
        self.foreign_authority = self._authority(self._foreign, "foreign-ca")
        self.server = self._issue("server", "localhost", "127.0.0.1", "::1", common_name="localhost")
        self.alice = self._issue("alice", "alice.example", common_name="alice")
        self.bob = self._issue("bob", "bob.example", common_name="bob")

    def wrong_host(self) -> Certified:
        """A server certificate for another host than the requested one."""
        return self._issue("wrong-host", "elsewhere.example", common_name="elsewhere.example")

    def renewed(self) -> Certified:
        """Another certificate of the server, for the same hosts."""
        return self._issue("renewed", "localhost", "127.0.0.1", "::1", common_name="localhost")

    def expired(self, common_name: str = "localhost") -> Certified:
        """A certificate that expired yesterday."""
        now = datetime.datetime.now(datetime.UTC)
        return self._issue(
            f"expired-{common_name}", "localhost", "127.0.0.1",
            common_name=common_name, not_before=now - 2 * DAY, not_after=now - DAY,
        )  # fmt: skip

    def foreign(self, common_name: str = "alice") -> Certified:
        """A certificate of an untrusted authority."""
        return self._issue(
            f"foreign-{common_name}", "localhost", "127.0.0.1", common_name=common_name, of=self._foreign
        )

    def _authority(self, ca: trustme.CA, name: str) -> Authority:
        pem, store = self._folder / f"{name}.pem", self._folder / f"{name}.p12"
        ca.cert_pem.write_to_path(pem)
        (certificate,) = x509.load_pem_x509_certificates(ca.cert_pem.bytes())
        trusted = [pkcs12.PKCS12Certificate(certificate, name.encode())]
        store.write_bytes(pkcs12.serialize_java_truststore(trusted, _encryption()))
        return Authority(pem, store)

    def _issue(
        self,
        name: str,
        *hosts: str,
        common_name: str,
        of: trustme.CA | None = None,
        not_before: datetime.datetime | None = None,
        not_after: datetime.datetime | None = None,
    ) -> Certified:
        made = (of or self._ca).issue_cert(
            *hosts, common_name=common_name, organization_name="Kohort", organization_unit_name="tests",
            not_before=not_before, not_after=not_after,
        )  # fmt: skip
        chain = b"".join(pem.bytes() for pem in made.cert_chain_pems)
        certificate, *signers = x509.load_pem_x509_certificates(chain)
        key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
        assert isinstance(key, pkcs12.PKCS12PrivateKeyTypes)
        pkcs8 = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        found = Certified(
            self._folder / f"{name}-certificate.pem", self._folder / f"{name}-key.pem", self._folder / f"{name}.p12",
            certificate.subject.rfc4514_string(),
        )  # fmt: skip
        found.certificate.write_bytes(chain)
        found.key.write_bytes(pkcs8)
        found.pem.write_bytes(pkcs8 + chain)
        stored = pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, signers, _encryption())
        found.store.write_bytes(stored)
        return found


def _encryption() -> serialization.KeySerializationEncryption:
    return serialization.BestAvailableEncryption(PASSWORD.encode())
