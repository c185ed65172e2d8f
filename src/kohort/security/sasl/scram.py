"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677): no password on the wire, none kept (protocol/security.md#scram).

Passwords are raw UTF-8, as in Kafka: nothing is prepared.
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
from kohort.security.sasl.exchange import (
    OTHER_AUTHORIZATION_ID,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ClientExchange,
    Derivation,
    LoggedInAs,
    Refused,
    ServerExchange,
    text_of,
)

HASHES: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
MECHANISM_NUMBERS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
ITERATIONS_LOW: Final = 4096
ITERATIONS_HIGH: Final = 16384
"""Bound of stored credentials; a client accepts more iterations."""
CLIENT_ITERATIONS_HIGH: Final = 1_000_000
"""Bound of a client's work (RFC 7677, section 4)."""
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
    """The stored form of a password: enough to verify it, not to log in."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def credential_of(hash_name: str, salt: bytes, iterations: int, salted_password: bytes) -> ScramCredential:
    client_key = hmac.digest(salted_password, b"Client Key", hash_name)
    server_key = hmac.digest(salted_password, b"Server Key", hash_name)
    return ScramCredential(salt, hashlib.new(hash_name, client_key).digest(), server_key, iterations)


class DerivedChance:
    """Chance for nonces that is drawn from another once, so that how many logins there are changes nothing else; and
    whoever sees nonces knows nothing of that other."""

    def __init__(self, rng: Rng) -> None:
        self._key = rng.getrandbits(256).to_bytes(32, "big")
        self._drawn = 0

    def getrandbits(self, k: int) -> int:
        self._drawn += 1
        return int.from_bytes(hmac.digest(self._key, str(self._drawn).encode(), "sha512"), "big") & ((1 << k) - 1)


def new_nonce(rng: Rng | DerivedChance) -> str:
    """Return a nonce as Java's clients do: 130 random bits in base 36."""
    number, digits = rng.getrandbits(NONCE_BITS), []
    while number:
        number, digit = divmod(number, len(DIGITS))
        digits.append(DIGITS[digit])
    return "".join(reversed(digits)) or "0"


class DerivedPasswords:
    """Recently derived salted passwords, shared by a client's connections."""

    def __init__(self) -> None:
        self._by_derivation: dict[Derivation, bytes] = {}

    def get(self, derivation: Derivation) -> bytes | None:
        return self._by_derivation.get(derivation)

    def keep(self, derivation: Derivation, salted_password: bytes) -> None:
        self._by_derivation[derivation] = salted_password
        if len(self._by_derivation) > DERIVED_KEPT:
            del self._by_derivation[next(iter(self._by_derivation))]


class ScramClient(ClientExchange):
    """A client's half. It verifies the broker's signature, too."""

    def __init__(
        self, mechanism: str, username: str, password: Secret, nonce: str, passwords: DerivedPasswords | None = None
    ) -> None:
        """Take the credentials, a ``new_nonce``, and what was derived for other connections. Raises
        AuthenticationFailed."""
        if not username or not password:
            raise AuthenticationFailed(f"{mechanism} needs a user name and a password")
        self.mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce
        self._passwords = passwords if passwords is not None else DerivedPasswords()
        self._first_bare = f"n={_escaped(username)},r={nonce}"
        self._wanted: Derivation | None = None
        self._server_first = ""
        self._server_nonce = ""
        self._expected: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def next(self, challenge: bytes) -> bytes | Derivation | None:
        if self.is_complete:
            raise self._failure("the broker goes on although all is said")
        try:
            said = bytes(challenge).decode()
        except UnicodeDecodeError:
            raise self._failure("the broker's token is not UTF-8") from None
        if said.startswith("e="):
            raise self._failure(f"the broker says {said[2:]}")
        if self._expected is not None:
            self._verify(said, self._expected)
            return None
        wanted = self._take_first(said)
        known = self._passwords.get(wanted)
        return self._final(known) if known is not None else wanted

    def derived(self, salted_password: bytes) -> bytes:
        assert self._wanted is not None, "nothing was asked for"
        self._passwords.keep(self._wanted, salted_password)
        return self._final(salted_password)

    def _take_first(self, said: str) -> Derivation:
        found = SERVER_FIRST.fullmatch(said)
        salt = _unbase64(found["salt"]) if found is not None else None
        if found is None or not salt:
            raise self._failure("the broker's first token makes no sense")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise self._failure("the broker's nonce does not go on from ours")
        if not ITERATIONS_LOW <= iterations <= CLIENT_ITERATIONS_HIGH:
            allowed = f"{ITERATIONS_LOW} to {CLIENT_ITERATIONS_HIGH}"
            raise self._failure(f"the broker asks for {iterations} iterations; {allowed} are safe")
        self._server_first, self._server_nonce = said, nonce
        self._wanted = Derivation(self._password, salt, iterations, self._hash)
        return self._wanted

    def _final(self, salted_password: bytes) -> bytes:
        client_key = hmac.digest(salted_password, b"Client Key", self._hash)
        server_key = hmac.digest(salted_password, b"Server Key", self._hash)
        without_proof = f"c={NO_CHANNEL_BINDING},r={self._server_nonce}"
        auth_message = f"{self._first_bare},{self._server_first},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), auth_message, self._hash)
        self._expected = hmac.digest(server_key, auth_message, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, said: str, expected: bytes) -> None:
        found = SERVER_FINAL.fullmatch(said)
        signature = _unbase64(found["signature"]) if found is not None else None
        if signature is None or not hmac.compare_digest(signature, expected):
            raise self._failure("the broker does not know the password either: it is not who it says")
        self.is_complete = True

    def _failure(self, words: str) -> AuthenticationFailed:
        return AuthenticationFailed(f"{self.mechanism}: {words}")


