"""A broker's answer as an error; where an ACL is missing, with who lacks what, and the command that grants it."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Final, NamedTuple

from kohort.client.requests.credentials import principal_of
from kohort.config.client import ClientConfig, ConsumerConfig, ProducerConfig
from kohort.errors import ApiError, ErrorCode


class _Kind(NamedTuple):
    what: str
    flag: str
    consumer: str
    producer: str


KINDS: Final[Mapping[ErrorCode, _Kind]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _Kind("topic", "--topic", "READ", "WRITE"),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _Kind("group", "--group", "READ", "READ"),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _Kind("transactional.id", "--transactional-id", "", "WRITE"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _Kind("the cluster", "--cluster", "", "IDEMPOTENT_WRITE"),
}
"""What each code is about, and what a consumer and a producer need there."""


def answer_error(config: ClientConfig, code: ErrorCode, text: str, *, name: str = "") -> ApiError:
    """Return the error for an answer. ``name`` is the topic or the group that it is about, where that is not the one
    that the client is configured for."""
    kind = KINDS.get(code)
    return ApiError(code, text if kind is None else f"{text}{_lacking(config, kind, name)}")


def _lacking(config: ClientConfig, kind: _Kind, name: str) -> str:
    operation = ""
    if isinstance(config, ConsumerConfig):
        operation = kind.consumer
    if isinstance(config, ProducerConfig):
        operation = kind.producer
    if isinstance(config, ConsumerConfig) and kind.what == "group":
        name = name or config.group_id or ""
    if isinstance(config, ProducerConfig) and kind.what == "transactional.id":
        name = name or config.transactional_id or ""
    resource = kind.what if kind.flag == "--cluster" else f"{kind.what} {name!r}"
    if not operation or not (name or kind.flag == "--cluster"):
        return ""
    principal = principal_of(config)
    server = config.bootstrap_servers[0]
    command = f"kafka-acls --bootstrap-server {server} --add --allow-principal {quote(principal or 'User:NAME')}"
    granted = f"{command} --operation {operation} {kind.flag}" + (f" {quote(name)}" if name else "")
    return f"; {principal or 'this client'} needs {operation} on {resource}: {granted}"
