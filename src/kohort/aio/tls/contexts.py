"""Create TLS contexts (``ssl.SSLContext``) from the TLS options of a listener or client."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from kohort.aio.tls.client_side import TlsClient
from kohort.aio.tls.key_stores import (
    Identity,
    StoreContent,
    authorities_in,
    identity_in,
    pem_certificates,
    read_file,
    use_identity,
)
from kohort.aio.tls.server_side import TlsListener
from kohort.config.broker import BrokerConfig
from kohort.config.client_security import ClientSecurityConfig
from kohort.config.listener_security import ListenerConfig, SecurityProtocol
from kohort.config.listeners import Listener, listener_config
from kohort.errors import ConfigError, MissingExtra
from kohort.notes import Note, info, warning
from kohort.secret import Secret
from kohort.security.certificate_names import name_rules
from kohort.security.certificates import check_reader

OPTION: Final = "ssl.cipher.suites"
TLS13: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""TLS 1.3 cipher suites. OpenSSL and Java use the same names. Python cannot disable single TLS 1.3 suites."""
_JAVA: Final = re.compile(
    r"TLS_(?:(ECDHE|DHE)_)?(RSA|ECDSA)_WITH_(?:AES_(128|256)_(GCM|CBC)_(SHA(?:256|384)?)|CHACHA20_POLY1305_SHA256)"
)


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a cipher suite. ``name`` is the name in OpenSSL or in Java."""
    found = _JAVA.fullmatch(name)
    if found is None:
        return name
    exchange, signature, bits, mode, digest = found.groups()
    if bits is None:
        return f"{exchange}-{signature}-CHACHA20-POLY1305"
    cipher = f"AES{bits}-GCM-{digest}" if mode == "GCM" else f"AES{bits}-{digest}"
    return cipher if exchange is None else f"{exchange}-{signature}-{cipher}"


def use_ciphers(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Restrict a TLS context to these cipher suites. Raises ConfigError for an unknown suite.

    As in Java, a list with only TLS 1.3 suites allows only TLS 1.3; a list without TLS 1.3 suites excludes TLS 1.3.
    """
    if not names:
        return
    older = [openssl_name(name) for name in names if name not in TLS13]
    # a list with OpenSSL keywords, such as HIGH or @SECLEVEL=1, does not limit the TLS version
    if len(older) == len(names) and all("-" in name for name in older):
        context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2, key=_place)
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if _place(context.minimum_version) > _place(context.maximum_version):
        raise ConfigError(
            f"{OPTION}={','.join(names)}: no cipher suite in this list belongs to a version in ssl.enabled.protocols"
        )
    for name in older:  # set each cipher suite alone, because OpenSSL ignores unknown names in a list
        _set(context, name)
    if older:
        _set(context, ":".join(older))


def _set(context: ssl.SSLContext, ciphers: str) -> None:
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError:
        if not ciphers.startswith(("!", "-", "+", "@")):
            raise ConfigError(f"{OPTION}: unknown cipher suite {ciphers!r}") from None


def _place(version: int) -> int:
    return 1 << 20 if version == ssl.TLSVersion.MAXIMUM_SUPPORTED else version


CHECK_INTERVAL_S: Final = 1.0


