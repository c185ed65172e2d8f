"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31), versions 1-3: SECURITY_DISABLED, as Kafka without an authorizer.

The answer says in words that there is no access control here. Without an answer the client would lose its connection.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode
from kohort.wire.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsResponse,
)

CODE: Final = ErrorCode.SECURITY_DISABLED
WORDS: Final = "No Authorizer is configured on the broker"


def describe_acls(_state: BrokerState, _request: Request) -> Answer:
    return DescribeAclsResponse(error_code=CODE, error_message=WORDS)


def create_acls(_state: BrokerState, request: Request) -> Answer:
    message: CreateAclsRequest = request.message
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=CODE, error_message=WORDS)] * len(message.creations)
    )


def delete_acls(_state: BrokerState, request: Request) -> Answer:
    message: DeleteAclsRequest = request.message
    refused = DeleteAclsFilterResult(error_code=CODE, error_message=WORDS)
    return DeleteAclsResponse(filter_results=[refused] * len(message.filters))
