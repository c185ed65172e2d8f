"""Convert error codes to errors; an authorization error names principal, operation and the command to add the ACL."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Final, NamedTuple

from kohort.client.requests.credentials import principal_of
from kohort.config.client import ClientConfig, ConsumerConfig, ProducerConfig
from kohort.errors import ApiError, ErrorCode


class DeniedResource(NamedTuple):
    """A kind of resource, the flag of `kohort acls add` for it, and the operations that clients need on it."""

    resource: str
    flag: str
    consumer: str
    producer: str


DENIED_RESOURCES: Final[Mapping[ErrorCode, DeniedResource]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: DeniedResource("topic", "--topic", "READ", "WRITE"),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: DeniedResource("group", "--group", "READ", "READ"),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: DeniedResource(
        "transactional.id", "--transactional-id", "", "WRITE"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: DeniedResource("the cluster", "--cluster", "", "IDEMPOTENT_WRITE"),
}


def answer_error(config: ClientConfig, code: ErrorCode, text: str, *, name: str = "") -> ApiError:
    """Convert an error code in a response to an error. An authorization error names the missing ACL, if it is known.

    ``name``: denied topic or group; default: the group or transactional id of the configuration.
    """
    denied = DENIED_RESOURCES.get(code)
    if denied is None:
        return ApiError(code, text)
    operation = ""
    if isinstance(config, ConsumerConfig):
        operation = denied.consumer
        name = name or (config.group_id or "" if denied.resource == "group" else "")
    if isinstance(config, ProducerConfig):
        operation = denied.producer
        name = name or (config.transactional_id or "" if denied.resource == "transactional.id" else "")
    return ApiError(code, f"{text}{missing_right(config, denied, operation, name)}")


def missing_right(config: ClientConfig, denied: DeniedResource, operation: str, name: str) -> str:
    """Return a text for an authorization error: the missing ACL and the command that adds it; "" if unknown."""
    of_cluster = denied.flag == "--cluster"
    if not operation or not (name or of_cluster):
        return ""
    resource = denied.resource if of_cluster else f"{denied.resource} {name!r}"
    principal = principal_of(config)
    server = config.bootstrap_servers[0]
    command = f"kohort acls add --bootstrap {server} --allow-principal {quote(principal or 'User:NAME')}"
    granted = f"{command} --operation {operation} {denied.flag}" + ("" if of_cluster else f" {quote(name)}")
    return f"; {principal or 'this client'} needs {operation} on {resource}: {granted}"
