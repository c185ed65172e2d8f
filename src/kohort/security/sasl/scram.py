"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677): passwords are neither sent nor stored (protocol/security.md#scram).

Passwords are raw UTF-8, without normalization, as in Kafka.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kohort.clock import Rng
from kohort.errors import AuthenticationFailed, ConfigError
from kohort.secret import Secret
from kohort.security.sasl import exchange
from kohort.security.sasl.exchange import SCRAM_SHA_256, SCRAM_SHA_512, Derivation, LoggedInAs, Refused, text_of

HASHES: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
MECHANISM_NUMBERS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
ITERATIONS_LOW: Final = 4096
ITERATIONS_HIGH: Final = 16384
"""Largest number of iterations of a stored credential."""
CLIENT_ITERATIONS_HIGH: Final = 1_000_000
"""Largest number of iterations that a client accepts from a broker (RFC 7677, section 4)."""
NONCE_BITS: Final = 130
DERIVED_KEPT: Final = 16

DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
NAME: Final = r"(?:[^=,\0]|=2C|=3D)*"
NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"
EXTENSIONS: Final = r"(?P<extensions>(?:,[A-Za-z]+=[^,\0]+)*)"
CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{NAME}))?,(?P<bare>n=(?P<name>{NAME}),r=(?P<nonce>{NONCE}){EXTENSIONS})"
)
SERVER_FIRST: Final = re.compile(rf"r=(?P<nonce>{NONCE}),s=(?P<salt>{BASE64}),i=(?P<iterations>[0-9]{{1,9}})(?:,.*)?")
CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c={BASE64},r=(?P<nonce>{NONCE}){EXTENSIONS}),p=(?P<proof>{BASE64})"
)
SERVER_FINAL: Final = re.compile(rf"v=(?P<signature>{BASE64})(?:,.*)?")
NO_CHANNEL_BINDING: Final = base64.b64encode(b"n,,").decode()


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """Stored form of a password: sufficient to verify it, not to log in."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def credential_of(hash_name: str, salt: bytes, iterations: int, salted_password: bytes) -> ScramCredential:
    client_key = hmac.digest(salted_password, b"Client Key", hash_name)
    server_key = hmac.digest(salted_password, b"Server Key", hash_name)
    return ScramCredential(salt, hashlib.new(hash_name, client_key).digest(), server_key, iterations)


class DerivedRandom:
    """Random source of nonces, seeded once from another random source.

    The number of logins does not affect that source, and nonces reveal nothing about it.
    """

    def __init__(self, rng: Rng) -> None:
        self._key = rng.getrandbits(256).to_bytes(32, "big")
        self._drawn = 0

    def getrandbits(self, k: int) -> int:
        self._drawn += 1
        return int.from_bytes(hmac.digest(self._key, str(self._drawn).encode(), "sha512"), "big") & ((1 << k) - 1)


def new_nonce(rng: Rng | DerivedRandom) -> str:
    """Return a nonce like those of Java clients: 130 random bits in base 36."""
    number, digits = rng.getrandbits(NONCE_BITS), []
    while number:
        number, digit = divmod(number, len(DIGITS))
        digits.append(DIGITS[digit])
    return "".join(reversed(digits)) or "0"


class DerivedPasswords:
    """Cache of recently derived salted passwords, shared by a client's connections."""

    def __init__(self) -> None:
        self._by_derivation: dict[Derivation, bytes] = {}

    def get(self, derivation: Derivation) -> bytes | None:
        return self._by_derivation.get(derivation)

    def keep(self, derivation: Derivation, salted_password: bytes) -> None:
        self._by_derivation[derivation] = salted_password
        if len(self._by_derivation) > DERIVED_KEPT:
            del self._by_derivation[next(iter(self._by_derivation))]


