"""A broker inside this process, for tests, notebooks and small services::

with kohort.Broker() as broker:
    producer = kohort.Producer(bootstrap_servers=broker.bootstrap)
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from kohort.aio.io_thread import new_loop
from kohort.aio.serving.cluster_server import ClusterServer, start_brokers
from kohort.aio.serving.server import Server, address_of
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.offsets_topic import NAME as OFFSETS_TOPIC
from kohort.config.broker import BrokerConfig
from kohort.config.listener_overrides import PREFIX
from kohort.config.listeners import address_text, check_listeners, parse_listener
from kohort.config.options import parse_config
from kohort.config.server_properties import ADD_SCRAM, understand, with_mechanisms
from kohort.coordinator.records import partition_of
from kohort.errors import ApiError, ConfigError, ErrorCode, UsageError
from kohort.log.topics import Topic
from kohort.secret import Secret
from kohort.security.sasl.exchange import Derivation
from kohort.security.sasl.scram import HASHES, ITERATIONS_LOW, SALT_BYTES

if TYPE_CHECKING:
    from kohort.aio.option_types import BrokerOptions

LISTENER: Final = "SASL_PLAINTEXT"


def options_for(users: Mapping[str, str | Secret], address: str) -> dict[str, Any]:
    """Return broker options for a listener at ``address`` that accepts SCRAM logins of ``users``.

    Raises ConfigError for an invalid user name or password.
    """
    if not users:
        raise ConfigError("users={}: expected a mapping of user names to passwords")
    lines = [_line(mechanism, name, users[name]) for name in users for mechanism in HASHES]
    return {ADD_SCRAM: Secret("\n".join(lines)), "listeners": f"{LISTENER}://{address}"}


def _line(mechanism: str, name: str, password: str | Secret) -> str:
    if not name or '"' in name or len(name.splitlines()) > 1 or not Secret(password):
        raise ConfigError(f"users: {name!r}: expected a user name in one line without quotes, and a password")
    salt = secrets.token_bytes(SALT_BYTES)
    salted = Derivation(Secret(password), salt, ITERATIONS_LOW, HASHES[mechanism]).derive()
    shown = [base64.b64encode(value).decode() for value in (salt, salted)]
    return f'{mechanism}=[name="{name}",iterations={ITERATIONS_LOW},salt="{shown[0]}",saltedpassword="{shown[1]}"]'


R = TypeVar("R")

EMBEDDED_DEFAULTS: Final[Mapping[str, Any]] = {"port": 0, "group.initial.rebalance.delay.ms": 0}
LOOPBACK: Final = "127.0.0.1"
_FORKED: Final = (
    "the broker runs in process {}, the parent before fork(): call it there, or create a Broker in this process"
)
LISTS: Final = ("listeners", "advertised.listeners")
"""Options that accept a Python list as well as Kafka's comma-separated text."""


