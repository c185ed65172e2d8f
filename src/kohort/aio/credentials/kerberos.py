"""GSSAPI (RFC 4752): a login with a Kerberos ticket, by the package gssapi, which ``kohort[kerberos]`` brings.

Its steps may ask a key distribution centre, so they run in a thread. No data is signed or sealed after the login, as
in Kafka.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from kohort.client.requests.credentials import Credentials
from kohort.errors import AuthenticationFailed
from kohort.extras import needs
from kohort.security.sasl.exchange import ClientExchange

NO_LAYER: Final = b"\x01\x00\x00\x00"
"""The answer to what a broker offers: no security layer, and so no size of buffers."""
OFFERS_BYTES: Final = 4
_KRB5: Final = -1765328384 & 0xFFFFFFFF
"""Where MIT's numbers of errors begin."""
_NEW_TICKET: Final = "get a ticket with kinit, or set sasl.kerberos.keytab and sasl.kerberos.principal"
_CONFIG: Final = "$KRB5_CONFIG (default: /etc/krb5.conf)"
ADVICE: Final[Mapping[int, str]] = MappingProxyType(
    {
        _KRB5 + 6: "sasl.kerberos.principal names somebody whom it does not know",
        _KRB5 + 7: "sasl.kerberos.service.name and sasl.kerberos.domain.name (default: the broker's host) name it",
        _KRB5
        + 24: "the key in sasl.kerberos.keytab is not, or no longer, the principal's: write it anew (kadmin ktadd)",
        _KRB5
        + 31: "the key in sasl.kerberos.keytab is not, or no longer, the principal's: write it anew (kadmin ktadd)",
        _KRB5 + 32: _NEW_TICKET,
        _KRB5 + 37: "set the clocks of this machine and of the KDC right",
        _KRB5 + 141: _NEW_TICKET,
        _KRB5 + 154: f"{_CONFIG} names the KDC of a realm",
        _KRB5 + 156: f"is it up, and is {_CONFIG} right about it?",
        _KRB5 + 195: _NEW_TICKET,
        _KRB5 + 224: f"is {_CONFIG} there?",
    }
)


class KerberosClient(ClientExchange):
    """A client's half. Every step may take its time."""

    mechanism = "GSSAPI"

    def __init__(self, credentials: Credentials, host: str) -> None:
        """Take the principal of the broker, and the client's own. Raises AuthenticationFailed, MissingExtra."""
        with needs("kerberos", "sasl.mechanism=GSSAPI"):
            import gssapi
            from gssapi.raw.misc import GSSError
        self._gssapi: Any = gssapi
        self._error: Any = GSSError
        self._service = f"{credentials.service}/{host}"
        self._credentials = credentials
        self._context: Any = None
        self._said_all = False

    def first(self) -> bytes:
        gssapi, own = self._gssapi, self._credentials
        try:
            name = gssapi.Name(self._service, gssapi.NameType.kerberos_principal)
            mech = gssapi.MechType.kerberos
            mine = None
            if own.principal or own.keytab:
                who = gssapi.Name(own.principal, gssapi.NameType.kerberos_principal) if own.principal else None
                # Tickets of a keytab have a cache of their own: the user's may be somebody else's.
                cache = f"MEMORY:kohort-{zlib.crc32(f'{own.principal} {own.keytab}'.encode()):x}"
                store = {"client_keytab": own.keytab, "ccache": cache} if own.keytab else None
                mine = gssapi.Credentials(name=who, usage="initiate", mechs=[mech], store=store)
            flags = (gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.out_of_sequence_detection)
            self._context = gssapi.SecurityContext(name=name, creds=mine, usage="initiate", mech=mech, flags=flags)
            return bytes(self._context.step() or b"")
        except self._error as error:
            raise self._failure(error) from None

    def next(self, challenge: bytes) -> bytes | None:
        try:
            if self._said_all:
                self.is_complete = True
                return None
            if not self._context.complete:
                return bytes(self._context.step(challenge) or b"")
            offers = bytes(self._context.unwrap(challenge).message)
            if len(offers) != OFFERS_BYTES or not offers[0] & 1:
                raise AuthenticationFailed(f"GSSAPI: {self._service} wants a security layer, which Kafka has not")
            self._said_all = True
            user = str(self._context.initiator_name).encode()
            return bytes(self._context.wrap(NO_LAYER + user, False).message)
        except self._error as error:
            raise self._failure(error) from None

    def _failure(self, error: Any) -> AuthenticationFailed:
        beginning = f"Kerberos does not let this client talk to {self._service}"
        if problem := self._keytab_problem():
            return AuthenticationFailed(f"{beginning}: {problem}")
        words = self._words(error)
        advice = ADVICE.get(error.min_code & 0xFFFFFFFF)
        return AuthenticationFailed(f"{beginning}: {words}" + (f"; {advice}" if advice else ""))

    def _words(self, error: Any) -> str:
        told = error.get_all_statuses(error.min_code, False) if error.min_code else []
        return " ".join(" ".join(told or error.get_all_statuses(error.maj_code, True)).split())

    def _keytab_problem(self) -> str | None:
        """Return what is wrong with the keytab itself: that it cannot be used the library tells as "no credentials"."""
        own = self._credentials
        if not own.keytab:
            return None
        path = Path(own.keytab.removeprefix("FILE:"))
        if not path.is_file():
            return f"sasl.kerberos.keytab: there is no file {path}"
        if not os.access(path, os.R_OK):
            return f"sasl.kerberos.keytab: {path} is not for this user to read"
        kinds = self._gssapi.NameType.kerberos_principal
        who = self._gssapi.Name(own.principal, kinds) if own.principal else None
        try:
            self._gssapi.Credentials(name=who, usage="accept", store={"keytab": own.keytab})
        except self._error as error:
            if error.min_code & 0xFFFFFFFF == _KRB5 + 181:
                return f"sasl.kerberos.keytab: {path} is no keytab, or an empty one"
            return f"sasl.kerberos.keytab: {path}: {self._words(error)}"
        return None
