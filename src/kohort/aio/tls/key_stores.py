"""Read certificates and private keys from PEM, PKCS12 and JKS files. The content of a file shows its format.

Unreadable input raises a ConfigError that names the option and the file.
"""

from __future__ import annotations

import os
import re
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from kohort.errors import ConfigError, MissingExtra, ProtocolError
from kohort.extras import needs
from kohort.secret import Secret
from kohort.security.certificates import read_certificate

CERTIFICATE: Final = re.compile(
    rb"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----.*?-----END [A-Z0-9 ]+-----", re.DOTALL
)
KEY: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
JKS: Final = b"\xfe\xed\xfe\xed"
JCEKS: Final = b"\xce\xce\xce\xce"
DER: Final = b"\x30"
TO_PKCS12: Final = "keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"
EXTRA: Final = "security"


class StoreContent(NamedTuple):
    data: bytes
    where: str
    password: Secret | None = None
    password_option: str = ""


class Identity(NamedTuple):
    """Certificate chain and private key as PEM. ``password`` decrypts the private key."""

    chain: bytes
    key: bytes
    password: str | None
    where: str


def read_file(option: str, path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"{option}={path}: cannot read this file: {error.strerror}") from None


def identity_in(store: StoreContent, key_password: Secret | None) -> Identity:
    """Return the certificate chain and private key in a key store. Raises ConfigError, MissingExtra."""
    if store.data.startswith(JKS):
        return _of_jks(store, key_password)
    if store.data.startswith(DER):
        return _of_pkcs12(store)
    chain, key = pem_certificates(store.data), KEY.search(store.data)
    if not chain and not key:
        raise _unknown(store)
    if not chain:
        raise ConfigError(f"{store.where}: this key store has no certificate")
    if key is None:
        raise ConfigError(f"{store.where}: this key store has no private key")
    return Identity(b"\n".join(chain), key[0], _revealed(key_password or store.password), store.where)


def authorities_in(store: StoreContent) -> list[bytes]:
    """Return the CA certificates (DER) in a trust store. Raises ConfigError, MissingExtra."""
    if store.data.startswith(JKS):
        keys = _jks(store)
        found = [entry.cert for entry in keys.certs.values()]
        found += [entry.cert_chain[0][1] for entry in keys.private_keys.values()]
    elif store.data.startswith(DER):
        found = [store.data] if _is_certificate(store.data) else _pkcs12_authorities(store)
    else:
        found = [_der(pem, store.where) for pem in pem_certificates(store.data)]
        if not found:
            raise _unknown(store)
    if not found:
        raise ConfigError(f"{store.where}: this trust store has no certificate")
    return found


def pem_certificates(data: bytes) -> list[bytes]:
    return CERTIFICATE.findall(data)


