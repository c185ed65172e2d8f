"""A broker inside this process, for tests, notebooks and small services::

    with kohort.Broker() as broker:
        producer = kohort.Producer(bootstrap_servers=broker.bootstrap)

It listens on a free port of 127.0.0.1 and keeps everything in memory unless told otherwise. ``with`` runs it on a
thread of its own; ``async with`` runs it on the loop of the caller.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from kohort.aio.io_thread import new_loop
from kohort.aio.server import Server, storage_in
from kohort.config.broker import BrokerConfig
from kohort.config.listeners import parse_listener
from kohort.config.options import parse_config
from kohort.config.server_properties import understand
from kohort.errors import ConfigError, UsageError

EMBEDDED_DEFAULTS: Final[Mapping[str, Any]] = {"port": 0, "group.initial.rebalance.delay.ms": 0}
"""Where an embedded broker differs from Kafka's defaults: a free port, and no wait for a group's first members."""


class Broker:
    """A broker of one's own. Options by Kafka's names (``{"num.partitions": 6}``) or as words: ``num_partitions=6``."""

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        data_dir: str | Path | None = None,
        listen: str | None = None,
        **words: Any,
    ) -> None:
        """``data_dir`` keeps the data in Kafka's format on disk; ``listen`` is ``HOST:PORT``."""
        given = dict(EMBEDDED_DEFAULTS)
        if listen is not None:
            host, port = parse_listener(listen, "listen")
            given |= {"host.name": host, "port": port}
        for name, value in {**(options or {}), **words}.items():
            if "." in name and isinstance(value, str):
                said = understand({name: value})
                if said.data_dir is not None:
                    raise ConfigError(f"{name}: use data_dir=")
                given |= said.options
            else:
                given[name] = value
        self._config = parse_config(BrokerConfig, given)
        self._data_dir = Path(data_dir) if data_dir is not None else None
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap(self) -> str:
        """``host:port`` to give to any Kafka client."""
        return self._running().bootstrap

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def cluster_id(self) -> str:
        return self._running().broker.cluster_id

    def _running(self) -> Server:
        if self._server is None:
            raise UsageError("the broker is not running: use it in a with block, or call start()")
        return self._server

    # ------------------------------------------------------------ on a thread of its own

    def start(self) -> Broker:
        """Start on a thread of its own; returns when it serves. Raises ConfigError or StorageError where it cannot."""
        if self._server is not None:
            raise UsageError("the broker is running")
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
        """Flush, close, and end the thread. Nothing happens if it is not running."""
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

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------ on the caller's loop

    async def __aenter__(self) -> Broker:
        if self._server is not None:
            raise UsageError("the broker is running")
        self._server = await self._serve()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def _serve(self) -> Server:
        return await Server.start(self._config, storage_in(self._data_dir))


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
