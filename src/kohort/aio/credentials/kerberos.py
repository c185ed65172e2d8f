"""GSSAPI (RFC 4752): login with a Kerberos ticket; needs the package gssapi (``kohort[kerberos]``).

A thread computes the messages of a login, because this may wait for a KDC. As in Kafka, GSSAPI neither signs nor
encrypts the data that follows the login.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kohort.client.requests.credentials import Credentials
from kohort.errors import AuthenticationFailed
from kohort.extras import needs
from kohort.security.sasl.exchange import ClientExchange

NO_LAYER: Final = b"\x01\x00\x00\x00"
"""Bytes in a GSSAPI client's last message. They select no security layer and a buffer size of 0."""
OFFERS_BYTES: Final = 4
_KRB5: Final = -1765328384 & 0xFFFFFFFF
_NEW_TICKET: Final = "get a ticket with kinit, or set sasl.kerberos.keytab and sasl.kerberos.principal"
_CONFIG: Final = "$KRB5_CONFIG (default: /etc/krb5.conf)"
ADVICE: Final[Mapping[int, str]] = {
    _KRB5 + 6: "the KDC does not know sasl.kerberos.principal",
    _KRB5 + 7: "check sasl.kerberos.service.name and sasl.kerberos.domain.name (default: the broker's host)",
    _KRB5 + 24: "the key in sasl.kerberos.keytab is not the principal's current one: write it again (kadmin ktadd)",
    _KRB5 + 31: "the key in sasl.kerberos.keytab is not the principal's current one: write it again (kadmin ktadd)",
    _KRB5 + 32: _NEW_TICKET,
    _KRB5 + 37: "synchronize the clocks of this machine and of the KDC",
    _KRB5 + 141: _NEW_TICKET,
    _KRB5 + 154: f"{_CONFIG} must name a KDC of the realm",
    _KRB5 + 156: f"is the KDC up, and its address in {_CONFIG} right?",
    _KRB5 + 195: _NEW_TICKET,
    _KRB5 + 224: f"does {_CONFIG} exist?",
}
"""Advice for error messages, with the minor code of the GSSAPI error as key."""


class KerberosClient(ClientExchange):
    """Client side of a GSSAPI (Kerberos) login. Computing a message may block."""

    mechanism = "GSSAPI"

    def __init__(self, credentials: Credentials, host: str) -> None:
        with needs("kerberos", "sasl.mechanism=GSSAPI"):
            import gssapi
            from gssapi.raw.misc import GSSError
        self._gssapi: Any = gssapi
        self._error: Any = GSSError
        self._service = f"{credentials.service}/{host}"
        self._credentials = credentials
        self._context: Any = None
        self._layer_chosen = False

    def first(self) -> bytes:
        gssapi, own = self._gssapi, self._credentials
        try:
            name = gssapi.Name(self._service, gssapi.NameType.kerberos_principal)
            mech = gssapi.MechType.kerberos
            mine = None
            if own.principal or own.keytab:
                principal = gssapi.Name(own.principal, gssapi.NameType.kerberos_principal) if own.principal else None
                # use a separate ticket cache for a keytab: the default cache may have another user's ticket
                cache = f"MEMORY:kohort-{zlib.crc32(f'{own.principal} {own.keytab}'.encode()):x}"
                store = {"client_keytab": own.keytab, "ccache": cache} if own.keytab else None
                mine = gssapi.Credentials(name=principal, usage="initiate", mechs=[mech], store=store)
            flags = (gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.out_of_sequence_detection)
            self._context = gssapi.SecurityContext(name=name, creds=mine, usage="initiate", mech=mech, flags=flags)
            return bytes(self._context.step() or b"")
        except self._error as error:
            raise self._failure(error) from None

    def next(self, challenge: bytes) -> bytes | None:
        try:
            if self._layer_chosen:
                self.is_complete = True
                return None
            if not self._context.complete:
                return bytes(self._context.step(challenge) or b"")
            offers = bytes(self._context.unwrap(challenge).message)
            if len(offers) != OFFERS_BYTES or not offers[0] & 1:
                raise AuthenticationFailed(
                    f"GSSAPI: {self._service} requires a security layer, which Kafka does not support"
                )
            self._layer_chosen = True
            user = str(self._context.initiator_name).encode()
            return bytes(self._context.wrap(NO_LAYER + user, False).message)
        except self._error as error:
            raise self._failure(error) from None

    def _failure(self, error: Any) -> AuthenticationFailed:
        prefix = f"Kerberos login at {self._service} failed"
        if problem := self._keytab_problem():
            return AuthenticationFailed(f"{prefix}: {problem}")
        advice = ADVICE.get(error.min_code & 0xFFFFFFFF)
        return AuthenticationFailed(f"{prefix}: {self._message(error)}{f'; {advice}' if advice else ''}")

    def _message(self, error: Any) -> str:
        texts = error.get_all_statuses(error.min_code, False) if error.min_code else []
        return " ".join(" ".join(texts or error.get_all_statuses(error.maj_code, True)).split())

    def _keytab_problem(self) -> str | None:
        """Return the problem of the keytab file, or None. GSSAPI itself reports only "no credentials"."""
        own = self._credentials
        if not own.keytab:
            return None
        path = Path(own.keytab.removeprefix("FILE:"))
        if not path.is_file():
            return f"sasl.kerberos.keytab: file {path} is missing"
        if not os.access(path, os.R_OK):
            return f"sasl.kerberos.keytab: no permission to read {path}"
        kinds = self._gssapi.NameType.kerberos_principal
        principal = self._gssapi.Name(own.principal, kinds) if own.principal else None
        try:
            self._gssapi.Credentials(name=principal, usage="accept", store={"keytab": own.keytab})
        except self._error as error:
            if error.min_code & 0xFFFFFFFF == _KRB5 + 181:
                return f"sasl.kerberos.keytab: {path} is empty or not a keytab"
            return f"sasl.kerberos.keytab: {path}: {self._message(error)}"
        return None
