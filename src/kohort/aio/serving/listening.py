"""Bind the sockets of a broker's listeners before the broker opens its data."""

from __future__ import annotations

import errno
import resource
import socket
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Final, NamedTuple

from kohort.aio.tls.contexts import check_tls
from kohort.config.broker import BrokerConfig
from kohort.config.listener_security import SecurityProtocol
from kohort.config.listeners import (
    EVERY_ADDRESS,
    Listener,
    address_text,
    advertised_of,
    believes_every_token,
    check_listeners,
    listeners_of,
    with_ports,
)
from kohort.errors import ConfigError

RESERVED: Final = 64
"""Number of file handles reserved for log files: connections do not get them.

Without a free handle uvloop and asyncio accept no connections and report no error, and log files cannot be opened.
"""


def is_reserved(handle: int) -> bool:
    """Return True if ``handle`` is reserved for log files.

    The system assigns the lowest free handle: a connection gets a reserved handle only if all others are in use.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit != resource.RLIM_INFINITY and handle >= limit - min(RESERVED, limit // 4)


BACKLOG: Final = 512


class BoundListener(NamedTuple):
    listener: Listener
    listening: socket.socket


class Bound(NamedTuple):
    config: BrokerConfig
    listeners: list[BoundListener]

    def close(self) -> None:
        for _, listening in self.listeners:
            listening.close()


def bind(config: BrokerConfig) -> Bound:
    """Bind a socket for every listener of the broker.

    Raises ConfigError if an address is unusable or cannot be advertised, and if a certificate is unusable. Raises
    MissingExtra if a package to read a certificate is missing.
    """
    check_listeners(config)
    for listener in listeners_of(config):
        if listener.protocol.uses_tls:
            check_tls(config, listener)
    advertised = {listener.name for listener in advertised_of(config)} if config.advertised_listeners else set()
    with ExitStack() as sockets:
        found = []
        for listener in listeners_of(config):
            if not config.allow_anyone:
                _check_reach(config, listener)
            if listener.host in EVERY_ADDRESS and listener.name not in advertised:
                raise ConfigError(
                    f"listening on every address ({address_text(listener.host or '0.0.0.0', listener.port)}): set the "
                    "address for clients with advertised.listeners="
                    f"{listener.name}://HOST:{listener.port or 'PORT'}"
                )
            found.append(sockets.enter_context(listen_on(listener.host, listener.port)))
        sockets.pop_all()
    config = with_ports(config, [listening.getsockname()[1] for listening in found])
    return Bound(config, [BoundListener(*pair) for pair in zip(listeners_of(config), found, strict=True)])


def _check_reach(config: BrokerConfig, listener: Listener) -> None:
    """Raise ConfigError if other computers can reach a listener that is PLAINTEXT, or that accepts unsigned tokens."""
    if is_loopback(listener.host):
        return
    if listener.protocol.uses_sasl and believes_every_token(config, listener.name):
        raise ConfigError(
            f"{listener} is reachable from other computers and accepts unsigned tokens (OAUTHBEARER): clients can "
            "log in as any user. Set sasl.oauthbearer.jwks.endpoint.url, or remove OAUTHBEARER from "
            "sasl.enabled.mechanisms; or allow it with --allow-anyone (kohort.allow.anyone=true)"
        )
    if listener.protocol is SecurityProtocol.PLAINTEXT:
        raise ConfigError(
            f"{listener} is reachable from other computers without TLS and logins: any client can read and change "
            "all data. Listen on 127.0.0.1; or require logins: kohort serve --listen "
            f"SASL_PLAINTEXT://{address_text(listener.host, listener.port)} --add-scram "
            "'SCRAM-SHA-256=[name=alice,password=...]', or SASL_SSL:// with a certificate; or allow it with "
            "--allow-anyone (kohort.allow.anyone=true)"
        )


def is_loopback(host: str) -> bool:
    """Return True if only this computer can reach the address ``host``, or if the host name is unknown."""
    if host in EVERY_ADDRESS:
        return False
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return True
    return all(ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def listen_on(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except socket.gaierror as error:
        raise ConfigError(f"cannot listen on {host}:{port}: no such host ({error.strerror})") from None
    except (ValueError, TypeError):
        raise ConfigError(f"cannot listen on {host!r}:{port}: invalid host name") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"port {port} on {host or '0.0.0.0'} is in use by another program: stop it, or choose another port "
                "(port 0 takes a free one)"
            ) from None
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None
