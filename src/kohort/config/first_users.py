"""The users that a broker is told of at its start, and how they log in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kohort.config.broker import BrokerConfig
from kohort.config.options import options_of
from kohort.secret import Secret

ADD_SCRAM: Final = "kohort.add.scram"
MECHANISMS: Final = "sasl.enabled.mechanisms"
JAAS: Final = "sasl.jaas.config"


def with_mechanisms(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a broker whose listeners offer the mechanisms of its first users, unless something else is said
    of how clients log in."""
    (added,) = (o for o in options_of(BrokerConfig) if o.name == ADD_SCRAM)
    users = given.get(added.name) or given.get(added.attribute)
    said = any(name.replace("_", ".").endswith((MECHANISMS, JAAS)) for name in given)
    if not users or said:
        return dict(given)
    named = {line.partition("=")[0].strip() for line in Secret(users).reveal().splitlines() if line.strip()}
    return {**given, MECHANISMS: sorted(named)}