def use_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Load a certificate and its private key into a TLS context.

    Raises ConfigError, also for an expired certificate.
    """
    der = _der(pem_certificates(identity.chain)[0], identity.where)
    with suppress(MissingExtra):  # without the package cryptography only the peer detects an expired certificate
        _check_dates(der, identity.where)
    if b"ENCRYPTED" in identity.key and identity.password is None:
        raise ConfigError(f"{identity.where}: the private key is encrypted: set ssl.key.password")
    asked: list[bool] = []

    def password() -> str:
        asked.append(True)
        return identity.password or ""

    with _file_of(identity.key + b"\n" + identity.chain) as path:
        try:
            context.load_cert_chain(path, password=password)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"{identity.where}: {_load_error(error, was_asked=bool(asked))}") from None


def _check_dates(der: bytes, where: str) -> None:
    try:
        certificate = read_certificate(der)
    except ProtocolError as error:
        raise _damaged(where, error) from None
    if certificate.not_after < datetime.now(UTC):
        raise ConfigError(
            f"{where}: its certificate ({certificate.subject}) expired on {certificate.not_after:%Y-%m-%d}"
        )


def _load_error(error: Exception, *, was_asked: bool) -> str:
    reason = getattr(error, "reason", None) or ""
    if "MISMATCH" in reason:
        return "the private key does not belong to the certificate"
    if was_asked:
        return "ssl.key.password does not decrypt the private key"
    return f"certificate and key are unusable: {reason.lower().replace('_', ' ') or error}"


@contextmanager
def _file_of(data: bytes) -> Iterator[str]:
    """Keep a private key in a temporary file while the ``with`` block runs: OpenSSL reads keys only from files."""
    # mkstemp() creates a file that only its owner can read
    handle, path = tempfile.mkstemp(prefix="kohort-", suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        yield path
    finally:
        Path(path).unlink()


def _of_pkcs12(store: StoreContent) -> Identity:
    with needs(EXTRA, f"{store.where}: PKCS12"):
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
    found = _pkcs12(store)
    if found.key is None or found.cert is None:
        raise ConfigError(f"{store.where}: this key store has no private key with a certificate")
    password = secrets.token_hex(32)  # this password encrypts the private key in its temporary file
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    chain = [found.cert, *found.additional_certs]
    return Identity(b"".join(each.certificate.public_bytes(Encoding.PEM) for each in chain), key, password, store.where)


def _pkcs12_authorities(store: StoreContent) -> list[bytes]:
    found = _pkcs12(store)
    with needs(EXTRA, f"{store.where}: PKCS12"):
        from cryptography.hazmat.primitives.serialization import Encoding
    certificates = [each.certificate for each in [found.cert, *found.additional_certs] if each is not None]
    return [certificate.public_bytes(Encoding.DER) for certificate in certificates]


def _pkcs12(store: StoreContent):  # type: ignore[no-untyped-def]  # the type's package is optional
    with needs(EXTRA, f"{store.where}: PKCS12"):
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    password = _revealed(store.password)
    try:
        return load_pkcs12(store.data, None if password is None else password.encode())
    except ValueError as error:
        if "password" not in str(error).lower():
            raise ConfigError(f"{store.where}: invalid PKCS12: {error}") from None
        raise _locked(store) from None


def _of_jks(store: StoreContent, key_password: Secret | None) -> Identity:
    entry = next(iter(_jks(store).private_keys.values()), None)
    if entry is None:
        raise ConfigError(f"{store.where}: this key store has no private key")
    password = _revealed(key_password or store.password) or ""
    try:
        if not entry.is_decrypted():
            entry.decrypt(password)
    except Exception:  # noqa: BLE001  # depends on the key's encryption
        raise ConfigError(f"{store.where}: ssl.key.password does not decrypt the private key") from None
    key = _pem("PRIVATE KEY", entry.pkey_pkcs8)
    chain = b"".join(_pem("CERTIFICATE", certificate) for _, certificate in entry.cert_chain)
    return Identity(chain, key, None, store.where)


def _jks(store: StoreContent):  # type: ignore[no-untyped-def]  # its package has no types
    with needs(EXTRA, f"{store.where}: JKS"):
        import jks
    if store.password is None:
        raise _locked(store)
    try:
        return jks.KeyStore.loads(store.data, store.password.reveal(), try_decrypt_keys=False)
    except jks.util.KeystoreSignatureException:
        raise _locked(store) from None
    except Exception as error:  # noqa: BLE001  # a truncated file raises various errors
        raise ConfigError(f"{store.where}: invalid JKS: {type(error).__name__}") from None


def _pem(label: str, der: bytes) -> bytes:
    return ssl.DER_cert_to_PEM_cert(der).replace("CERTIFICATE", label).encode()


def _is_certificate(data: bytes) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data)
    except ssl.SSLError:
        return False
    return True


def _der(pem: bytes, where: str) -> bytes:
    text = pem.decode("ascii", "replace").replace("TRUSTED CERT", "CERT").replace("X509 CERT", "CERT")
    try:
        der = ssl.PEM_cert_to_DER_cert(text)
    except ValueError as error:
        raise _damaged(where, error) from None
    if not _is_certificate(der):
        raise _damaged(where, "OpenSSL cannot read the certificate")
    return der


def _damaged(where: str, problem: object) -> ConfigError:
    return ConfigError(f"{where}: it has a damaged certificate ({problem})")


def _locked(store: StoreContent) -> ConfigError:
    if store.password is None:
        return ConfigError(f"{store.where}: it is encrypted: set {store.password_option}")
    return ConfigError(f"{store.where}: {store.password_option} is wrong")


def _unknown(store: StoreContent) -> ConfigError:
    if store.data.startswith(JCEKS):
        return ConfigError(f"{store.where}: JCEKS is not supported: convert it to PKCS12 ({TO_PKCS12})")
    return ConfigError(f"{store.where}: it is neither PEM, PKCS12 nor JKS")


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()
