"""Damage anywhere in the files of a log: the broker starts, serves intact records, and continues."""

import copy
import random
from contextlib import suppress
from functools import cache

import pytest

from kohort.errors import ApiError, CorruptRecord, ErrorCode
from kohort.log.storage import MemoryStorage
from kohort.wire.record_batch import Marker, check_crc, read_batch, split_batches
from support.machines.log_stage import LogStage

TRUTH_OF_THE_FOLDER = {"kohort-topics.json", "meta.properties"}
RECORDS = 60


@cache
def filled(policy, clean):
    """The files of a log of plain, idempotent and transactional batches, and its records."""
    stage = LogStage(cleanup_policy=policy, min_cleanable_dirty_ratio="0.01")
    for i in range(RECORDS):
        producer = {"producer_id": 3, "producer_epoch": 0, "base_sequence": i // 3} if i % 3 == 0 else {}
        stage.append(f"value {i} {'x' * 40}", key=b"k%d" % (i % 9), **producer)
        if i % 20 == 10:
            transactional = {"producer_id": 5, "producer_epoch": 0, "is_transactional": True}
            stage.append("t", key=b"t", base_sequence=i // 20, **transactional)
            stage.log.end_transaction(Marker(5, 0, i % 40 == 10, 0), stage.now_ms)
    for _ in range(10):
        stage.clock.advance(15_000)
        stage.topics.tick(stage.now_ms)
    records = dict(read_from(stage.log, 0))
    if clean:
        stage.topics.close()
    return stage.storage._folders, records


def read_from(log, offset):
    """Return the records that a reader gets if it skips rejected batches with a bad CRC."""
    while offset < log.log_end_offset and offset < 2 * RECORDS:
        before = offset
        try:
            data = b"".join(log.read(offset, 500))
            assert data, f"no batch and no error at {offset}"
            for at, header in split_batches(data):
                check_crc(data, at, header)
                offset = header.next_offset
                yield from ((r.offset, r.value) for r in read_batch(data, at) if not header.is_control)
        except ApiError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
        except CorruptRecord:
            pass
        offset = max(offset, before + 1)


def damage(folders, rng):
    files = [data for folder in folders.values() for name, data in folder.items() if name not in TRUTH_OF_THE_FOLDER]
    logs = [data for name, data in folders["orders-0"].items() if name.endswith(".log")]
    data = rng.choice([one for one in (logs if rng.random() < 0.5 else files) if one])
    at = rng.randrange(len(data))
    match rng.randrange(5):
        case 0 | 1:
            data[at] ^= 1 << rng.randrange(8)
        case 2:
            del data[at:]
        case 3:
            data[at : at + 8] = rng.randbytes(len(data[at : at + 8]))
        case 4:
            data += rng.randbytes(rng.randrange(1, 200))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("seed", range(40))
def test_broker_starts_on_damaged_files_and_serves_only_original_records(policy, clean, seed):
    rng = random.Random(f"{policy} {clean} {seed}")
    folders, records = filled(policy, clean)
    storage = MemoryStorage()
    storage._folders = copy.deepcopy(folders)
    for _ in range(rng.choice([1, 1, 3])):
        damage(storage._folders, rng)

    stage = LogStage(storage)

    found = dict(read_from(stage.log, stage.log.log_start_offset))
    assert set(found.values()) <= set(records.values())
    for time in (0, 1, stage.now_ms):
        with suppress(ApiError):
            stage.log.find_by_time(time)
    end = stage.log.log_end_offset
    assert stage.append("new", key=b"new").base_offset == end
    for _ in range(6):
        stage.clock.advance(31_000)
        stage.topics.tick(stage.now_ms)
    stage.topics.close()
    stage.crash()
    assert stage.log.log_end_offset == end + 1
    assert dict(read_from(stage.log, end)) in ({end: b"new"}, {})


def test_append_succeeds_after_damage_of_first_batch_in_segment():
    stage = LogStage()
    stage.fill(6)
    stage.topics.close()
    stage.storage._folders["orders-0"][f"{0:020d}.log"][16] = 9
    assert stage.crash() == [], "the log end is intact, and only it is read"

    assert stage.append("next").base_offset == 6
