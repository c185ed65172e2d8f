"""A segment's log file is a sequence of record batches, nothing else: kafka-python reads it from the disk."""

from kafka.record import MemoryRecords

from kohort.aio.serving.file_storage import FileStorage
from kohort.wire.compression import Codec
from support.machines.log_stage import LogStage


def test_kafka_python_reads_our_segment_files(tmp_path):
    with FileStorage(tmp_path, sync=False) as storage:
        stage = LogStage(storage)
        for i in range(30):
            stage.append(f"a{i}", f"b{i}", codec=Codec.GZIP if i % 2 else Codec.NONE, at_ms=1_000 + i)
        stage.topics.close()

    files = sorted((tmp_path / "orders-0").glob("*.log"))
    found = []
    for file in files:
        records = MemoryRecords(file.read_bytes())
        first = int(file.stem)
        while (read := records.next_batch()) is not None:
            assert read.validate_crc()
            assert read.base_offset >= first
            found += [(record.offset, record.value.decode(), record.timestamp) for record in read]

    assert len(files) > 1
    assert found == [(2 * i + j, f"{'ab'[j]}{i}", 1_000 + i) for i in range(30) for j in range(2)]
