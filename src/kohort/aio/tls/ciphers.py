"""Ciphers by the names that people have: OpenSSL's, and Java's, which are those of the standard."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Final

from kohort.errors import ConfigError

OPTION: Final = "ssl.cipher.suites"
TLS13: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""What TLS 1.3 has, by one name for all. OpenSSL takes all three, and Python's ``ssl`` cannot have it take fewer."""
_JAVA: Final = re.compile(
    r"TLS_(?:(ECDHE|DHE)_)?(RSA|ECDSA)_WITH_(?:AES_(128|256)_(GCM|CBC)_(SHA(?:256|384)?)|CHACHA20_POLY1305_SHA256)"
)


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a cipher that may be given by Java's."""
    found = _JAVA.fullmatch(name)
    if found is None:
        return name
    exchange, signature, bits, mode, digest = found.groups()
    if bits is None:
        return f"{exchange}-{signature}-CHACHA20-POLY1305"
    cipher = f"AES{bits}-GCM-{digest}" if mode == "GCM" else f"AES{bits}-{digest}"
    if exchange is None:
        return cipher
    return f"{exchange}-{signature}-{cipher}"


def use_ciphers(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Let a context take these ciphers only. Raises ConfigError for what OpenSSL has none of.

    Where none of them is of TLS 1.3, or all are, only one version of TLS is left, as in Java.
    """
    if not names:
        return
    older = [openssl_name(name) for name in names if name not in TLS13]
    if len(older) == len(names) and all("-" in name for name in older):  # HIGH, @SECLEVEL=1 and the like say nothing
        context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2, key=_place)
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if _place(context.minimum_version) > _place(context.maximum_version):
        raise ConfigError(f"{OPTION}={','.join(names)}: none of a version in ssl.enabled.protocols")
    for name in older:  # OpenSSL passes over those that it does not know, if there is one that it does
        _set(context, name)
    if older:
        _set(context, ":".join(older))


def _set(context: ssl.SSLContext, ciphers: str) -> None:
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError:
        if not ciphers.startswith(("!", "-", "+", "@")):
            raise ConfigError(f"{OPTION}: OpenSSL knows no cipher {ciphers!r}") from None


def _place(version: int) -> int:
    """Order versions, of which OpenSSL's highest is a negative number."""
    return 1 << 20 if version == ssl.TLSVersion.MAXIMUM_SUPPORTED else version