class ScramClient(exchange.ClientExchange):
    """Client side of SCRAM; it also verifies the broker's signature."""

    def __init__(
        self, mechanism: str, username: str, password: Secret, nonce: str, passwords: DerivedPasswords | None = None
    ) -> None:
        """Take credentials, a ``new_nonce``, and a cache of derivations. Raises AuthenticationFailed."""
        if not username or not password:
            raise AuthenticationFailed(f"{mechanism} needs a user name and a password")
        self.mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce
        self._passwords = passwords if passwords is not None else DerivedPasswords()
        self._first_bare = f"n={_escaped(username)},r={nonce}"
        self._requested: Derivation | None = None
        self._server_first = ""
        self._server_nonce = ""
        self._expected: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def next(self, challenge: bytes) -> bytes | Derivation | None:
        if self.is_complete:
            raise self._failure("the broker sent a token after the login was complete")
        try:
            text = bytes(challenge).decode()
        except UnicodeDecodeError:
            raise self._failure("the broker's token is not UTF-8") from None
        if text.startswith("e="):
            raise self._failure(f"the broker reports {text[2:]}")
        if self._expected is not None:
            self._verify(text, self._expected)
            return None
        derivation = self._take_first(text)
        known = self._passwords.get(derivation)
        return self._final(known) if known is not None else derivation

    def derived(self, salted_password: bytes) -> bytes:
        assert self._requested is not None, "a derivation was requested"
        self._passwords.keep(self._requested, salted_password)
        return self._final(salted_password)

    def _take_first(self, text: str) -> Derivation:
        found = SERVER_FIRST.fullmatch(text)
        salt = _unbase64(found["salt"]) if found is not None else None
        if found is None or not salt:
            raise self._failure("the broker's first token is malformed")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise self._failure("the broker's nonce does not extend the client's")
        if not ITERATIONS_LOW <= iterations <= CLIENT_ITERATIONS_HIGH:
            raise self._failure(
                f"the broker requests {iterations} iterations; expected {ITERATIONS_LOW} to {CLIENT_ITERATIONS_HIGH}"
            )
        self._server_first, self._server_nonce = text, nonce
        self._requested = Derivation(self._password, salt, iterations, self._hash)
        return self._requested

    def _final(self, salted_password: bytes) -> bytes:
        client_key = hmac.digest(salted_password, b"Client Key", self._hash)
        server_key = hmac.digest(salted_password, b"Server Key", self._hash)
        without_proof = f"c={NO_CHANNEL_BINDING},r={self._server_nonce}"
        auth_message = f"{self._first_bare},{self._server_first},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), auth_message, self._hash)
        self._expected = hmac.digest(server_key, auth_message, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, text: str, expected: bytes) -> None:
        found = SERVER_FINAL.fullmatch(text)
        signature = _unbase64(found["signature"]) if found is not None else None
        if signature is None or not hmac.compare_digest(signature, expected):
            raise self._failure("the broker's signature is wrong: it does not know the password")
        self.is_complete = True

    def _failure(self, problem: str) -> AuthenticationFailed:
        return AuthenticationFailed(f"{self.mechanism}: {problem}")


class ScramServer(exchange.ServerExchange):
    """Broker side of SCRAM. ``find`` returns a user's credential, or None."""

    def __init__(self, mechanism: str, find: Callable[[str], ScramCredential | None], nonce: str) -> None:
        self.mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._find = find
        self._own_nonce = nonce
        self._name = ""
        self._nonce = ""
        self._credential: ScramCredential | None = None
        self._exchanged: Sequence[str] = ()

    def evaluate(self, token: bytes, now_ms: int) -> bytes:  # noqa: ARG002 - no password expires
        text = text_of(token)
        return self._take_first(text) if self._credential is None else self._take_final(text, self._credential)

    def _take_first(self, text: str) -> bytes:
        found = CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise Refused(detail="the client's first token is malformed")
        name = _unescaped(found["name"])
        if found["authzid"] and _unescaped(found["authzid"]) != name:
            raise Refused(exchange.OTHER_AUTHORIZATION_ID)
        extensions = found["extensions"].split(",")
        if "tokenauth=true" in extensions:
            raise Refused(detail="delegation tokens are not supported")
        if any(extension.startswith("m=") for extension in extensions):
            raise Refused(detail="the client requires an unknown extension")
        credential = self._find(name)
        if credential is None:
            raise Refused(detail=f"user {name!r} has no {self.mechanism} credential")
        self._name, self._credential = name, credential
        self._nonce = found["nonce"] + self._own_nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._exchanged = (found["bare"], answer)
        return answer.encode()

    def _take_final(self, text: str, credential: ScramCredential) -> bytes:
        found = CLIENT_FINAL.fullmatch(text)
        proof = _unbase64(found["proof"]) if found is not None else None
        if found is None or proof is None or len(proof) != len(credential.stored_key):
            raise Refused(detail="the client's final token is malformed")
        # librdkafka before 2.6.1 repeats its own nonce; Kafka accepts that too
        if not found["nonce"].endswith(self._nonce):
            raise Refused(detail="the client's nonce does not match")
        auth_message = ",".join([*self._exchanged, found["without_proof"]]).encode()
        signature = hmac.digest(credential.stored_key, auth_message, self._hash)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key):
            raise Refused(detail=f"user {self._name!r}: wrong password")
        self.user = LoggedInAs(self._name)
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, auth_message, self._hash))


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _unbase64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