class Reloading:
    """TLS context of a listener or client. It is created again after its certificate files change, without a restart.

    New connections check the files, at most once a second; open connections keep the old context. If changed files are
    unusable, the error is logged, and new connections use the old context. Raises ConfigError or MissingExtra if the
    first context cannot be created.
    """

    def __init__(
        self,
        make: Callable[[], ssl.SSLContext],
        files: Sequence[str],
        log_note: Callable[[Note], None] = lambda _note: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._files = [Path(path).expanduser() for path in files]
        self._log_note = log_note
        self._clock = clock
        self._states = self._file_states()
        self._checked_s = clock()
        self._context = make()

    def current(self) -> ssl.SSLContext:
        now_s = self._clock()
        if now_s - self._checked_s >= CHECK_INTERVAL_S:
            self._checked_s = now_s
            seen = self._file_states()
            if seen != self._states:
                self._states = seen
                self._renew()
        return self._context

    def _renew(self) -> None:
        try:
            self._context = self._make()
        except (ConfigError, MissingExtra) as error:
            self._log_note(warning(f"cannot reload certificates, the old ones stay in use: {error}", "certificates"))
        else:
            self._log_note(info(f"reloaded certificates: {', '.join(map(str, self._files))}"))

    def _file_states(self) -> tuple[object, ...]:
        return tuple(_state(path) for path in self._files)


def _state(path: Path) -> object:
    try:
        state = path.stat()
        if S_ISDIR(state.st_mode):
            return tuple((entry.name, _state(entry)) for entry in sorted(path.iterdir()) if not entry.is_dir())
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
NO_HOST_CHECK: Final = frozenset({"", "none"})
PROBE: Final = "probe"
SYSTEM: Final = "the system"
NO_CERTIFICATE: Final = (
    "a TLS listener needs a certificate: set ssl.keystore.location, or ssl.keystore.certificate.chain and"
    " ssl.keystore.key"
)
CA_FILE_SUFFIXES: Final = frozenset({".pem", ".crt", ".cer", ".cert", ".0"})


def tls_listener(config: BrokerConfig, listener: Listener, log_note: Callable[[Note], None]) -> TlsListener:
    """Create the object that accepts the TLS connections of a listener. Raises ConfigError, MissingExtra."""
    own = listener_config(config, listener.name)
    files = [path for path in (own.ssl_keystore_location, own.ssl_truststore_location) if path]
    contexts = Reloading(lambda: server_context(own), files, lambda note: log_note(note.about(listener)))
    return TlsListener(listener.name, contexts.current, log_note)


def check_tls(config: BrokerConfig, listener: Listener) -> None:
    """Raise ConfigError or MissingExtra if a listener cannot serve TLS."""
    own = listener_config(config, listener.name)
    try:
        server_context(own)
        name_rules(own.ssl_principal_mapping_rules)
    except ConfigError as error:
        raise ConfigError(f"{listener}: {error}") from None


def server_context(config: ListenerConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions_and_ciphers(context, config.ssl_enabled_protocols, config.ssl_cipher_suites)
    use_identity(context, _server_identity(config))
    context.verify_mode = CLIENT_AUTH[config.ssl_client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        check_reader(f"ssl.client.auth={config.ssl_client_auth}")
        authorities = _truststore(config)
        if authorities is None and config.ssl_truststore_certificates is not None:
            text = config.ssl_truststore_certificates.encode()
            authorities = authorities_in(StoreContent(text, "ssl.truststore.certificates"))
        _trust(context, authorities, ssl.Purpose.CLIENT_AUTH)
    return context


def _server_identity(config: ListenerConfig) -> Identity:
    chain, key = config.ssl_keystore_certificate_chain, config.ssl_keystore_key
    if config.ssl_keystore_location:
        return identity_in(_keystore(config), config.ssl_key_password)
    if chain is None and key is None:
        raise ConfigError(NO_CERTIFICATE)
    return _identity_of_texts(
        ("ssl.keystore.certificate.chain", None if chain is None else chain.encode()),
        ("ssl.keystore.key", None if key is None else key.reveal().encode()),
        config.ssl_key_password,
    )


def tls_of(config: ClientSecurityConfig) -> TlsClient | None:
    """Create the object that opens the TLS connections of a client; None if ``security.protocol`` has no TLS.

    Raises ConfigError or MissingExtra if the TLS context cannot be created.
    """
    if not SecurityProtocol(config.security_protocol).uses_tls:
        return None
    contexts = Reloading(lambda: client_context(config), client_files(config))
    own = (config.ssl_keystore_location, config.ssl_certificate_location, config.ssl_certificate_pem)
    return TlsClient(contexts.current, _where_authorities_are(config), has_certificate=any(own))


def client_context(config: ClientSecurityConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_versions_and_ciphers(context, config.ssl_enabled_protocols, config.ssl_cipher_suites)
    identity = _client_identity(config)
    if identity is not None:
        use_identity(context, identity)
    if config.ssl_endpoint_identification_algorithm in NO_HOST_CHECK or not config.enable_ssl_certificate_verification:
        context.check_hostname = False
    if not config.enable_ssl_certificate_verification:
        context.verify_mode = ssl.CERT_NONE
    else:
        _trust(context, _client_authorities(config), ssl.Purpose.SERVER_AUTH)
    return context


def client_files(config: ClientSecurityConfig) -> list[str]:
    location = None if config.ssl_ca_location == PROBE else config.ssl_ca_location
    own = (config.ssl_certificate_location, config.ssl_key_location, config.ssl_keystore_location)
    return [path for path in (location, config.ssl_truststore_location, *own) if path]


def _where_authorities_are(config: ClientSecurityConfig) -> str:
    if config.ssl_ca_location and config.ssl_ca_location != PROBE:
        return f"ssl.ca.location={config.ssl_ca_location}"
    if config.ssl_ca_pem is not None:
        return "ssl.ca.pem"
    if config.ssl_truststore_location:
        return f"ssl.truststore.location={config.ssl_truststore_location}"
    return SYSTEM


def _client_authorities(config: ClientSecurityConfig) -> list[bytes] | None:
    location = config.ssl_ca_location
    if location and location != PROBE:
        return _authorities_at("ssl.ca.location", location)
    if config.ssl_ca_pem is not None:
        return authorities_in(StoreContent(config.ssl_ca_pem.encode(), "ssl.ca.pem"))
    return _truststore(config)


def _authorities_at(option: str, location: str) -> list[bytes]:
    folder = Path(location).expanduser()
    if not folder.is_dir():
        return authorities_in(StoreContent(read_file(option, location), f"{option}={location}"))
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix in CA_FILE_SUFFIXES and path.is_file():
            data = read_file(option, str(path))
            if pem_certificates(data):
                found += authorities_in(StoreContent(data, f"{option}={path}"))
    if not found:
        kinds = ", ".join(sorted(CA_FILE_SUFFIXES))
        raise ConfigError(f"{option}={location}: no certificate in the folder (suffixes of PEM files: {kinds})")
    return found


def _client_identity(config: ClientSecurityConfig) -> Identity | None:
    if config.ssl_keystore_location:
        return identity_in(_keystore(config), config.ssl_key_password)
    chain = _text_or_file(
        ("ssl.certificate.pem", config.ssl_certificate_pem),
        ("ssl.certificate.location", config.ssl_certificate_location),
    )
    pem = config.ssl_key_pem
    key = _text_or_file(
        ("ssl.key.pem", None if pem is None else pem.reveal()), ("ssl.key.location", config.ssl_key_location)
    )
    if chain[1] is None and key[1] is None:
        return None
    return _identity_of_texts(chain, key, config.ssl_key_password)


def _set_versions_and_ciphers(context: ssl.SSLContext, versions: Sequence[str], ciphers: Sequence[str]) -> None:
    enabled = [VERSIONS[version] for version in versions] or list(VERSIONS.values())
    context.minimum_version, context.maximum_version = min(enabled), max(enabled)
    context.options |= ssl.OP_NO_RENEGOTIATION
    use_ciphers(context, ciphers)


def _trust(context: ssl.SSLContext, authorities: Sequence[bytes] | None, purpose: ssl.Purpose) -> None:
    if authorities is None:
        context.load_default_certs(purpose)
        return
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    for certificate in dict.fromkeys(authorities):
        context.load_verify_locations(cadata=certificate)


def _keystore(config: ListenerConfig | ClientSecurityConfig) -> StoreContent:
    option, path = "ssl.keystore.location", config.ssl_keystore_location or ""
    return StoreContent(
        read_file(option, path), f"{option}={path}", config.ssl_keystore_password, "ssl.keystore.password"
    )


def _truststore(config: ListenerConfig | ClientSecurityConfig) -> list[bytes] | None:
    option, path = "ssl.truststore.location", config.ssl_truststore_location
    if not path:
        return None
    data, password = read_file(option, path), config.ssl_truststore_password
    return authorities_in(StoreContent(data, f"{option}={path}", password, "ssl.truststore.password"))


def _text_or_file(text: tuple[str, str | None], file: tuple[str, str | None]) -> tuple[str, bytes | None]:
    if text[1] is not None:
        return text[0], text[1].encode()
    if file[1]:
        return f"{file[0]}={file[1]}", read_file(file[0], file[1])
    return file[0], None


def _identity_of_texts(
    chain: tuple[str, bytes | None], key: tuple[str, bytes | None], password: Secret | None
) -> Identity:
    if chain[1] is None:
        raise ConfigError(f"{key[0]} has the private key of a certificate: set {chain[0]} to the certificate, too")
    found = identity_in(StoreContent(chain[1] + b"\n" + (key[1] or b""), chain[0]), password)
    return found if key[1] is None else found._replace(where=f"{chain[0]}, {key[0]}")
