"""Whose data folder this is: the cluster and node of ``meta.properties``, written at the first start."""

from __future__ import annotations

from typing import Final, NamedTuple

from kohort.clock import Rng
from kohort.config.broker import BrokerConfig
from kohort.errors import ConfigError
from kohort.log.checkpoints import META_PROPERTIES_FILE, build_properties, parse_properties
from kohort.log.storage import Storage
from kohort.model import uuid_to_text

VERSION: Final = "1"


class Identity(NamedTuple):
    """The ids that a broker shows."""

    cluster_id: str
    node_id: int


def claim_identity(storage: Storage, config: BrokerConfig, rng: Rng) -> Identity:
    """The folder's identity, made now if it has none. Raises ConfigError where the options contradict it."""
    properties = parse_properties(storage.read(META_PROPERTIES_FILE) or b"")
    cluster_id = properties.get("cluster.id")
    node_id = properties.get("node.id", properties.get("broker.id"))
    if cluster_id and config.cluster_id and cluster_id != config.cluster_id:
        raise ConfigError(
            f"cluster.id={config.cluster_id!r}: the data folder belongs to cluster {cluster_id!r};"
            f" leave the option out or use another folder"
        )
    if node_id and node_id != str(config.node_id):
        raise ConfigError(
            f"node.id={config.node_id}: the data folder belongs to node {node_id}; set node.id={node_id} or use another"
        )
    identity = Identity(cluster_id or config.cluster_id or uuid_to_text(_uuid(rng)), config.node_id)
    if not cluster_id or not node_id:
        kept = {"version": VERSION, "directory.id": uuid_to_text(_uuid(rng))} | properties
        kept |= {"cluster.id": identity.cluster_id, "node.id": str(identity.node_id)}
        storage.replace(META_PROPERTIES_FILE, build_properties(kept))
    return identity


def new_topic_id(rng: Rng) -> bytes:
    """An id for a topic."""
    return _uuid(rng)


def _uuid(rng: Rng) -> bytes:
    """A version 4 UUID; like Kafka's, never one whose text begins with a dash, as an option would."""
    while True:
        bits = (rng.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48)) | (4 << 76) | (2 << 62)
        value = bits.to_bytes(16, "big")
        if not uuid_to_text(value).startswith("-"):
            return value
