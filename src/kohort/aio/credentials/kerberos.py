"""GSSAPI (RFC 4752): a login with a Kerberos ticket, by the package gssapi, which ``kohort[kerberos]`` brings.

Its steps may ask a key distribution centre, so they run in a thread. No data is signed or sealed after the login, as
in Kafka.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

from kohort.client.requests.credentials import Credentials
from kohort.errors import AuthenticationFailed
from kohort.extras import needs
from kohort.security.sasl.exchange import ClientExchange

NO_LAYER: Final = b"\x01\x00\x00\x00"
"""The answer to what a broker offers: no security layer, and so no size of buffers."""
OFFERS_BYTES: Final = 4


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
        """Get a ticket for the broker."""
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
        words = " ".join(str(error).split())
        return AuthenticationFailed(f"Kerberos does not let this client talk to {self._service}: {words}")
