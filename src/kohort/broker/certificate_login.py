"""Who a certificate makes its owner: the one login that a listener with TLS and without SASL has (KIP-371)."""

from __future__ import annotations

from kohort.broker.request import Caller
from kohort.broker.state import BrokerState
from kohort.config.listeners import listener_config
from kohort.notes import Note, warning
from kohort.security.acls import user
from kohort.security.certificate_names import name_rules


def take_certificate(state: BrokerState, caller: Caller, name: str | None) -> Caller | Note:
    """Return the caller that a certificate of this subject makes; or why its connection is closed.

    Without a certificate it stays who it is, and so where SASL says who somebody is
    (protocol/security.md#names-in-certificates).
    """
    listener = state.listeners.get(caller.listener)
    if name is None or listener is None or listener.protocol.uses_sasl:
        return caller
    found = name_rules(listener_config(state.config, caller.listener).ssl_principal_mapping_rules).name(name)
    if found is None:
        return warning(f"no rule of ssl.principal.mapping.rules is about the certificate of {name}", "certificate")
    return caller._replace(principal=user(found))
