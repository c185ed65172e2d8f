"""The session of a consumer group in tasks: its claims, the tasks that handle them, and what handlers are."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

from kohort.aio.consuming.async_waits import AsyncConsumerWaits
from kohort.aio.consuming.record_reader import layout_of
from kohort.aio.group.group_session import Session
from kohort.client.partition_claims import ClaimState
from kohort.client.reading.fetched import Fetched
from kohort.client.requests.close_timeout import Parting
from kohort.client.user_input import checked_ms
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiTimeout
from kohort.model import Record, TopicPartition

if TYPE_CHECKING:
    import pyarrow


class AsyncGroupSession(Session):
    """The session of a group in tasks."""

    def __init__(self, waits: AsyncConsumerWaits, config: ConsumerConfig, max_processing_time_ms: int) -> None:
        auto_ms = config.auto_commit_interval_ms if config.enable_auto_commit else None
        super().__init__(waits.machine, max_processing_time_ms, auto_ms, nullcontext)
        self._waits = waits
        self._commit_ms = config.default_api_timeout_ms
        check_crcs = config.check_crcs
        self.claims = tuple(AsyncClaim(self, waits, state, check_crcs) for state in self.claimed.by_partition.values())
        self._tasks: list[asyncio.Task[None]] = []

    async def commit(self, *, timeout_ms: int | None = None) -> None:
        """Commit what is marked, and wait until that is written. Raises CommitFailed if the group has gone on."""
        timeout = self._commit_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        offsets, promise = self.begin_commit(self._waits.now_ms() + timeout)
        self._waits.kick()
        await self._waits.wait_for(promise, timeout, "the commit was not answered in time", check=False)
        self.claimed.committed(offsets)

    async def commit_last(self) -> None:
        """As ``commit``, but without waiting for a broker that cannot be reached: the session is the last one."""
        parting = Parting(self._waits.machine.engine, self._waits.now_ms(), most_ms=self._commit_ms)
        offsets, promise = self.begin_commit(parting.deadline_ms)
        self._waits.kick()
        await self._waits.wait_last(promise, parting)
        if not promise.done:
            raise ApiTimeout("no broker answered in time")
        promise.result()
        self.claimed.committed(offsets)

    # For the group

    def start(self, handler: AsyncHandler) -> None:
        for claim in self.claims:
            name = f"kohort-claim-{claim.topic}-{claim.partition}"
            self._tasks.append(asyncio.create_task(self._handle(handler, claim), name=name))

    async def _handle(self, handler: AsyncHandler, claim: AsyncClaim) -> None:
        try:
            await handler.consume_claim(self, claim)
        except asyncio.CancelledError as error:
            if not self._ending:  # cancelled by somebody else than this session, which would end for no known reason
                self.fail(claim.state, error)
            raise
        except BaseException as error:  # noqa: BLE001  # the task that runs the group raises it
            self.fail(claim.state, error)
        finally:
            self.end()

    def feed(self) -> bool | None:
        """Hand on what came; True when the session is over."""
        if self._ending:
            return True
        now_ms = self._waits.now_ms()
        fed, freed = self.claimed.feed(now_ms)
        self.commit_by_clock(now_ms)
        for claim in self.claims:
            if claim.state in fed:
                claim.changed.set()
        if freed:
            self._waits.kick()
        return None

    def has_work(self) -> bool:
        return self._ending or self.claimed.has_work()

    def end(self) -> None:
        """The claims' iterations stop."""
        self._ending = True
        for claim in self.claims:
            claim.changed.set()
        self._waits.kick()

    def is_mine(self, task: asyncio.Task[object] | None) -> bool:
        return task in self._tasks

    async def join(self, patience_ms: int) -> None:
        """Wait until every handler has returned; those that have not in time are cancelled."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=patience_ms / 1000)
        for task in late:
            task.cancel(f"the session was over for {patience_ms} ms")
        if late:
            await asyncio.wait(late)


class AsyncClaim:
    """One partition during one session. ``async for`` gives its records until the session ends."""

    def __init__(
        self, session: AsyncGroupSession, waits: AsyncConsumerWaits, state: ClaimState, check_crcs: bool
    ) -> None:
        self.topic = state.partition.topic
        self.partition = state.partition.partition
        self.initial_offset = state.start.offset
        self.state = state
        """What the session keeps of it."""
        self.changed = asyncio.Event()
        self._session = session
        self._waits = waits
        self._check_crcs = check_crcs

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.partition

    @property
    def high_watermark(self) -> int | None:
        """The offset behind the last record of the log, as the last fetch told it."""
        return self.state.state.high_watermark

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Records one by one, until the session ends. Raises CorruptRecord where the log is damaged."""
        async for records in self.batches():
            for record in records:
                if self._session.ending:
                    return
                yield record

    async def batches(self) -> AsyncIterator[list[Record]]:
        """Records as they were fetched, in lists."""
        while (fetched := await self._take()) is not None:
            records = fetched.decode_records(check_crcs=self._check_crcs)
            if records:
                yield records
            self._check(fetched)

    async def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
    ) -> AsyncIterator[pyarrow.RecordBatch]:
        """Arrow batches as they were fetched; options as of ``Consumer.poll_arrow``. Mark with ``mark_offset``."""
        layout = layout_of(schema, columns, json)
        while (fetched := await self._take()) is not None:
            for batch in fetched.decode_arrow(check_crcs=self._check_crcs, layout=layout):
                yield batch
            self._check(fetched)

    def _check(self, fetched: Fetched) -> None:
        """Raises CorruptRecord for damage that is there when it is fetched once more, too."""
        if fetched.error is None:
            return
        if not self._session.claimed.ask_again(self.state, fetched):
            raise fetched.error
        self._waits.kick()

    async def _take(self) -> Fetched | None:
        await asyncio.sleep(0)  # a handler that never waits must let others run, the heartbeats too
        while not (self.state.inbox or self._session.ending):
            self.changed.clear()
            await self.changed.wait()
        if self._session.ending:
            return None
        fetched = self.state.inbox.popleft()
        self._waits.kick()
        return fetched


class AsyncHandler(Protocol):
    """What ``AsyncConsumerGroup.run`` takes; ``AsyncGroupHandler`` needs no ``setup`` and ``cleanup``."""

    async def setup(self, session: AsyncGroupSession) -> None: ...

    async def consume_claim(self, session: AsyncGroupSession, claim: AsyncClaim) -> None: ...

    async def cleanup(self, session: AsyncGroupSession) -> None: ...


class AsyncGroupHandler(ABC):
    """A handler of which only ``consume_claim`` has to be written."""

    async def setup(self, session: AsyncGroupSession) -> None:  # noqa: B027  # there may be nothing to do
        """Before the claims of a session are handled."""

    @abstractmethod
    async def consume_claim(self, session: AsyncGroupSession, claim: AsyncClaim) -> None:
        """Handle one partition, in a task of its own; return when the claim's iteration ends."""

    async def cleanup(self, session: AsyncGroupSession) -> None:  # noqa: B027  # there may be nothing to do
        """After every claim was handled, before the last commit."""
