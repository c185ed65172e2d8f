"""A broker inside this process, for tests, notebooks and small services::

    with kohort.Broker() as broker:
        producer = kohort.Producer(bootstrap_servers=broker.bootstrap)

It listens on a free port of 127.0.0.1 and keeps everything in memory unless told otherwise. ``with`` runs it on a
thread of its own; ``async with`` runs it on the loop of the caller.
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

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

LISTENER: Final = "SASL_PLAINTEXT"
"""The listener of a broker with users that is told of no other."""


def options_for(users: Mapping[str, str | Secret], address: str) -> dict[str, Any]:
    """Return the options of a broker at ``address`` on which these users log in by SCRAM. Raises ConfigError."""
    if not users:
        raise ConfigError("users={}: expected names and their passwords")
    lines = [_line(mechanism, name, users[name]) for name in users for mechanism in HASHES]
    return {ADD_SCRAM: Secret("\n".join(lines)), "listeners": f"{LISTENER}://{address}"}


def _line(mechanism: str, name: str, password: str | Secret) -> str:
    if not name or '"' in name or len(name.splitlines()) > 1 or not Secret(password):
        raise ConfigError(f"users: {name!r}: expected a name in one line without quotes, and a password")
    salt = secrets.token_bytes(SALT_BYTES)
    salted = Derivation(Secret(password), salt, ITERATIONS_LOW, HASHES[mechanism]).derive()
    shown = [base64.b64encode(value).decode() for value in (salt, salted)]
    return f'{mechanism}=[name="{name}",iterations={ITERATIONS_LOW},salt="{shown[0]}",saltedpassword="{shown[1]}"]'


R = TypeVar("R")

EMBEDDED_DEFAULTS: Final[Mapping[str, Any]] = {"port": 0, "group.initial.rebalance.delay.ms": 0}
"""Where an embedded broker differs from Kafka's defaults: a free port, and no wait for a group's first members."""
LOOPBACK: Final = "127.0.0.1"
_INHERITED: Final = (
    "the broker runs in process {}, from which this one was forked: call it there, or make a Broker in this process"
)
LISTS: Final = ("listeners", "advertised.listeners")
"""Options that may be a list, which are read as in a server.properties."""


class Broker:
    """A broker inside this process: in memory unless told otherwise, on a free port of 127.0.0.1.

    ``with Broker() as broker:`` runs it on a thread of its own, ``async with`` on the loop of the caller; ``start`` and
    ``stop`` do the same as ``with``. Clients connect to ``broker.bootstrap``. The methods may be called by any thread.

    A child process that is forked meanwhile has the addresses of the broker, for its clients. There ``stop`` does
    nothing, and every other call raises UsageError.
    """

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        nodes: int = 1,
        data_dir: str | Path | None = None,
        listen: str | None = None,
        users: Mapping[str, str | Secret] | None = None,
        **words: Any,
    ) -> None:
        """Set up a broker, which does not run yet.

        ``options`` are Kafka's options of brokers by their names (``{"num.partitions": 6}``); the same can be given as
        keyword arguments, with underscores: ``num_partitions=6``. ``data_dir`` keeps the data in Kafka's format on
        disk. ``listen`` is ``HOST:PORT``, the short way for one plaintext listener; the option ``listeners`` has
        several, as a list or as Kafka writes them. ``nodes`` makes it a cluster of so many brokers, each on ports of
        its own, whose leaders and group coordinators can be moved, and which can be stopped and started one by one.
        ``users`` are names and passwords: clients then log in, by SCRAM, on the listener SASL_PLAINTEXT unless the
        option ``listeners`` has others. Users that the data folder knows already stay as they are.

        Raises ConfigError for an option that does not exist or has a value that is not allowed.
        """
        if nodes < 1:
            raise ConfigError(f"nodes={nodes}: at least one is needed")
        self._nodes = nodes
        given = dict(EMBEDDED_DEFAULTS)
        if listen is not None:
            host, port = parse_listener(listen, "listen")
            given |= {"host.name": host, "port": port}
        if users is not None:
            given |= options_for(users, address_text(given.get("host.name", LOOPBACK), given["port"]))
        given |= _in_our_terms({**(options or {}), **words})
        self._config = parse_config(BrokerConfig, with_mechanisms(given))
        check_listeners(self._config)
        self._data_dir = Path(data_dir) if data_dir is not None else None
        self._server: Server | ClusterServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    @property
    def bootstrap(self) -> str:
        """The address for any client's ``bootstrap.servers``: ``host:port``, of several nodes with commas between.

        Of several listeners it is the first. Raises UsageError while the broker does not run, as everything does that
        asks about a running one.
        """
        return self._started().bootstrap

    def bootstrap_of(self, listener: str) -> str:
        """Return ``bootstrap`` of one listener, by its name. Raises UsageError for one that clients are not told of."""
        addresses = self._started().addresses
        if listener.upper() not in addresses:
            raise UsageError(f"no listener {listener!r} is advertised, only {', '.join(addresses)}")
        return addresses[listener.upper()]

    @property
    def port(self) -> int:
        """The port that the broker listens on; with several nodes, that of the first."""
        return int(self.bootstrap.split(",")[0].rpartition(":")[2])

    @property
    def cluster_id(self) -> str:
        """The id of the cluster: 22 letters, kept with the data."""
        return self._started().cluster_id

    @property
    def failed_handshakes(self) -> int:
        """How many connections to listeners with TLS have failed since the broker began; the log says why each did."""
        return self._running().failed_handshakes

    def _started(self) -> Server | ClusterServer:
        if self._server is None:
            raise UsageError("the broker is not running: use it in a with block, or call start()")
        return self._server

    def _running(self) -> Server | ClusterServer:
        server = self._started()
        if self._is_inherited:
            raise UsageError(_INHERITED.format(self._pid))
        return server

    @property
    def _is_inherited(self) -> bool:
        """True in a forked child: the broker runs in the parent process."""
        return self._server is not None and self._pid != os.getpid()

    def _check_stopped(self) -> None:
        if self._is_inherited:
            raise UsageError(_INHERITED.format(self._pid))
        if self._server is not None:
            raise UsageError("the broker is running")
        self._pid = os.getpid()

    # ------------------------------------------------------------ the nodes of several

    @property
    def nodes(self) -> dict[int, str]:
        """The address (``host:port``) of every node that is up, by its id."""
        cluster = self._cluster
        return {node_id: address_of(cluster.nodes[node_id].first) for node_id in sorted(cluster.live)}

    def stop_node(self, node_id: int) -> None:
        """Stop a node: its connections end, and others lead what it led.

        Raises ApiError for the last one that is up, and UsageError for a broker that is one node.
        """
        self._on_loop(self._several().stop_node, node_id)

    def start_node(self, node_id: int) -> None:
        """Start a node that was stopped. It serves when this returns; within ``async with``, soon after.

        Raises UsageError for a broker that is one node, and ApiError for a node that does not exist.
        """
        server = self._several()
        if self._loop is None:
            server.cluster.want(node_id, up=True)
            server.reconcile()
        else:
            asyncio.run_coroutine_threadsafe(server.start_node(node_id), self._loop).result()

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the id of the node that leads a partition; -1 while none is up that could.

        Raises ApiError (UNKNOWN_TOPIC_OR_PARTITION) for a partition that does not exist.
        """
        return self._on_loop(self._cluster.leader_of, self._topic(topic, partition), partition)

    def coordinator_of(self, group_id: str) -> int:
        """Return the id of the node that coordinates a group; -1 while none is up that could.

        Raises ApiError (UNKNOWN_TOPIC_OR_PARTITION) as long as there is no ``__consumer_offsets``.
        """
        return self.leader_of(OFFSETS_TOPIC, self._partition_of(group_id))

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make a node lead a partition from now on.

        Raises ApiError for a node that is not up and a partition that does not exist, and UsageError for a broker that
        is one node.
        """
        self._on_loop(self._lead, self._topic(topic, partition), partition, node_id)

    def move_coordinator(self, group_id: str, node_id: int) -> None:
        """Make a node coordinate a group, and the others of its partition, from now on. Raises as ``move_leader``."""
        self.move_leader(OFFSETS_TOPIC, self._partition_of(group_id), node_id)

    @property
    def _cluster(self) -> Cluster:
        server = self._running()
        return server.cluster if isinstance(server, ClusterServer) else server.broker.state.cluster

    def _several(self) -> ClusterServer:
        server = self._running()
        if not isinstance(server, ClusterServer):
            raise UsageError("this broker is one node: make it with Broker(nodes=3) to stop and start some")
        return server

    def _lead(self, topic: Topic, partition: int, node_id: int) -> None:
        server = self._several()
        server.cluster.lead(topic, partition, node_id)
        server.reconcile()

    def _topic(self, name: str, partition: int) -> Topic:
        topic = self._cluster.topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{partition}")
        return topic

    def _partition_of(self, group_id: str) -> int:
        topic = self._topic(OFFSETS_TOPIC, 0)
        return partition_of(group_id, len(topic.partitions))

    def _on_loop(self, action: Callable[..., R], *given: Any) -> R:
        """Call ``action`` on the loop of the brokers, and return its result."""
        if self._loop is None:
            return action(*given)

        async def there() -> R:
            return action(*given)

        return asyncio.run_coroutine_threadsafe(there(), self._loop).result()

    # ------------------------------------------------------------ on a thread of its own

    def start(self) -> Broker:
        """Start on a thread of its own, and return when it serves.

        Raises UsageError if it runs already, ConfigError or StorageError where it cannot, such as DataDirInUse.
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
        """Write what is to be written, end all connections and the thread.

        Does nothing if the broker is not running, or runs in the parent of this process, which was forked.
        """
        if self._is_inherited:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------ on the caller's loop

    async def __aenter__(self) -> Self:
        self._check_stopped()
        self._server = await self._serve()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_inherited:
            return
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def _serve(self) -> Server | ClusterServer:
        return await start_brokers(self._config, self._nodes, self._data_dir)


def _in_our_terms(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as BrokerConfig has them; what is text by one of Kafka's names may be any option of a
    server.properties."""
    kafkas = {
        name: ",".join(value) if name in LISTS and isinstance(value, list | tuple) else value
        for name, value in given.items()
        if name in LISTS or name.startswith(PREFIX) or ("." in name and isinstance(value, str))
    }
    said = understand(kafkas)
    if said.data_dir is not None:
        raise ConfigError("log.dirs: use data_dir=")
    return said.options | {name: value for name, value in given.items() if name not in kafkas}


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
