"""Several brokers (nodes) in one process, each on its own port, with one storage and one event loop.

After each event, each node processes the messages from other nodes. Then servers are started and stopped, so that
exactly the nodes run that the cluster's state requires. A node that stops closes its port and connections.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from kohort.aio.serving.broker_log import BrokerLog
from kohort.aio.serving.listening import Bound, bind
from kohort.aio.serving.server import LOGGER, Server, address_of, flushes_of, storage_in
from kohort.aio.system import SystemClock, system_rng
from kohort.broker.broker import Broker
from kohort.broker.cluster.cluster import Cluster, ClusterNode
from kohort.broker.cluster.nodes import node_of
from kohort.broker.counters import Durations
from kohort.broker.request import Intercept
from kohort.clock import Clock, Rng
from kohort.config.broker import BrokerConfig
from kohort.config.listeners import Listener, advertised_of, listeners_of, with_ports
from kohort.errors import ConfigError
from kohort.log.storage import Storage
from kohort.notes import Note, info, warning

PORT_RETRY_S: Final = 1.0
"""Delay in seconds until a node retries to bind a port that another program uses."""
PORT_MAX: Final = 65535


class ClusterServer:
    """Servers of all nodes of a process: ``await ClusterServer.start(...)`` starts them, ``await stop()`` ends them."""

    def __init__(
        self, cluster: Cluster, configs: dict[int, BrokerConfig], clock: Clock, rng: Rng, intercept: Intercept | None
    ) -> None:
        self.cluster = cluster
        self.servers: dict[int, Server] = {}
        self._configs = configs
        self._clock = clock
        self._rng = rng
        self.flushes: Durations | None = None
        self.on_node: Callable[[Server], None] | None = None
        self._intercept = intercept
        self._log = BrokerLog(LOGGER)
        self._resources = ExitStack()
        self._loop = asyncio.get_running_loop()
        self._starting: dict[int, asyncio.Task[None]] = {}
        self._will_reconcile = False
        self._stopped = False

    @classmethod
    async def start(
        cls,
        config: BrokerConfig,
        count: int,
        open_storage: Callable[[], AbstractContextManager[Storage]],
        *,
        clock: Clock | None = None,
        intercept: Intercept | None = None,
    ) -> ClusterServer:
        """Bind the ports of all nodes, recover the data, and serve. ``node_configs`` sets their node ids and ports.

        Raises ConfigError for an unusable address, StorageError for unusable data.
        """
        clock, rng = clock or SystemClock(), system_rng()
        with ExitStack() as resources:
            configs: dict[int, BrokerConfig] = {}
            listening: dict[int, Bound] = {}
            for node_config in node_configs(config, count):
                bound = listening[node_config.node_id] = bind(node_config)
                resources.callback(bound.close)
                configs[node_config.node_id] = bound.config
            storage = resources.enter_context(open_storage())
            nodes = [node_of(one, node_id) for node_id, one in configs.items()]
            cluster = Cluster(config, storage, rng, clock.now_ms(), nodes)
            cluster.nodes_are_up(configs)
            self = cls(cluster, configs, clock, rng, intercept)
            self.flushes = flushes_of(storage)
            self._log.write([*cluster.topics.recovery_notes, *cluster.transactions.notes], clock.now_ms())
            for node_id, bound in listening.items():
                self.servers[node_id] = self._server(node_id)
                await self.servers[node_id].listen(bound.listeners)
            self._resources = resources.pop_all()
        return self

    def _server(self, node_id: int) -> Server:
        broker = Broker(
            self._configs[node_id],
            ClusterNode(self.cluster, node_id),
            self._rng,
            self._clock.now_ms(),
            intercept=self._intercept,
        )
        broker.state.quotas.thread_time_ns = time.thread_time_ns
        server = Server(broker, self._clock, self._after_event, self._log)
        if self.on_node is not None:
            self.on_node(server)
        return server

    @property
    def bootstrap(self) -> str:
        return ",".join(address_of(node.first) for node in self.cluster.nodes.values())

    @property
    def addresses(self) -> Mapping[str, str]:
        nodes = list(self.cluster.nodes.values())
        return {name: ",".join(address_of(node.at[name]) for node in nodes) for name in nodes[0].at}

    @property
    def cluster_id(self) -> str:
        return self.cluster.topics.cluster_id

    @property
    def failed_handshakes(self) -> int:
        return sum(server.failed_handshakes for server in list(self.servers.values()))

    async def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        for task in self._starting.values():
            task.cancel()
        with self._resources:
            for server in self.servers.values():
                await server.stop()
            self.servers.clear()
            problems = [warning(f"not closed cleanly: {problem}") for problem in self.cluster.close()]
            self._log.write(problems, self._clock.now_ms())

    def _log_note(self, note: Note) -> None:
        self._log.write([note], self._clock.now_ms())

    def stop_node(self, node_id: int) -> None:
        """Stop a node; other nodes become leaders of its partitions.

        Raises ApiError for an unknown node, and for the last running node.
        """
        self.cluster.want(node_id, up=False)
        self.reconcile()

    async def start_node(self, node_id: int) -> None:
        self.cluster.want(node_id, up=True)
        self.reconcile()
        task = self._starting.get(node_id)
        if task is not None:
            await asyncio.shield(task)

    def _after_event(self) -> None:
        has_work = self.cluster.has_messages or self.cluster.wanted != self.servers.keys()
        if has_work and not self._will_reconcile and not self._stopped:
            self._will_reconcile = True
            self._loop.call_soon(self.reconcile)

    def reconcile(self) -> None:
        """Start and stop nodes as the cluster's state requires, and let nodes process messages from other nodes."""
        self._will_reconcile = False
        if self._stopped:
            return
        for node_id in [n for n in self.servers if n not in self.cluster.wanted]:
            self._log_note(info(f"stopping node {node_id}"))
            self.servers.pop(node_id).end()
        for node_id in self.cluster.wanted - self.servers.keys() - self._starting.keys():
            self._starting[node_id] = self._loop.create_task(self._start_node(node_id))
        for server in self.servers.values():
            server.arm()

    async def _start_node(self, node_id: int) -> None:
        try:
            while node_id in self.cluster.wanted:
                try:
                    bound = bind(self._configs[node_id])
                except ConfigError as error:
                    self._log_note(warning(f"node {node_id} cannot start yet: {error}", ("port", node_id)))
                    await asyncio.sleep(PORT_RETRY_S)
                    continue
                self.servers[node_id] = self._server(node_id)
                await self.servers[node_id].listen(bound.listeners)
                self.cluster.nodes_are_up([node_id])
                self._log_note(info(f"node {node_id} serves again"))
                break
        finally:
            del self._starting[node_id]
        self.reconcile()


