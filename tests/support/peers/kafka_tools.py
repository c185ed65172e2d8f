"""Kafka's own command-line tools, from the jars of ``tools/kafka``: run to their end, their output returned."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

from support.peers.apache_kafka import kafka_tool

RUN_S = 180
LEARNT_FROM = "consumer-groups"
"""The tool that fills the shared class archive: it runs most often, and shares most classes with the others."""
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


def kafka(tool: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
    """Run ``kafka-<tool>.sh arguments``; return its output. The test fails if the tool does (``fails``: does not)."""
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    kept = kafka_tool().TOOLS.with_suffix(".jsa")
    mine = kept.with_name(f"{uuid.uuid4().hex}.jsa")
    classes = _loads_from(kept) if kept.exists() else _keeps_in(mine) if tool == LEARNT_FROM else []
    done = subprocess.run(
        [*command, *classes, "-cp", f"{kafka_tool().TOOLS}/*", TOOLS[tool], *arguments],
        input=stdin, capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    printed = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"kafka-{tool} {' '.join(arguments)}: {printed[-4000:]}"
    if not fails and mine.exists():  # renamed when complete: a partial archive would end a JVM
        mine.replace(kept)
    return printed


def _loads_from(kept: Path) -> list[str]:
    """Return JVM flags for the shared class archive, which halves the start time of a tool.

    If jars or JVM differ, the JVM silently loads the classes itself.
    """
    return ["-Xlog:disable", f"-XX:SharedArchiveFile={kept}"]


def _keeps_in(archive: Path) -> list[str]:
    return ["-Xlog:disable", f"-XX:ArchiveClassesAtExit={archive}"]