class ScramServer(ServerExchange):
    """A broker's half. ``find`` returns a user's credential, or None."""

    def __init__(self, mechanism: str, find: Callable[[str], ScramCredential | None], nonce: str) -> None:
        self.mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._find = find
        self._own_nonce = nonce
        self._name = ""
        self._nonce = ""
        self._credential: ScramCredential | None = None
        self._said: Sequence[str] = ()

    def evaluate(self, token: bytes, now_ms: int) -> bytes:  # noqa: ARG002 - no password expires
        said = text_of(token)
        return self._take_first(said) if self._credential is None else self._take_final(said, self._credential)

    def _take_first(self, said: str) -> bytes:
        found = CLIENT_FIRST.fullmatch(said)
        if found is None:
            raise Refused(detail="the client's first token makes no sense")
        name = _unescaped(found["name"])
        if found["authzid"] and _unescaped(found["authzid"]) != name:
            raise Refused(OTHER_AUTHORIZATION_ID)
        extensions = found["extensions"].split(",")
        if "tokenauth=true" in extensions:
            raise Refused(detail="delegation tokens are not served")
        if any(extension.startswith("m=") for extension in extensions):
            raise Refused(detail="the client wants an extension that is not known")
        credential = self._find(name)
        if credential is None:
            raise Refused(detail=f"user {name!r}: not known for {self.mechanism}")
        self._name, self._credential = name, credential
        self._nonce = found["nonce"] + self._own_nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._said = (found["bare"], answer)
        return answer.encode()

    def _take_final(self, said: str, credential: ScramCredential) -> bytes:
        found = CLIENT_FINAL.fullmatch(said)
        proof = _unbase64(found["proof"]) if found is not None else None
        if found is None or proof is None or len(proof) != len(credential.stored_key):
            raise Refused(detail="the client's final token makes no sense")
        if not found["nonce"].endswith(self._nonce):  # librdkafka before 2.6.1 says its own twice; Kafka takes that too
            raise Refused(detail="the client's nonce is not the one that was given")
        auth_message = ",".join([*self._said, found["without_proof"]]).encode()
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
    """Parse users, one a line, and derive their credentials. Raises ConfigError."""
    return [_derived(option, *_parsed(option, line), new_salt) for line in _lines(text)]


def _lines(text: Secret) -> list[str]:
    return [line.strip() for line in text.reveal().splitlines() if line.strip()]


def _parsed(option: str, line: str) -> tuple[str, dict[str, str]]:
    entry = ENTRY.fullmatch(line)
    if entry is None:
        raise ConfigError(f"{option}: {EXPECTED}")
    mechanism, text, at, found = entry["mechanism"].strip(), entry["pairs"].strip(), 0, {}
    if mechanism not in HASHES:
        raise ConfigError(f"{option}: the mechanism is one of {', '.join(HASHES)}")
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
        raise ConfigError(f"{option}: iterations are a number from {ITERATIONS_LOW} to {ITERATIONS_HIGH}")
    _said_bytes(option, found, "salt")
    salted = _said_bytes(option, found, "saltedpassword")
    if salted and (not found.get("salt") or len(salted) != hashlib.new(HASHES[mechanism]).digest_size):
        raise ConfigError(f"{option}: a saltedpassword needs its salt, and is as long as the hash")
    return mechanism, found


def _derived(option: str, mechanism: str, said: dict[str, str], new_salt: Callable[[], bytes]) -> NamedCredential:
    salt = _said_bytes(option, said, "salt") or new_salt()
    iterations, hash_name = int(said["iterations"]), HASHES[mechanism]
    salted = _said_bytes(option, said, "saltedpassword")
    if not salted:
        salted = Derivation(Secret(said["password"]), salt, iterations, hash_name).derive()
    return NamedCredential(said["name"], mechanism, credential_of(hash_name, salt, iterations, salted))


def _said_bytes(option: str, said: dict[str, str], key: str) -> bytes:
    data = _unbase64(said.get(key, ""))
    if data is None:
        raise ConfigError(f"{option}: {key} is not in base 64")
    return data
