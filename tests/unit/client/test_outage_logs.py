"""Log lines of outages: unreachable broker, no response, missing topic, storage errors; permanent errors are raised."""

from __future__ import annotations

import re

import pytest

from kohort.client.consumer import CLOSE_MS, DISCONNECTED_MS, CloseTimeout
from kohort.errors import ErrorCode, NotKafka, UnsupportedVersion
from kohort.notes import Level
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_classic import JoinGroupRequest
from kohort.wire.messages.list_offsets import ListOffsetsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kohort.wire.messages.offsets import OffsetFetchRequest
from kohort_lab.machines.scripted import HANG_UP, SILENCE
from support.machines.consumer_stage import ONE, SERVERS, ConsumerStage, User, tp
from support.machines.scripted_group import ScriptedGroup

T0 = tp("t-0")
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
TLS_ALERT = bytes.fromhex("15030300020228")


@pytest.fixture
def stage() -> ScriptedGroup:
    return ScriptedGroup()


def reader(stage: ScriptedGroup | ConsumerStage, **options: object) -> User:
    user = stage.user(**options)
    user.machine.assign([T0])
    user.machine.subscription.state(T0).await_reset("earliest")
    return user


def note_texts(user: User) -> list[str]:
    return [note.text for note in user.notes_besides_resets()]


# Unreachable broker


def test_unreachable_address_is_logged_at_once_and_each_minute(stage: ScriptedGroup):
    stage.loop.stop(ONE)
    user = stage.user("t", group_id="g")

    stage.polls(200)
    assert note_texts(user) == ["no broker at one:9092: Connection refused; retrying"]

    stage.polls(62_000)
    (again,) = note_texts(user)
    assert re.fullmatch(r"no broker at one:9092: Connection refused; retrying for 6\d s", again)


def test_lost_and_restored_connection_is_logged(stage: ScriptedGroup):
    user = reader(stage)
    stage.until(lambda: user.records)
    assert note_texts(user) == []

    stage.loop.stop(ONE)
    stage.polls(5000)
    assert note_texts(user) == ["the connection to one:9092 was lost: the connection was cut; retrying"]

    stage.loop.start(ONE)
    stage.polls(5000)
    (back,) = user.notes_besides_resets()
    assert back.text.startswith("one:9092 is connected again, after ")
    assert back.level is Level.INFO


def test_loss_of_idle_connection_is_not_logged(stage: ScriptedGroup):
    user = stage.user()
    user.machine.metadata.track(["t"])
    stage.loop.run(1000)
    assert stage.loop.links

    stage.loop.cut()
    stage.loop.run(5000)
    assert note_texts(user) == []


def test_log_line_of_unreachable_advertised_address_calls_it_advertised(stage: ScriptedGroup):
    metadata = stage.on_metadata

    def advertised(request: MetadataRequest, _version: int) -> MetadataResponse:
        answer = metadata(request)
        answer.brokers = [MetadataResponseBroker(node_id=1, host="inside", port=9092)]
        return answer

    stage.one.on(MetadataRequest, advertised)
    user = reader(stage)
    stage.polls(500)

    (text,) = note_texts(user)
    assert text.startswith("no broker at inside:9092, the advertised address of node 1 (advertised.")


def test_request_timeout_is_logged(stage: ScriptedGroup):
    stage.fetch = lambda _: SILENCE
    user = reader(stage, request_timeout_ms=5000)
    stage.polls(7000)

    assert note_texts(user)[0].startswith("the connection to one:9092 was lost: a request was not answered in time")


