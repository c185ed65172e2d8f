"""Which right each call of the admin client takes, to tell whoever has it not (protocol/security.md#checks)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from kohort.client.admin.model import ConfigResource, PartitionOffset
from kohort.client.admin.operations import Operation, Results
from kohort.client.requests.denials import KINDS, lacking
from kohort.config.client import ClientConfig
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import TopicPartition

R = TypeVar("R")

_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_ID: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

RIGHTS: Final[Mapping[str, Mapping[ErrorCode, str]]] = MappingProxyType(
    {
        "create_topics": {_TOPIC: "CREATE"},
        "delete_topics": {_TOPIC: "DELETE"},
        "create_partitions": {_TOPIC: "ALTER"},
        "describe_topics": {_TOPIC: "DESCRIBE"},
        "list_offsets": {_TOPIC: "DESCRIBE"},
        "list_ends": {_TOPIC: "DESCRIBE"},
        "first_records": {_TOPIC: "READ"},
        "delete_records": {_TOPIC: "DELETE"},
        "describe_configs": dict.fromkeys((_TOPIC, _GROUP, _CLUSTER), "DESCRIBE_CONFIGS"),
        "alter_configs": dict.fromkeys((_TOPIC, _GROUP, _CLUSTER), "ALTER_CONFIGS"),
        "elect_leaders": {_CLUSTER: "ALTER"},
        "reassign_partitions": {_CLUSTER: "ALTER"},
        "list_reassignments": {_CLUSTER: "DESCRIBE"},
        "describe_transactions": {_ID: "DESCRIBE"},
        "fence_producers": {_ID: "WRITE"},
        "describe_producers": {_TOPIC: "READ"},
        "abort_transaction": {_TOPIC: "DESCRIBE", _CLUSTER: "ALTER"},
        "describe_groups": {_GROUP: "DESCRIBE"},
        "delete_groups": {_GROUP: "DELETE"},
        "list_group_offsets": {_GROUP: "DESCRIBE", _TOPIC: "DESCRIBE"},
        "list_offsets_of_groups": {_GROUP: "DESCRIBE"},
        "alter_group_offsets": {_GROUP: "READ", _TOPIC: "READ"},
        "remove_group_members": {_GROUP: "READ"},
        "delete_group_offsets": {_GROUP: "DELETE", _TOPIC: "READ"},
        "describe_acls": {_CLUSTER: "DESCRIBE"},
        "create_acls": {_CLUSTER: "ALTER"},
        "delete_acls": {_CLUSTER: "ALTER"},
        "describe_user_scram_credentials": {_CLUSTER: "DESCRIBE"},
        "alter_user_scram_credentials": {_CLUSTER: "ALTER"},
        "describe_client_quotas": {_CLUSTER: "DESCRIBE_CONFIGS"},
        "alter_client_quotas": {_CLUSTER: "ALTER_CONFIGS"},
    }
)
"""By call, and by what a broker says: the operation that is enough for the whole call, looking for leaders and
coordinators included. Calls that leave out what may not be seen are not here."""


def with_rights(config: ClientConfig, call: str, about: str, operation: Operation[R]) -> Operation[R]:
    """Run an operation; its errors, raised or in its results, say which right was missing and how it is granted.

    ``about`` is the group that the call is about, where its items are partitions.
    """
    try:
        found = yield from operation
    except ApiError as error:
        raise _told(config, call, about, error) from None
    if isinstance(found, Results):
        for item, refused in found.errors.items():
            found.errors[item] = _told(config, call, _name(refused, item, about), refused)
    return found


def _told(config: ClientConfig, call: str, name: str, error: KohortError) -> KohortError:
    if not isinstance(error, ApiError) or error.code not in KINDS:
        return error
    advice = lacking(config, KINDS[error.code], RIGHTS.get(call, {}).get(error.code, ""), name)
    return ApiError(error.code, error.message.rstrip(".") + advice) if advice else error


def _name(error: KohortError, item: Any, about: str) -> str:
    if isinstance(item, ConfigResource):
        return item.name
    if isinstance(item, PartitionOffset):
        item = item.partition
    if isinstance(item, TopicPartition):
        return item.topic if isinstance(error, ApiError) and error.code is _TOPIC else about
    return item if isinstance(item, str) else about
