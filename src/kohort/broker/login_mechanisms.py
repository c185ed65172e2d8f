"""SASL mechanisms of each listener, built from the listener's options when the broker starts.

The broker does not start if a mechanism lacks a required option.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from kohort.broker.cluster.security_store import ScramUsers
from kohort.clock import Rng, WallTime, earliest
from kohort.config.broker import BrokerConfig
from kohort.config.listener_security import SIGNED_TOKENS, ListenerConfig
from kohort.config.listeners import demands_signed_tokens, listener_config, listeners_of
from kohort.errors import ConfigError
from kohort.extras import needs
from kohort.notes import Note, debug, warning
from kohort.security.jaas import OAUTH_MODULE, PLAIN_MODULE, JaasEntry, parse_jaas
from kohort.security.jaas import OPTION as JAAS_OPTION
from kohort.security.sasl.exchange import OAUTHBEARER, PLAIN, ServerExchange
from kohort.security.sasl.oauthbearer import OAuthBearerServer
from kohort.security.sasl.plain import PlainServer
from kohort.security.sasl.scram import DerivedRandom, ScramServer, new_nonce
from kohort.security.sasl.tokens import SignedTokens, SigningKeys, TokenValidator, UnsecuredTokens

UNSECURED: Final = "OAuthBearerUnsecuredValidatorCallbackHandler"
URLS: Final = ("https://", "http://", "file:")
PLAIN_ADVICE: Final = 'give org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="PASSWORD";'


class Offer(NamedTuple):
    begin: Callable[[], ServerExchange]
    max_reauth_ms: int
    """Maximum lifetime of a login in ms (``connections.max.reauth.ms``); 0: no limit."""


class ListenerMechanisms(NamedTuple):
    mechanisms: Mapping[str, Offer]
    max_frame_bytes: int


class LoginMechanisms:
    """SASL mechanisms of all listeners, and the keys that verify their OAUTHBEARER tokens."""

    def __init__(self, config: BrokerConfig, users: ScramUsers, rng: Rng, now_ms: int, wall: WallTime) -> None:
        """Build the configured SASL mechanisms. Raises ConfigError, or MissingExtra for a missing package."""
        self.by_listener: dict[str, ListenerMechanisms] = {}
        self.keys: dict[str, SigningKeys] = {}
        self.notes: list[Note] = []
        self.users = users
        self._chance = DerivedRandom(rng) if any(one.protocol.uses_sasl for one in listeners_of(config)) else rng
        self._now_ms, self._wall = now_ms, wall
        for listener in listeners_of(config):
            if listener.protocol.uses_sasl:
                self.by_listener[listener.name] = self._of_listener(config, listener.name)

    def _of_listener(self, config: BrokerConfig, name: str) -> ListenerMechanisms:
        general = listener_config(config, name)
        if not general.sasl_enabled_mechanisms:
            raise ConfigError(f"sasl.enabled.mechanisms: listener {name} uses SASL, but has no mechanism")
        found = {}
        for mechanism in general.sasl_enabled_mechanisms:
            options = listener_config(config, name, mechanism)
            found[mechanism] = Offer(self._begin(mechanism, options, name), options.connections_max_reauth_ms)
        return ListenerMechanisms(found, general.sasl_server_max_receive_size)

    def _begin(self, mechanism: str, options: ListenerConfig, listener: str) -> Callable[[], ServerExchange]:
        prefix = f"listener.name.{listener.lower()}.{mechanism.lower()}."
        if mechanism == PLAIN:
            users = _entry(options, prefix, PLAIN_MODULE).under("user_")
            if not users:
                raise ConfigError(f"{prefix}{JAAS_OPTION}: PLAIN has no users on listener {listener}: {PLAIN_ADVICE}")
            return partial(PlainServer, users)
        if mechanism == OAUTHBEARER:
            return partial(OAuthBearerServer, self._validator(options, listener, prefix))
        find = partial(self.users.find, mechanism=mechanism)
        return lambda: ScramServer(mechanism, find, new_nonce(self._chance))

    def _validator(self, options: ListenerConfig, listener: str, prefix: str) -> TokenValidator:
        handler = (options.sasl_server_callback_handler_class or "").rpartition(".")[2]
        url = options.sasl_oauthbearer_jwks_endpoint_url
        if handler not in {"", SIGNED_TOKENS, UNSECURED}:
            raise ConfigError(
                f"{prefix}sasl.server.callback.handler.class: unknown class {handler}, expected {SIGNED_TOKENS}"
            )
        if demands_signed_tokens(options):
            return self._signed(options, url, listener)
        self.notes.append(
            warning(f"listener {listener} accepts any token (OAUTHBEARER, unsecured): use it only for tests")
        )
        return _unsecured(_entry(options, prefix, OAUTH_MODULE), prefix, self._wall)

    def _signed(self, options: ListenerConfig, url: str | None, listener: str) -> SignedTokens:
        option = "sasl.oauthbearer.jwks.endpoint.url"
        if not url:
            raise ConfigError(
                f"{option} is missing: listener {listener} needs the URL of the keys that sign its tokens"
            )
        if not url.startswith(URLS):
            raise ConfigError(f"{option}={url!r}: expected https://HOST/PATH or file:/PATH")
        with needs("security", "OAUTHBEARER with signed tokens"):
            import joserfc  # noqa: F401
        if url not in self.keys:
            self.keys[url] = SigningKeys(url, options.sasl_oauthbearer_jwks_endpoint_refresh_ms, self._now_ms)
        return SignedTokens(
            self.keys[url],
            tuple(options.sasl_oauthbearer_expected_audience),
            options.sasl_oauthbearer_expected_issuer,
            options.sasl_oauthbearer_clock_skew_seconds * 1000,
            options.sasl_oauthbearer_scope_claim_name,
            options.sasl_oauthbearer_sub_claim_name,
            self._wall,
        )

    # ------------------------------------------------------------ keys of OAUTHBEARER tokens

    @property
    def wake_at_ms(self) -> int | None:
        return earliest(*(keys.wake_at_ms for keys in self.keys.values()))

    def keys_to_fetch(self, now_ms: int) -> list[str]:
        """Return the URLs from which OAUTHBEARER keys must be fetched now, without duplicates."""
        return [url for url, keys in self.keys.items() if keys.take_fetch(now_ms)]

    def keys_fetched(self, url: str, content: bytes | None, problem: str, now_ms: int) -> Note:
        """Store the OAUTHBEARER keys of a URL, or the ``problem`` of fetching them; return a log line."""
        keys = self.keys.get(url)
        if keys is None:
            return debug(f"ignored the OAUTHBEARER keys of {url}: no listener uses them")
        if content is None:
            keys.failed(problem, now_ms)
        else:
            keys.fetched(content, now_ms)
        if keys.problem:
            return warning(f"OAUTHBEARER keys cannot be fetched from {url}: {keys.problem}", ("keys", url))
        return debug(f"OAUTHBEARER keys were fetched from {url}")


def _entry(options: ListenerConfig, prefix: str, module: str) -> JaasEntry:
    """Return the JAAS entry that configures a mechanism, empty without the option. Raises ConfigError."""
    if options.sasl_jaas_config is None:
        return JaasEntry(module)
    option = f"{prefix}{JAAS_OPTION}"
    entry = parse_jaas(options.sasl_jaas_config, option)
    if entry.module != module:
        raise ConfigError(f"{option}: expected an entry of {module}, not of {entry.module}")
    return entry


def _unsecured(entry: JaasEntry, prefix: str, wall: WallTime) -> UnsecuredTokens:
    skew = entry.get("unsecuredValidatorAllowableClockSkewMs") or "0"
    if not skew.isascii() or not skew.isdigit():
        raise ConfigError(
            f"{prefix}{JAAS_OPTION}: unsecuredValidatorAllowableClockSkewMs={skew}: expected milliseconds"
        )
    return UnsecuredTokens(
        entry.get("unsecuredValidatorPrincipalClaimName") or "sub",
        entry.get("unsecuredValidatorScopeClaimName") or "scope",
        tuple((entry.get("unsecuredValidatorRequiredScope") or "").split()),
        int(skew),
        wall,
    )