KEYS: Final = ("name", "iterations", "salt", "password", "saltedpassword")
ENTRY: Final = re.compile(r"(?P<mechanism>[^=\[\]]+)=\[(?P<pairs>.*)\]", re.DOTALL)
PAIR: Final = re.compile(r'\s*(?P<key>\w+)\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<bare>[^,"]*))\s*(?:,|$)')
SALT_BYTES: Final = 18
EXPECTED: Final = "expected SCRAM-SHA-256=[name=USER,password=PASSWORD], also with iterations= and salt="


class NamedCredential(NamedTuple):
    user: str
    mechanism: str
    credential: ScramCredential


def check_users(option: str, text: Secret) -> None:
    """Raise ConfigError for malformed users, without deriving passwords."""
    for line in _lines(text):
        _parsed(option, line)


def parse_users(option: str, text: Secret, new_salt: Callable[[], bytes]) -> list[NamedCredential]:
    """Parse users, one per line, and derive their credentials. Raises ConfigError."""
    return [_derived(option, *_parsed(option, line), new_salt) for line in _lines(text)]


def _lines(text: Secret) -> list[str]:
    return [line.strip() for line in text.reveal().splitlines() if line.strip()]


def _parsed(option: str, line: str) -> tuple[str, dict[str, str]]:
    entry = ENTRY.fullmatch(line)
    if entry is None:
        raise ConfigError(f"{option}: {EXPECTED}")
    mechanism, text, at, found = entry["mechanism"].strip(), entry["pairs"].strip(), 0, {}
    if mechanism not in HASHES:
        raise ConfigError(f"{option}: expected one of {', '.join(HASHES)}")
    while at < len(text):
        pair = PAIR.match(text, at)
        if pair is None or pair["key"] not in KEYS or pair["key"] in found:
            raise ConfigError(f"{option}: {EXPECTED}")
        found[pair["key"]] = pair["bare"].strip() if pair["quoted"] is None else pair["quoted"]
        at = pair.end()
    if not found.get("name") or bool(found.get("password")) == bool(found.get("saltedpassword")):
        raise ConfigError(f"{option}: a user needs a name, and either a password or a saltedpassword")
    iterations = found.setdefault("iterations", str(ITERATIONS_LOW))
    if not re.fullmatch(r"[0-9]{1,9}", iterations) or not ITERATIONS_LOW <= int(iterations) <= ITERATIONS_HIGH:
        raise ConfigError(f"{option}: iterations must be {ITERATIONS_LOW} to {ITERATIONS_HIGH}")
    _base64_value(option, found, "salt")
    salted = _base64_value(option, found, "saltedpassword")
    if salted and (not found.get("salt") or len(salted) != hashlib.new(HASHES[mechanism]).digest_size):
        raise ConfigError(f"{option}: saltedpassword needs a salt, and must be as long as the hash")
    return mechanism, found


def _derived(option: str, mechanism: str, pairs: dict[str, str], new_salt: Callable[[], bytes]) -> NamedCredential:
    salt = _base64_value(option, pairs, "salt") or new_salt()
    iterations, hash_name = int(pairs["iterations"]), HASHES[mechanism]
    salted = _base64_value(option, pairs, "saltedpassword")
    if not salted:
        salted = Derivation(Secret(pairs["password"]), salt, iterations, hash_name).derive()
    return NamedCredential(pairs["name"], mechanism, credential_of(hash_name, salt, iterations, salted))


def _base64_value(option: str, pairs: dict[str, str], key: str) -> bytes:
    data = _unbase64(pairs.get(key, ""))
    if data is None:
        raise ConfigError(f"{option}: {key} is not base64")
    return data