# Addresses that speak another protocol


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [
        (HTTP, "it answers in HTTP: not a Kafka broker"),
        (TLS_ALERT, "it answers in TLS: set security.protocol=SSL or SASL_SSL, or name a listener without TLS"),
        (bytes.fromhex("16030100a5010000a103"), "it answers in TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it answers in SSH"),
        (b"<!DOCTYPE HTML>", "it answers in HTML"),
        (b"220 mail.example.org ESMTP", "it answers in SMTP or FTP"),
        (b"-ERR unknown command\r\n", "it answers in Redis's protocol"),
    ],
)
def test_foreign_protocol_is_detected_by_first_bytes_and_raised(stage: ScriptedGroup, bytes_: bytes, words: str):
    stage.one.on(ApiVersionsRequest, lambda *_: bytes_)
    user = stage.user("t", group_id="g")
    stage.loop.run(100)

    with pytest.raises(NotKafka, match="no broker could be reached: one:9092 ") as raised:
        user.poll()
    assert words in str(raised.value)
    assert words in note_texts(user)[0]


def test_foreign_protocol_is_detected_in_response_that_arrives_byte_by_byte(stage: ScriptedGroup):
    stage.one.on(ApiVersionsRequest, lambda *_: HTTP[:1])
    user = stage.user("t", group_id="g")
    stage.loop.run(50)
    (link,) = stage.loop.links
    for byte in HTTP[1:10]:
        stage.loop._deliver(link, bytes([byte]))
        stage.loop._drain()

    assert "it answers in HTTP" in note_texts(user)[0]


def test_consumer_continues_when_broker_replaces_server_with_another_protocol(stage: ScriptedGroup):
    answers = [HTTP, TLS_ALERT]
    real = stage.one._answer

    def answer(request, version):
        if isinstance(request, ApiVersionsRequest) and answers:
            return answers.pop()
        return real(request, version)

    stage.one._answer = answer
    user = reader(stage)
    with pytest.raises(NotKafka):
        stage.polls(1000)

    stage.loop.run(5000)
    stage.until(lambda: user.records)


def test_foreign_protocol_after_kafka_connection_is_logged_as_outage(stage: ScriptedGroup):
    user = reader(stage)
    stage.until(lambda: user.records)
    stage.loop.cut()
    stage.one.on(ApiVersionsRequest, lambda *_: HTTP)
    stage.polls(65_000)

    assert "it answers in HTTP: not a Kafka broker; retrying" in note_texts(user)[-1]


def test_client_with_second_address_survives_foreign_protocol_at_first_address(stage: ScriptedGroup):
    stage.loop.stop(ONE)
    other = ScriptedGroup().one
    other.on(ApiVersionsRequest, lambda *_: HTTP)
    stage.loop.serve(("two", 9092), other)
    user = stage.user("t", group_id="g", bootstrap_servers=[SERVERS, "two:9092"])
    stage.polls(5000)
    stage.loop.start(ONE)

    stage.until(lambda: user.records)


def test_log_line_of_silent_address_suggests_tls(stage: ScriptedGroup):
    stage.one.on(ApiVersionsRequest, lambda *_: SILENCE)
    user = stage.user("t", group_id="g", socket_connection_setup_timeout_ms=3000)
    stage.polls(3500)
    (text,) = note_texts(user)
    assert "connected, but ApiVersions was not answered within 3000 ms (a listener with TLS or SASL" in text

    stage.one.on(ApiVersionsRequest, lambda *_: HANG_UP)
    stage.polls(61_000)
    assert "the broker closed the connection before it had answered ApiVersions (a list" in note_texts(user)[0]


def test_unsupported_broker_version_raises_error(stage: ScriptedGroup):
    del stage.one.ranges[MetadataRequest.API_KEY]
    user = stage.user("t", group_id="g")
    stage.loop.run(200)

    with pytest.raises(UnsupportedVersion, match="does not serve Metadata"):
        user.poll()


# Missing topics, partitions and leaders


def test_missing_topic_is_logged_until_it_exists():
    stage = ConsumerStage(auto_create_topics_enable=False)
    user = stage.user("nope", group_id="g")
    stage.polls(3000)
    (text,) = note_texts(user)
    assert text == "topic 'nope' cannot be used: UNKNOWN_TOPIC_OR_PARTITION; retrying for 1 s"

    stage.topic("nope", 1)
    stage.until(lambda: user.owned == "nope-0")
    assert [text.partition(",")[0] for text in note_texts(user)] == ["topic 'nope' exists"]