Beside = Callable[[Server | ClusterServer], AbstractContextManager[object]]


def node_configs(config: BrokerConfig, count: int) -> list[BrokerConfig]:
    """Return the options of each node. Node id and ports increase by 1 from node to node, starting with ``config``.

    With port 0 every node gets any free port. Raises ConfigError if two listeners need the same port, or if a port
    exceeds 65535.
    """
    own, advertised_listeners = listeners_of(config), advertised_of(config) if config.advertised_listeners else []
    configs: list[BrokerConfig] = []
    taken: dict[int, Listener] = {}
    for i in range(count):
        ports = [listener.port + i if listener.port else 0 for listener in own]
        for listener, port in zip(own, ports, strict=True):
            other = taken.setdefault(port, listener) if port else listener
            if port > PORT_MAX:
                raise ConfigError(
                    f"{count} brokers from port {listener.port} on: port {port} exceeds 65535; choose a lower port"
                )
            if other.port != listener.port:
                raise ConfigError(
                    f"{count} brokers: {other} and {listener} both need port {port}; choose ports with gaps of {count}"
                )
        advertised = [str(listener.at(listener.host, listener.port + i)) for listener in advertised_listeners]
        one = replace(config, node_id=config.node_id + i, advertised_listeners=advertised)
        configs.append(with_ports(one, ports))
    return configs


async def start_brokers(
    config: BrokerConfig,
    count: int,
    data_dir: Path | None,
    *,
    clock: Clock | None = None,
    intercept: Intercept | None = None,
) -> Server | ClusterServer:
    if count == 1:
        return await Server.start(config, storage_in(data_dir), clock=clock, intercept=intercept)
    return await ClusterServer.start(config, count, storage_in(data_dir), clock=clock, intercept=intercept)


async def run(
    config: BrokerConfig,
    count: int,
    data_dir: Path | None,
    ready: Callable[[Mapping[str, str], str], None],
    beside: Beside = nullcontext,
) -> None:
    """Run the brokers until SIGTERM or SIGINT.

    ``ready`` is called with the addresses of the listeners and the cluster id. The context manager ``beside`` is
    entered before this call, and exited before the brokers stop.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    server = await start_brokers(config, count, data_dir)
    try:
        with beside(server):
            ready(server.addresses, server.cluster_id)
            await stopping.wait()
            LOGGER.info("stopping")
    finally:
        await server.stop()
