"""Kafka's own command-line tools, from the jars of ``tools/kafka``: run to their end, their output returned."""

from __future__ import annotations

import subprocess

from support.peers.apache_kafka import kafka_tool

RUN_S = 180
TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
}


def kafka(tool: str, *arguments: str, given: str = "", fails: bool = False) -> str:
    """``kafka-<tool>.sh arguments``; what it printed. The test fails if the tool does (with ``fails``: does not)."""
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{kafka_tool().TOOLS}/*"]
    done = subprocess.run(
        [*command, TOOLS[tool], *arguments], input=given, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    printed = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"kafka-{tool} {' '.join(arguments)}: {printed[-4000:]}"
    return printed
