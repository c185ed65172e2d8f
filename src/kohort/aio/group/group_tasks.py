"""Handlers in tasks: the session and the claims that they see, and the tasks themselves."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Protocol

from kohort.aio.calls import documented_as
from kohort.aio.consuming.record_reader import layout_of
from kohort.aio.group.group_threads import Claim, GroupSession
from kohort.aio.group.session_state import Session, SessionClaim, SessionState
from kohort.client.partition_claims import ClaimState
from kohort.client.reading.fetched import Fetched
from kohort.model import Record

if TYPE_CHECKING:
    import pyarrow


@documented_as(GroupSession)
class AsyncGroupSession(Session):
    """One membership of one generation, from ``setup`` to ``cleanup``, of a group in tasks.

    ``member_id`` and ``generation_id`` are the group's names for it, ``partitions`` what it claims, and ``claims``
    these partitions with their records.
    """

    def __init__(self, state: SessionState) -> None:
        super().__init__(state)
        self.claims = tuple(AsyncClaim(state, claim) for claim in state.claims.by_partition.values())

    async def commit(self, *, timeout_ms: int | None = None) -> None:
        await self._state.waits.run_anywhere(self._state.commit(timeout_ms))


@documented_as(Claim)
class AsyncClaim(SessionClaim):
    """One partition during one session. ``async for`` gives its records until the session ends.

    ``topic`` and ``partition`` name it; ``initial_offset`` is where the session began to read it.
    """

    def __init__(self, session: SessionState, state: ClaimState) -> None:
        super().__init__(session, state)
        self._changed = asyncio.Event()
        session.wake_by(state, self._changed.set)

    async def __aiter__(self) -> AsyncIterator[Record]:
        async for records in self.batches():
            for record in records:
                if self._session.ending:
                    return
                yield record

    async def batches(self) -> AsyncIterator[list[Record]]:
        while (fetched := await self._take()) is not None:
            records = fetched.decode_records(check_crcs=self._session.check_crcs)
            if records:
                self._session.count(fetched, len(records))
                yield records
            self._session.check_damage(self._state, fetched)

    async def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        json_errors: bool = False,
    ) -> AsyncIterator[pyarrow.RecordBatch]:
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        while (fetched := await self._take()) is not None:
            batches = fetched.decode_arrow(check_crcs=self._session.check_crcs, layout=layout)
            self._session.count(fetched, sum(batch.num_rows for batch in batches))
            for batch in batches:
                yield batch
            self._session.check_damage(self._state, fetched)

    async def _take(self) -> Fetched | None:
        await asyncio.sleep(0)  # a handler that never waits must let others run, the heartbeats too
        while not (self._state.inbox or self._session.ending):
            self._changed.clear()
            await self._changed.wait()
        if self._session.ending:
            return None
        fetched = self._state.inbox.popleft()
        self._session.waits.look_again()
        return fetched


class HandlerTasks:
    """The tasks of one session, one for each claim."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.session = AsyncGroupSession(state)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, handler: AsyncHandler) -> None:
        for claim, state in zip(self.session.claims, self.state.claims.by_partition.values(), strict=True):
            name = f"kohort-claim-{claim.topic}-{claim.partition}"
            self._tasks.append(asyncio.create_task(self._handle(handler, claim, state), name=name))

    async def _handle(self, handler: AsyncHandler, claim: AsyncClaim, state: ClaimState) -> None:
        try:
            await handler.consume_claim(self.session, claim)
        except asyncio.CancelledError as error:
            if not self.state.ending:  # by somebody else than this session, which would end for no known reason
                self.state.fail(state, error)
            raise
        except BaseException as error:  # noqa: BLE001  # the task that runs the group raises it
            self.state.fail(state, error)
        finally:
            self.state.end()

    def have_me(self) -> bool:
        return asyncio.current_task() in self._tasks

    async def join(self, patience_ms: int) -> None:
        """Wait until every handler has returned; those that have not in time are cancelled."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=patience_ms / 1000)
        for task in late:
            task.cancel(f"the session was over for {patience_ms} ms")
        if late:
            await asyncio.wait(late)


class AsyncHandler(Protocol):
    """What ``AsyncConsumerGroup.run`` takes; ``AsyncGroupHandler`` needs no ``setup`` and ``cleanup``."""

    async def setup(self, session: AsyncGroupSession) -> None:
        """Prepare for a session, before its claims are handled."""

    async def consume_claim(self, session: AsyncGroupSession, claim: AsyncClaim) -> None:
        """Handle one partition; return when the claim's iteration ends."""

    async def cleanup(self, session: AsyncGroupSession) -> None:
        """Finish a session, after every claim was handled and before the last commit."""


class AsyncGroupHandler(AsyncHandler, ABC):
    """A handler of which only ``consume_claim`` has to be written."""

    @abstractmethod
    async def consume_claim(self, session: AsyncGroupSession, claim: AsyncClaim) -> None:
        """Handle one partition, in a task of its own; return when the claim's iteration ends."""
