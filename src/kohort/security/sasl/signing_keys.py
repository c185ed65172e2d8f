"""The keys with which tokens are signed (JWKS, RFC 7517): kept, and fetched anew by whoever can (KIP-768).

Fetching is a wish that goes out and content that comes in. The times are Kafka's: every ``refresh_ms``; after a failure
sooner, backing off; for a key that is not known once in a minute, and only sixteen such are remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kohort.security.sasl.exchange import KeysWanted

RETRY_MS: Final = 100
RETRY_MAX_MS: Final = 10_000
FIRST_WAIT_MS: Final = 10_000
"""How long logins wait for keys that have never come."""
MISSING_MS: Final = 60_000
APART_MS: Final = 1_000
"""Strangers name keys that there are not; for these nothing is fetched more often."""
MISSING_MOST: Final = 16
KEYS_MOST: Final = 1_000
KIND_OF: Final = {"R": "RSA", "P": "RSA", "E": "EC"}


class SigningKeys:
    """The keys of one address."""

    def __init__(self, url: str, refresh_ms: int, now_ms: int) -> None:
        """Wish for the keys at once."""
        self.url = url
        self.problem = ""
        """Why the last try gave no keys; empty where it did."""
        self._refresh_ms = refresh_ms
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._started_ms = now_ms
        self._have_come = False
        self._is_under_way = False
        self._failures = 0
        self._fetch_at_ms = now_ms
        self._ended_ms = now_ms - APART_MS
        self._missing: dict[str, int] = {}
        self._awaited: set[str] = set()

    # ------------------------------------------------------------ fetching

    @property
    def wake_at_ms(self) -> int | None:
        """When the keys are to be fetched; None while they are."""
        return None if self._is_under_way else self._fetch_at_ms

    def take_wish(self, now_ms: int) -> bool:
        """Tell, once, whether the keys are to be fetched now."""
        if self._is_under_way or self._fetch_at_ms > now_ms:
            return False
        self._is_under_way = True
        return True

    def fetched(self, content: bytes, now_ms: int) -> None:
        """Take what the address holds."""
        try:
            keys = _keys_of(content)
        except (ValueError, TypeError, KeyError, RecursionError):
            self.failed("what is there is no set of keys (JWKS)", now_ms)
            return
        self._keys, self._have_come, self._failures, self.problem = keys, True, 0, ""
        self._end(now_ms, self._refresh_ms)

    def failed(self, problem: str, now_ms: int) -> None:
        """Take note that nothing came; what was known stays."""
        self.problem = problem
        backoff_ms = min(RETRY_MS << min(self._failures, 16), RETRY_MAX_MS)
        self._failures += 1
        self._end(now_ms, backoff_ms)

    def _end(self, now_ms: int, wait_ms: int) -> None:
        self._is_under_way = False
        self._awaited.clear()
        self._ended_ms, self._fetch_at_ms = now_ms, now_ms + wait_ms

    # ------------------------------------------------------------ judging

    def candidates(self, key_id: str | None, algorithm: str, now_ms: int) -> Sequence[Mapping[str, Any]]:
        """Return the keys that may have made a signature, none of them a secret.

        Raises KeysWanted where the keys have not come yet, or a fetch may bring this one.
        """
        if not self._have_come and now_ms < self._started_ms + FIRST_WAIT_MS:
            raise KeysWanted("the keys have not come yet")
        found = [key for key in self._keys if _fits(key, key_id, algorithm)]
        is_known = key_id is None or any(key.get("kid") == key_id for key in self._keys)
        if key_id is not None and not is_known and self._may_come(key_id, now_ms):
            raise KeysWanted("the key is not known; it is being looked for")
        return found

    def _may_come(self, key_id: str, now_ms: int) -> bool:
        """Tell whether a fetch for this key is due or under way; it is asked for once in a minute."""
        if key_id in self._awaited:
            return True
        asked_ms = self._missing.pop(key_id, None)
        if asked_ms is not None and now_ms - asked_ms < MISSING_MS:
            self._missing[key_id] = asked_ms
            return False
        self._missing[key_id] = now_ms
        if len(self._missing) > MISSING_MOST:
            del self._missing[next(iter(self._missing))]
        self._awaited.add(key_id)
        self._fetch_at_ms = min(self._fetch_at_ms, max(now_ms, self._ended_ms + APART_MS))
        return True


def _fits(key: Mapping[str, Any], key_id: str | None, algorithm: str) -> bool:
    kind = KIND_OF.get(algorithm[0], "OKP") if algorithm[:2] != "Ed" else "OKP"
    return (
        key["kty"] == kind
        and key.get("alg", algorithm) in {algorithm, "EdDSA"}
        and key.get("use", "sig") == "sig"
        and (key_id is None or key.get("kid") == key_id)
    )


def _keys_of(content: bytes) -> list[Mapping[str, Any]]:
    """Return the keys of a JWKS; those of kinds that are not known are passed over."""
    keys = json.loads(content)["keys"]
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise TypeError("keys")
    return [key for key in keys if key.get("kty") in {"RSA", "EC", "OKP"}][:KEYS_MOST]
