"""Record batches of a broker, with every reader: plain, kernels, Arrow, recovery."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import cached_property
from typing import Any

import crc32c
import msgspec
import pyarrow as pa

from fuzz.entrance import Entrance, Watch, Wrong
from fuzz.guarded import GuardedPages
from fuzz.mutate import mutated
from kohort.columns.batches import OffsetRange, ReadOptions, next_offset, sections
from kohort.columns.decode import decode_batches
from kohort.columns.plain import read_section
from kohort.columns.records_by_kernels import located_records
from kohort.columns.schema import COLUMNS
from kohort.config import parse_config
from kohort.config.topic import TopicConfig
from kohort.errors import ApiError, CorruptRecord
from kohort.log.batches import checked_headers
from kohort.log.storage import MemoryFile
from kohort.log.validation import checked_header
from kohort.model import Record
from kohort.wire.compression import Codec, compress, decompress
from kohort.wire.record_batch import (
    HEADER_BYTES,
    NewRecord,
    build_batch,
    check_crc,
    pack_batch,
    parse_batch_header,
    read_batch,
    read_pairs,
    split_batches,
)

ALL = (*COLUMNS, "headers")
MAX_BATCH = 1 << 20
MOST = 1 << 16
HEAD = struct.Struct(">BBBB")
CRC_AT, SUMMED_AT = 17, 21
EDGES = (0, 1, -1, 127, 128, 0x7FFF, 0x7FFFFFFF, -0x80000000)
Outcome = list[Record] | int


class RecordBatches(Entrance):
    """Batches in Fetch and Produce."""

    name = "record-batches"
    feeds = "damaged batches of every codec, with and without their CRC made good, between guard pages, to all readers"

    @cached_property
    def pages(self) -> GuardedPages:
        return GuardedPages(MOST)

    @cached_property
    def config(self) -> TopicConfig:
        config: TopicConfig = parse_config(TopicConfig, {})
        return config

    def generate(self, rng: random.Random) -> bytes:
        parts, base = [], rng.choice((0, 0, 5))
        for _ in range(rng.choice((1, 1, 2, 3))):
            lot = [record(rng) for _ in range(rng.choice((0, 1, 1, 2, 5, 40)))]
            parts.append(self.batch(lot, base, rng))
            base += len(lot)
        data = b"".join(parts)
        if rng.random() < 0.6:
            data = mutated(data, rng, parts)
        if rng.random() < 0.1:
            data = data[: rng.randrange(len(data) + 1)]
        return HEAD.pack(rng.randrange(12), rng.randrange(256), rng.randrange(4), 0) + data

    def batch(self, lot: list[NewRecord], base: int, rng: random.Random) -> bytes:
        """Return a batch with possibly invalid records or header, under a valid CRC."""
        codec = rng.choice((Codec.NONE, Codec.NONE, *Codec))
        whole = build_batch(lot, base_offset=base)
        header, body = parse_batch_header(whole), whole[HEADER_BYTES:]
        if rng.random() < 0.5:
            body = mutated(body, rng)
        payload = compress(codec, body)
        if codec and rng.random() < 0.3:
            payload = mutated(payload, rng)
        header = header._replace(attributes=codec | rng.choice((0, 0, 0, 8, 16, 32, 48, 0xFFF8 - 0x10000)))
        if rng.random() < 0.2:
            header = header._replace(
                **{
                    rng.choice(("record_count", "last_offset_delta", "producer_epoch", "base_sequence")): rng.choice(
                        (0, 1, -1, 3)
                    )
                }
            )
        if rng.random() < 0.1:
            header = header._replace(
                **{rng.choice(("record_count", "last_offset_delta", "base_sequence")): rng.choice(EDGES)}
            )
        if rng.random() < 0.1:
            edge = rng.choice((-1, 0, (1 << 63) - 1, -(1 << 63)))
            header = header._replace(
                **{rng.choice(("base_offset", "base_timestamp", "max_timestamp", "producer_id")): edge}
            )
        return pack_batch(header, payload)

    def run(self, data: bytes, watch: Watch) -> None:
        if len(data) < HEAD.size:
            return
        start, length, flags, _ = HEAD.unpack_from(data)
        body = data[HEAD.size : HEAD.size + MOST]
        if flags & 1:
            body = with_crcs(body)
        stop = start + length % 32 if length & 1 else None
        data_in_pages = self.pages.at_end(body) if flags & 2 else self.pages.at_start(body)
        offset_range = OffsetRange("t", 0, start, stop)
        options = ReadOptions(check_crcs=bool(length & 2), max_batch_bytes=MAX_BATCH)
        expected = watch.step(lambda: outcome(lambda: plain(data_in_pages, offset_range, options)))
        by_kernels = watch.step(lambda: outcome(lambda: located_records(data_in_pages, offset_range, options)))
        if by_kernels != expected:
            raise Wrong(f"kernels and plain reader differ: {by_kernels!r} {expected!r}")
        by_arrow = watch.step(lambda: outcome(lambda: arrow(data_in_pages, offset_range, options)))
        if by_arrow != without_epochs(expected):
            raise Wrong(f"Arrow and plain reader differ: {by_arrow!r} {expected!r}")
        watch.step(lambda: self.others(body, offset_range))

    def others(self, body: bytes, offset_range: OffsetRange) -> None:
        """Read with the broker's and recovery's readers: only CorruptRecord or ApiError are allowed."""
        for read in (
            lambda: [check_crc(body, at, header) for at, header in split_batches(body)],
            lambda: read_batch(body, max_bytes=MAX_BATCH),
            lambda: read_pairs(body, 0, parse_batch_header(body), max_bytes=MAX_BATCH),
            lambda: next_offset(body, offset_range.start_offset, offset_range.end_offset),
            lambda: list(checked_headers(MemoryFile(bytearray(body)), len(body))),
            lambda: checked_header(body, self.config, 1_000_000, from_client=True),
            lambda: decompress(parse_batch_header(body).codec, body[HEADER_BYTES:], MAX_BATCH),
        ):
            try:
                read()  # type: ignore[no-untyped-call]
            except (CorruptRecord, ApiError):
                continue


def record(rng: random.Random) -> NewRecord:
    def blob() -> bytes | None:
        return rng.choice((None, b"", b"v", b"x" * 130, rng.randbytes(rng.randrange(40))))

    headers = [(rng.choice(("", "h", "ä", "n" * 70)), blob()) for _ in range(rng.choice((0, 0, 0, 1, 3)))]
    return NewRecord(blob(), blob(), headers, rng.choice((-1, 0, 1, 1 << 41)))


def with_crcs(data: bytes) -> bytes:
    """Return the batches with valid CRCs, as far as they can be parsed."""
    good, at = bytearray(data), 0
    while at + HEADER_BYTES <= len(good):
        size = int.from_bytes(good[at + 8 : at + 12], "big", signed=True) + 12
        if size < HEADER_BYTES or at + size > len(good):
            break
        good[at + CRC_AT : at + SUMMED_AT] = crc32c.crc32c(bytes(good[at + SUMMED_AT : at + size])).to_bytes(4, "big")
        at += size
    return bytes(good)


def outcome(read: Callable[[], list[Record]]) -> Outcome:
    """Return the records, or the offset of the corruption."""
    try:
        return read()
    except CorruptRecord as error:
        return error.offset


def plain(data: Any, offset_range: OffsetRange, options: ReadOptions) -> list[Record]:
    out: list[Record] = []
    for section in sections(data, offset_range, options):
        read_section(section, offset_range, out)
    return out


def arrow(data: Any, offset_range: OffsetRange, options: ReadOptions) -> list[Record]:
    return records_of(decode_batches(data, offset_range, columns=ALL, options=options))


def records_of(batch: pa.RecordBatch) -> list[Record]:
    """Return the rows of a whole batch, with all its columns, as records."""
    batch.validate(full=True)
    columns = {name: batch.column(name) for name in ALL}
    stamps = columns.pop("timestamp").cast(pa.int64()).to_pylist()
    rows = pa.RecordBatch.from_pydict(columns).to_pylist()
    return [
        Record(
            row["topic"],
            row["partition"],
            row["offset"],
            -1 if stamp is None else stamp,
            row["key"],
            row["value"],
            tuple((h["key"], h["value"]) for h in row["headers"]),
            row["timestamp_type"],
        )
        for row, stamp in zip(rows, stamps, strict=True)
    ]


def without_epochs(found: Outcome) -> Outcome:
    if isinstance(found, list):
        return [msgspec.structs.replace(record, leader_epoch=-1) for record in found]
    return found
