"""Answers to the parts of a request that would make its answer too large."""

from __future__ import annotations

from kohort.broker.costs.cost import TOO_LARGE
from kohort.broker.request import Request
from kohort.coordinator.describe import FIRST_WITH_GROUP_ID_NOT_FOUND
from kohort.coordinator.offsets.fetch import FIRST_WITH_GROUPS
from kohort.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse, DescribeConfigsResult
from kohort.wire.messages.group_admin import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.group_consumer import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kohort.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kohort.wire.messages.producer_ids import (
    ActiveProducersPartition,
    ActiveProducersTopic,
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kohort.wire.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)


def refuse_groups(request: Request, message: str) -> DescribeGroupsResponse:
    asked: DescribeGroupsRequest = request.message
    told = message if request.version >= FIRST_WITH_GROUP_ID_NOT_FOUND else None
    return DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=TOO_LARGE, error_message=told, group_id=name) for name in asked.groups]
    )


def refuse_consumer_groups(request: Request, message: str) -> ConsumerGroupDescribeResponse:
    asked: ConsumerGroupDescribeRequest = request.message
    return ConsumerGroupDescribeResponse(
        groups=[
            ConsumerGroupDescribeGroup(error_code=TOO_LARGE, error_message=message, group_id=name)
            for name in asked.group_ids
        ]
    )


def refuse_transactions(request: Request, _message: str) -> DescribeTransactionsResponse:
    asked: DescribeTransactionsRequest = request.message
    return DescribeTransactionsResponse(
        transaction_states=[
            DescribedTransaction(error_code=TOO_LARGE, transactional_id=name) for name in asked.transactional_ids
        ]
    )


def refuse_configs(request: Request, message: str) -> DescribeConfigsResponse:
    asked: DescribeConfigsRequest = request.message
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=TOO_LARGE,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in asked.resources
        ]
    )


def refuse_producers(request: Request, message: str) -> DescribeProducersResponse:
    asked: DescribeProducersRequest = request.message
    return DescribeProducersResponse(
        topics=[
            ActiveProducersTopic(
                name=topic.name,
                partitions=[
                    ActiveProducersPartition(partition_index=p, error_code=TOO_LARGE, error_message=message)
                    for p in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ]
    )


def refuse_offsets(request: Request, _message: str) -> OffsetFetchResponse:
    """Refuse each partition; a group without partitions in the request as a whole."""
    asked: OffsetFetchRequest = request.message
    if request.version < FIRST_WITH_GROUPS:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=p, committed_offset=-1, metadata="", error_code=TOO_LARGE
                        )
                        for p in topic.partition_indexes
                    ],
                )
                for topic in asked.topics or ()
            ]
        )
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=TOO_LARGE)
            if group.topics is None
            else OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=[
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partitions=[
                            OffsetFetchResponsePartitions(
                                partition_index=p, committed_offset=-1, metadata="", error_code=TOO_LARGE
                            )
                            for p in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics
                ],
            )
            for group in asked.groups
        ]
    )