class Broker:
    """A broker inside this process, by default in memory and on a free port of 127.0.0.1.

    ``with Broker() as broker:`` runs it on its own thread, ``async with`` on the caller's event loop. Without ``with``,
    call ``start`` and ``stop``. Clients connect to ``broker.bootstrap``. Any thread may call the methods.

    A child process after ``fork()`` can read the broker's addresses, so that it can create clients. There ``stop`` has
    no effect, and all other calls raise UsageError.
    """

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        nodes: int = 1,
        data_dir: str | Path | None = None,
        listen: str | None = None,
        users: Mapping[str, str | Secret] | None = None,
        **words: Unpack[BrokerOptions],
    ) -> None:
        """Configure a broker; ``start()`` or ``with`` runs it.

        - ``options``: Kafka's broker options as a mapping (``{"num.partitions": 6}``), or as keyword arguments with
          underscores (``num_partitions=6``).
        - ``nodes``: number of brokers in the cluster, each on its own ports. Methods stop and start nodes, and move
          leaders and coordinators.
        - ``data_dir``: folder for the data, in Kafka's format. Default: in memory.
        - ``listen``: ``HOST:PORT`` of a plaintext listener. For several listeners use the option ``listeners``, as a
          list or in Kafka's syntax.
        - ``users``: mapping of user names to passwords. Clients must then log in with SCRAM, by default on a
          SASL_PLAINTEXT listener. Users that exist in the data folder keep their passwords.

        Raises ConfigError for an unknown option or an invalid value.
        """
        if nodes < 1:
            raise ConfigError(f"nodes={nodes}: expected at least 1")
        if "brokers" in words:
            raise ConfigError("unknown option 'brokers': nodes= is the number of brokers")
        self._nodes = nodes
        given = dict(EMBEDDED_DEFAULTS)
        if listen is not None:
            host, port = parse_listener(listen, "listen")
            given |= {"host.name": host, "port": port}
        if users is not None:
            given |= options_for(users, address_text(given.get("host.name", LOOPBACK), given["port"]))
        given |= _config_options({**(options or {}), **words})
        self._config = parse_config(BrokerConfig, with_mechanisms(given))
        check_listeners(self._config)
        self._data_dir = Path(data_dir) if data_dir is not None else None
        self._server: Server | ClusterServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    @property
    def bootstrap(self) -> str:
        """Value for ``bootstrap.servers``: the address of each node's first listener, comma-separated."""
        return self._started().bootstrap

    def bootstrap_of(self, listener: str) -> str:
        """Return the ``bootstrap.servers`` value of the listener with this name.

        Raises UsageError for a listener that is not advertised.
        """
        addresses = self._started().addresses
        if listener.upper() not in addresses:
            raise UsageError(f"listener {listener!r} is not advertised; the advertised ones are {', '.join(addresses)}")
        return addresses[listener.upper()]

    @property
    def port(self) -> int:
        """Port of the first listener of the first node."""
        return int(self.bootstrap.split(",")[0].rpartition(":")[2])

    @property
    def cluster_id(self) -> str:
        """Cluster id: 22 characters, persisted with the broker's data."""
        return self._started().cluster_id

    @property
    def failed_handshakes(self) -> int:
        """Number of failed TLS handshakes since the start of the broker; its log has the reasons."""
        return self._running().failed_handshakes

    def _started(self) -> Server | ClusterServer:
        if self._server is None:
            raise UsageError("the broker is not running: use it in a with block, or call start()")
        return self._server

    def _running(self) -> Server | ClusterServer:
        server = self._started()
        if self._is_forked:
            raise UsageError(_FORKED.format(self._pid))
        return server

    @property
    def _is_forked(self) -> bool:
        return self._server is not None and self._pid != os.getpid()

    def _check_stopped(self) -> None:
        if self._is_forked:
            raise UsageError(_FORKED.format(self._pid))
        if self._server is not None:
            raise UsageError("the broker is already running")
        self._pid = os.getpid()

    @property
    def nodes(self) -> dict[int, str]:
        """Mapping of node ids to addresses (``host:port``) of all running nodes."""
        cluster = self._cluster
        return {node_id: address_of(cluster.nodes[node_id].first) for node_id in sorted(cluster.live)}

    def stop_node(self, node_id: int) -> None:
        """Stop a node: its connections close, and other nodes become leaders of its partitions.

        Raises ApiError for the last running node, and UsageError for a broker with one node.
        """
        self._on_loop(self._cluster_server().stop_node, node_id)

    def start_node(self, node_id: int) -> None:
        """Start a stopped node, and wait until it serves. Inside ``async with`` the method does not wait.

        Raises UsageError for a broker with one node, and ApiError for an unknown node.
        """
        server = self._cluster_server()
        if self._loop is None:
            server.cluster.want(node_id, up=True)
            server.reconcile()
        else:
            asyncio.run_coroutine_threadsafe(server.start_node(node_id), self._loop).result()

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the node id of a partition's leader; -1 if no node with a replica of the partition is running.

        Raises ApiError (UNKNOWN_TOPIC_OR_PARTITION) for a missing partition.
        """
        return self._on_loop(self._cluster.leader_of, self._topic(topic, partition), partition)

    def coordinator_of(self, group_id: str) -> int:
        """Return the node id of a group's coordinator; -1 if no node that could coordinate the group is running.

        Raises ApiError (UNKNOWN_TOPIC_OR_PARTITION) before ``__consumer_offsets`` exists.
        """
        return self.leader_of(OFFSETS_TOPIC, self._partition_of(group_id))

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make a node the leader of a partition.

        Raises ApiError for a stopped node or a missing partition, and UsageError for a broker with one node.
        """
        self._on_loop(self._lead, self._topic(topic, partition), partition, node_id)

    def move_coordinator(self, group_id: str, node_id: int) -> None:
        """Make a node the coordinator of a group and of all other groups in its partition of ``__consumer_offsets``.

        Raises the errors of ``move_leader``.
        """
        self.move_leader(OFFSETS_TOPIC, self._partition_of(group_id), node_id)

    @property
    def _cluster(self) -> Cluster:
        server = self._running()
        return server.cluster if isinstance(server, ClusterServer) else server.broker.state.cluster

    def _cluster_server(self) -> ClusterServer:
        server = self._running()
        if not isinstance(server, ClusterServer):
            raise UsageError("this broker has one node: create it with Broker(nodes=3) to stop nodes or move leaders")
        return server

    def _lead(self, topic: Topic, partition: int, node_id: int) -> None:
        server = self._cluster_server()
        server.cluster.lead(topic, partition, node_id)
        server.reconcile()

    def _topic(self, name: str, partition: int) -> Topic:
        topic = self._cluster.topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {name}-{partition} does not exist")
        return topic

    def _partition_of(self, group_id: str) -> int:
        return partition_of(group_id, len(self._topic(OFFSETS_TOPIC, 0).partitions))

    def _on_loop(self, action: Callable[..., R], *given: Any) -> R:
        if self._loop is None:
            return action(*given)

        async def call() -> R:
            return action(*given)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    def start(self) -> Broker:
        """Start the broker on a new thread, and wait until it serves.

        Raises UsageError if the broker runs already. Raises ConfigError or StorageError (such as DataDirInUse) if it
        cannot start.
        """
        self._check_stopped()
        loop = new_loop()
        thread = threading.Thread(target=_run_loop, args=(loop,), name="kohort-broker", daemon=True)
        thread.start()
        self._loop, self._thread = loop, thread
        try:
            self._server = asyncio.run_coroutine_threadsafe(self._serve(), loop).result()
        except BaseException:
            self._end_thread()
            raise
        return self

    def stop(self) -> None:
        """Persist the broker's data, close its connections and end its thread.

        Has no effect if the broker is not running, and in a forked child process.
        """
        if self._is_forked:
            return
        server, self._server = self._server, None
        if server is None or self._loop is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(server.stop(), self._loop).result()
        finally:
            self._end_thread()

    def _end_thread(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._check_stopped()
        self._server = await self._serve()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_forked:
            return
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def _serve(self) -> Server | ClusterServer:
        return await start_brokers(self._config, self._nodes, self._data_dir)


def _config_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the options of ``Broker`` to those of BrokerConfig. Options with Kafka's names may have string values."""
    kafkas = {
        name: ",".join(value) if name in LISTS and isinstance(value, list | tuple) else value
        for name, value in given.items()
        if name in LISTS or name.startswith(PREFIX) or ("." in name and isinstance(value, str))
    }
    understood = understand(kafkas)
    if understood.data_dir is not None:
        raise ConfigError("option log.dirs is not allowed here: pass the folder as the argument data_dir")
    return understood.options | {name: value for name, value in given.items() if name not in kafkas}


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
