"""A recording: everything that went into a broker, with its time, and a checksum of what came out of each event.

A broker that begins with nothing is its configuration, the seed of its chance and its inputs, so a recording can be
played again in the machine, event for event (``kohort sim replay-recording``). The format is ours:

    MAGIC, then entries of ``length (4 bytes) | CRC-32 of the rest (4) | body``.

The first body is JSON (version, seed, the time of the start, the options less those that are secret). Every other one
is ``kind (1 byte) | now_ms (8) | connection (8) | CRC-32 of the outputs (4) | data``. An entry of kind FULL ends a file
that had become as large as it may be.

Passwords and tokens are overwritten before they are written (broker/concealing.py). What a login made of a frame is an
entry of its own, LoginOutcome, before the event in which it happened: a broker that is played again takes it in the
place of the token, and what follows from that event is not compared. Nor is what follows from other frames whose
secrets could not be told from the rest: malformed ones, and those above a mebibyte; from there on the two brokers may
differ. What clients set as the value of an unknown option is overwritten, too, so words about it may differ.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from kohort.broker.io import (
    Close,
    Congested,
    Connected,
    Disconnected,
    Drained,
    FetchKeys,
    Input,
    KeysFetched,
    Output,
    Received,
    Secured,
    Send,
    Stalled,
    Tick,
    WallClockSet,
)
from kohort.broker.recorded_logins import LoginOutcome
from kohort.config.broker import BrokerConfig
from kohort.config.first_users import ADD_SCRAM
from kohort.config.listener_overrides import PREFIX, gather
from kohort.config.listeners import DEFAULT_LISTENER
from kohort.config.options import options_of
from kohort.errors import ConfigError, NotARecording
from kohort.log.json_files import MISFITS
from kohort.secret import Secret
from kohort.security.sasl.scram_text import without_passwords

MAGIC: Final = b"kohort recording\n"
VERSION: Final = 1
FULL: Final = 0
UNCOMPARED: Final = 0xFFFFFFFF
"""Stands for the checksum of outputs that hold what a recording must not, or follow from it."""
KINDS: Final[Mapping[int, type]] = {
    1: Connected,
    2: Received,
    3: Disconnected,
    4: Tick,
    5: Congested,
    6: Drained,
    7: Secured,
    8: LoginOutcome,
    9: KeysFetched,
    10: Stalled,
    11: WallClockSet,
}
"""Serve and EndWaits are given in tests alone, and have no place in a recording."""
NUMBERS: Final = {kind: number for number, kind in KINDS.items()}
ENTRY_MAX_BYTES: Final = 1 << 27
"""More than a socket gives at once; a length beyond it is damage, and nothing is allocated for it."""

_END: Final = b"\0"
"""Behind it are the listener and the port of Connected, and the name of Secured."""
_PREFIX: Final = struct.Struct(">II")
_EVENT: Final = struct.Struct(">BqqI")
_TIME: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class RecordingHead:
    """What a recorded broker was made of; ``started_ms`` is its clock then."""

    config: BrokerConfig
    seed: int
    started_ms: int


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One event; ``outputs_crc`` is ``crc_of`` what followed from it, or UNCOMPARED."""

    given: Input | LoginOutcome
    now_ms: int
    outputs_crc: int


@dataclass(frozen=True, slots=True)
class RecordingEnd:
    """Why there are no more events although the broker went on: the file was full, or is torn at ``position``."""

    why: str
    position: int


def build_head(head: RecordingHead) -> bytes:
    """Return the beginning of a file."""
    said = {"version": VERSION, "seed": head.seed, "started_ms": head.started_ms, "config": _openly(head.config)}
    return MAGIC + _entry(json.dumps(said).encode())


def _openly(config: BrokerConfig) -> dict[str, Any]:
    """Return the options less those that are secret: a broker is played again without knowing them. Its first users are
    there, with other passwords."""
    said = {f.name: getattr(config, f.name) for f in fields(config)}
    said["listener_overrides"] = {name: _without_secrets(of) for name, of in config.listener_overrides.items()}
    if config.add_scram is not None:
        said["add_scram"] = without_passwords(ADD_SCRAM, config.add_scram)
    return _without_secrets(said)


def _without_secrets(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if not isinstance(value, Secret)}


def build_event(given: Input | LoginOutcome, now_ms: int, outputs_crc: int) -> bytes:
    """Return one event as an entry."""
    connection, data = getattr(given, "connection", -1), b""
    if isinstance(given, Received):
        data = given.data
    elif isinstance(given, Connected):
        data = given.host.encode()
        listener = "" if given.listener == DEFAULT_LISTENER else given.listener
        if listener or given.port is not None:
            data += _END + listener.encode()
        if given.port is not None:
            data += _END + str(given.port).encode()
    elif isinstance(given, Secured) and given.name is not None:
        data = _END + given.name.encode()
    elif isinstance(given, LoginOutcome):
        data = given.outcome
    elif isinstance(given, KeysFetched):
        data = json.dumps([given.url, given.problem]).encode() + _END + (given.content or b"")
    elif isinstance(given, Stalled):
        data = _TIME.pack(given.since_ms)
    elif isinstance(given, WallClockSet):
        data = _TIME.pack(given.ahead_ms)
    return _entry(_EVENT.pack(NUMBERS[type(given)], now_ms, connection, outputs_crc) + data)


def build_full(now_ms: int) -> bytes:
    """Return the last entry of a file that may not grow any more."""
    return _entry(_EVENT.pack(FULL, now_ms, -1, 0))