def test_automatically_created_topic_is_not_logged_as_missing():
    stage = ConsumerStage()
    user = stage.user("new", group_id="g")
    stage.until(lambda: user.owned == "new-0")

    assert note_texts(user) == []


def test_missing_partition_is_logged():
    stage = ConsumerStage()
    stage.topic("t", 2)
    user = stage.user()
    user.machine.assign([tp("t-9")])
    stage.polls(3000)

    assert note_texts(user)[0].startswith("partition t-9 does not exist: topic 't' has partitions 0 to 1; retrying")


def test_pattern_without_matching_topic_is_logged_until_a_topic_matches():
    stage = ConsumerStage()
    stage.topic("t", 1)
    user = stage.user(group_id="g", metadata_max_age_ms=1000)
    user.machine.subscribe(re.compile("u.*"))
    stage.polls(500)
    assert note_texts(user) == ["no topic of the cluster fully matches 'u.*'; retrying"]

    stage.topic("uu", 1)
    stage.until(lambda: user.owned == "uu-0")
    assert note_texts(user)[0].startswith("a topic matches 'u.*', after ")


def test_leaderless_partition_is_logged(stage: ScriptedGroup):
    metadata = stage.on_metadata

    def leaderless(request: MetadataRequest, _version: int) -> MetadataResponse:
        answer = metadata(request)
        for topic in answer.topics:
            topic.partitions[0].leader_id = -1
        return answer

    stage.one.on(MetadataRequest, leaderless)
    user = reader(stage)
    stage.polls(3000)

    assert note_texts(user)[0].startswith("t-0 has no leader; retrying")


# Repeated error codes


def test_storage_error_and_its_end_are_logged_immediately(stage: ScriptedGroup):
    stage.then(FetchRequest, *[ErrorCode.KAFKA_STORAGE_ERROR] * 5)
    user = reader(stage)
    stage.until(lambda: user.records)

    first, last = note_texts(user)
    assert first == "fetching t-0 at offset 0: KAFKA_STORAGE_ERROR; retrying"
    assert last.startswith("t-0 can be read again, after ")


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        (ListOffsetsRequest, ErrorCode.KAFKA_STORAGE_ERROR, "looking for the earliest offset of t-0: KAFKA_STORAGE"),
        (FindCoordinatorRequest, ErrorCode.COORDINATOR_NOT_AVAILABLE, "looking for the coordinator of group 'g'"),
        (JoinGroupRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "joining group 'g': COORDINATOR_LOAD_IN_PROG"),
        (OffsetFetchRequest, ErrorCode.UNSTABLE_OFFSET_COMMIT, "the committed offset"),
    ],
)
def test_transient_error_code_that_persists_is_logged(
    stage: ScriptedGroup, request_: type, code: ErrorCode, words: str
):
    stage.then(request_, *[code] * 8)
    user = stage.user("t", group_id="g")
    stage.until(lambda: user.records)

    assert words in note_texts(user)[0]


# Close


def test_close_timeout_of_consumer_is_shorter_while_disconnected(stage: ScriptedGroup):
    user = reader(stage)
    stage.until(lambda: user.records)
    engine = user.machine.engine
    explicit, by_itself = CloseTimeout(engine, 0, 70_000), CloseTimeout(engine, 0)
    assert (explicit.left_ms(0), by_itself.left_ms(0)) == (70_000, CLOSE_MS)
    assert by_itself.left_ms(CLOSE_MS + 1) == 0

    stage.loop.stop(ONE)
    assert (explicit.left_ms(1000), by_itself.left_ms(1000)) == (69_000, DISCONNECTED_MS)
    assert by_itself.left_ms(2500) == DISCONNECTED_MS - 1500

    stage.loop.start(ONE)
    stage.polls(3000)
    assert by_itself.left_ms(4000) == CLOSE_MS - 4000
