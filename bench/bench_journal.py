"""Cost of the journal in the coordinator: a group of many members, with and without the journal.

    python bench/bench_journal.py [--members 1000] [--turns 3] [--json]

Members form a group (each joins in two steps, and syncs), and run for a minute: heartbeats every 3 s, commits every 5
s. "With": the coordinator also encodes journal entries; "without": it makes no entry, gathers no evidence and compares
no assignments. An hour is one rebalance and sixty such minutes. One thread, no sockets; CPU times of this process, both
in turn, and the best of each phase. ``kohort group why`` derives the causes, not the broker.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from bench_coordinator import Bench, form_group

from kohort.coordinator.classic.member import Member
from kohort.coordinator.journal import Change, ClientIdentity, Move, Trigger, Vitals, build_entry
from kohort.coordinator.journal_events import JournalEntry
from kohort.coordinator.outcome import GroupRequest
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

EVIDENCE = (Change, Move, Trigger, Vitals, ClientIdentity)
BEATS, COMMITS = 20, 12
"""Heartbeats and commits of each member per minute."""


def _nothing(*_args: Any, **_named: Any) -> None:
    """Replace a function that makes journal entries or their parts."""


def _none_moved(*_args: Any) -> tuple[()]:
    return ()


@contextmanager
def without_journal() -> Iterator[None]:
    """Run the coordinator without journal entries during the block."""
    with ExitStack() as patches:
        for name, module in list(sys.modules.items()):
            if not name.startswith("kohort.coordinator.") or ".journal" in name:
                continue
            for attribute, value in list(vars(module).items()):
                if isinstance(value, type) and (issubclass(value, JournalEntry) or value in EVIDENCE):
                    patches.enter_context(patch.object(module, attribute, _nothing))
                elif attribute in ("owners_of", "moves_between", "change_of", "_note_progress"):
                    patches.enter_context(patch.object(module, attribute, _none_moved))
        patches.enter_context(patch.object(Member, "saw", _nothing))
        patches.enter_context(patch.object(Member, "identity", None))
        patches.enter_context(patch.object(Member, "note_commit", lambda self, _c, now_ms: self.renew_session(now_ms)))
        yield


def run(members: int, *, with_journal: bool) -> dict[str, float]:
    """CPU seconds of each phase."""
    bench, written = Bench(members), 0
    began = time.process_time()
    _, ids, generation = form_group(bench, members)
    if with_journal:
        written += sum(len(build_entry(entry)) for entry in bench.coordinator.take_journal())
    formed = time.process_time()
    beats = [
        GroupRequest(HeartbeatRequest(group_id="g", generation_id=generation, member_id=m), 4, "bench", "/h", i, 1)
        for i, m in enumerate(ids)
    ]
    handle = bench.coordinator.handle
    ready = time.process_time()
    for _ in range(BEATS):
        bench.now_ms += 3_000
        for beat in beats:
            handle(beat, bench.now_ms)
        bench.tick(0)
    for n in range(COMMITS):
        for i, member_id in enumerate(ids):
            handle(_commit(i, member_id, generation, n), bench.now_ms)
    if with_journal:
        written += sum(len(build_entry(entry)) for entry in bench.coordinator.take_journal())
        assert written > members
    return {"form": formed - began, "minute": time.process_time() - ready}


def _commit(i: int, member_id: str, generation: int, offset: int) -> GroupRequest:
    partition = OffsetCommitRequestPartition(partition_index=i, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    message = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=generation, member_id=member_id, topics=topics
    )
    return GroupRequest(message, 8, "bench", "/h", i, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    with_it: list[dict[str, float]] = []
    without: list[dict[str, float]] = []
    for _ in range(options.turns):
        with_it.append(run(options.members, with_journal=True))
        with without_journal():
            without.append(run(options.members, with_journal=False))
    report: dict[str, Any] = {"members": options.members}
    best: dict[str, tuple[float, ...]] = {}
    for phase in ("form", "minute"):
        best[phase] = min(t[phase] for t in with_it), min(t[phase] for t in without)
    best["hour"] = tuple(best["form"][i] + 60 * best["minute"][i] for i in (0, 1))
    for phase, (spent, bare) in best.items():
        report[phase] = {"with_s": round(spent, 4), "without_s": round(bare, 4), "share": round(1 - bare / spent, 4)}
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for phase in best:
        found = report[phase]
        words = f"{found['with_s']:.3f} s with, {found['without_s']:.3f} s without: {found['share']:.1%} is the journal"
        print(f"{phase:7} {words}")


if __name__ == "__main__":
    main()