def _entry(body: bytes) -> bytes:
    return _PREFIX.pack(len(body), zlib.crc32(body)) + body


def crc_of(outputs: Sequence[Output]) -> int:
    """Return a checksum of what a broker did, every byte of it, in order."""
    crc = 0
    for output in outputs:
        if isinstance(output, FetchKeys):
            continue  # a broker that is played again needs no keys
        crc = zlib.crc32(f"{type(output).__name__} {output.connection}".encode(), crc)
        if isinstance(output, Send):
            for buffer in output.buffers:
                crc = zlib.crc32(buffer, crc)
        elif isinstance(output, Close):
            crc = zlib.crc32(output.reason.encode(), crc)
    return crc


def crc_of_error(error: BaseException) -> int:
    """Return what stands for the outputs of an event that the broker failed on."""
    return zlib.crc32(f"raised {type(error).__name__}".encode())


def parse_head(read: Callable[[int], bytes]) -> RecordingHead:
    """Read the beginning of a file that ``read(size)`` gives. Raises NotARecording."""
    if read(len(MAGIC)) != MAGIC:
        raise NotARecording("it does not begin as a recording of kohort does")
    try:
        said = json.loads(_body(read, len(MAGIC)))
        version = said["version"]
        if version != VERSION:
            raise NotARecording(f"it is a recording of version {version}; this is version {VERSION}")
        return RecordingHead(_config_of(said["config"]), int(said["seed"]), int(said["started_ms"]))
    except MISFITS as error:
        raise NotARecording(f"its head cannot be read: {error!r}") from error


def _config_of(said: Mapping[str, Any]) -> BrokerConfig:
    """Return the options; those that this version does not know, or does not allow, are refused: the broker might
    behave otherwise."""
    known = {f.name: f for f in fields(BrokerConfig)}
    if strangers := sorted(said.keys() - known.keys()):
        raise NotARecording(f"it has options that this version does not know: {', '.join(strangers)}")
    try:
        given = dict(said)
        for option in options_of(BrokerConfig):
            value = given.get(option.attribute, option.default)
            if value is not option.default:
                given[option.attribute] = option.parse(value)
        of_listeners = said.get("listener_overrides", {}).items()
        named = {f"{PREFIX}{name}.{option}": value for name, own in of_listeners for option, value in own.items()}
        return BrokerConfig(**given | {"listener_overrides": gather(named)})
    except ConfigError as error:
        raise NotARecording(f"it has an option that makes no broker: {error}") from error


def parse_events(read: Callable[[int], bytes], position: int) -> Iterator[RecordedEvent | RecordingEnd]:
    """Yield the events after the head, whose end is at ``position``; a file that is torn or was full ends with
    RecordingEnd.

    Raises NotARecording for an entry that is whole and makes no sense.
    """
    while True:
        try:
            body = _body(read, position)
        except NotARecording as torn:
            yield RecordingEnd(str(torn), position)
            return
        if not body:
            return
        if len(body) < _EVENT.size:
            raise NotARecording(f"the entry at byte {position} is too short to be an event")
        kind, now_ms, connection, crc = _EVENT.unpack_from(body)
        if kind == FULL:
            yield RecordingEnd("the file had become as large as it may be", position)
            return
        yield RecordedEvent(_input(kind, connection, body[_EVENT.size :], position), now_ms, crc)
        position += _PREFIX.size + len(body)


def _input(kind: int, connection: int, data: bytes, position: int) -> Input | LoginOutcome:
    match KINDS.get(kind):
        case None:
            raise NotARecording(f"the entry at byte {position} is of a kind that is not known: {kind}")
        case made if made is Tick:
            return Tick()
        case made if made is Received:
            return Received(connection, data)
        case made if made is Connected:
            host, listener, port, *_ = [*data.decode(errors="replace").split("\0"), "", ""]
            return Connected(connection, host, listener or DEFAULT_LISTENER, int(port) if port.isdecimal() else None)
        case made if made is Secured:
            return Secured(connection, data[1:].decode(errors="replace") if data else None)
        case made if made is LoginOutcome:
            return LoginOutcome(connection, data)
        case made if made is Stalled or made is WallClockSet:
            if len(data) != _TIME.size:
                raise NotARecording(f"the entry at byte {position} has {len(data)} bytes of time, not {_TIME.size}")
            timed: Input = made(*_TIME.unpack(data))
            return timed
        case made if made is KeysFetched:
            return _keys_fetched(data, position)
        case made:
            given: Input = made(connection)
            return given


def _keys_fetched(data: bytes, position: int) -> KeysFetched:
    said, _, content = data.partition(_END)
    try:
        url, problem = json.loads(said)
    except MISFITS as error:
        raise NotARecording(f"the entry at byte {position} is no fetch of keys: {error!r}") from error
    return KeysFetched(str(url), None if problem else content, str(problem))


def _body(read: Callable[[int], bytes], position: int) -> bytes:
    """Return the body of the entry at ``position``; empty at the end of the file. Raises NotARecording for a torn
    one."""
    prefix = read(_PREFIX.size)
    if not prefix:
        return b""
    if len(prefix) < _PREFIX.size:
        raise NotARecording(f"it is torn at byte {position}")
    length, crc = _PREFIX.unpack(prefix)
    if not 0 < length <= ENTRY_MAX_BYTES:
        raise NotARecording(f"it is damaged at byte {position}: a length of {length}")
    body = read(length)
    if len(body) < length:
        raise NotARecording(f"it is torn at byte {position}")
    if zlib.crc32(body) != crc:
        raise NotARecording(f"it is damaged at byte {position}: the checksum does not fit")
    return body
