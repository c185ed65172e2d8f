"""A broker's answer as an error; where an ACL is missing, with who lacks what, and the command that grants it."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Final, NamedTuple

from kohort.client.requests.credentials import principal_of
from kohort.config.client import ClientConfig, ConsumerConfig, ProducerConfig
from kohort.errors import ApiError, ErrorCode


class Kind(NamedTuple):
    """What may be denied, and kafka-acls' word for it."""

    what: str
    flag: str
    consumer: str
    producer: str


KINDS: Final[Mapping[ErrorCode, Kind]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Kind("topic", "--topic", "READ", "WRITE"),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Kind("group", "--group", "READ", "READ"),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Kind("transactional.id", "--transactional-id", "", "WRITE"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Kind("the cluster", "--cluster", "", "IDEMPOTENT_WRITE"),
}


def answer_error(config: ClientConfig, code: ErrorCode, text: str, *, name: str = "") -> ApiError:
    """Return the error for an answer. ``name`` is the topic or the group that it is about, where that is not the one
    that the client is configured for."""
    kind = KINDS.get(code)
    if kind is None:
        return ApiError(code, text)
    operation = ""
    if isinstance(config, ConsumerConfig):
        operation = kind.consumer
        name = name or (config.group_id or "" if kind.what == "group" else "")
    if isinstance(config, ProducerConfig):
        operation = kind.producer
        name = name or (config.transactional_id or "" if kind.what == "transactional.id" else "")
    return ApiError(code, f"{text}{lacking(config, kind, operation, name)}")


def lacking(config: ClientConfig, kind: Kind, operation: str, name: str) -> str:
    """Return who needs what, and the command that grants it, to be put behind a text; empty where either is unknown."""
    of_cluster = kind.flag == "--cluster"
    if not operation or not (name or of_cluster):
        return ""
    resource = kind.what if of_cluster else f"{kind.what} {name!r}"
    principal = principal_of(config)
    server = config.bootstrap_servers[0]
    command = f"kafka-acls --bootstrap-server {server} --add --allow-principal {quote(principal or 'User:NAME')}"
    granted = f"{command} --operation {operation} {kind.flag}" + ("" if of_cluster else f" {quote(name)}")
    return f"; {principal or 'this client'} needs {operation} on {resource}: {granted}"
