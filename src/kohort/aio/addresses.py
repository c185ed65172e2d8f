"""Resolve a host name and connect to its addresses in turn, so that an unreachable address does not block the client.

A DNS lookup continues after the timeout of the connection attempt that started it; the next attempt uses its result.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

AddressInfo = tuple[Any, ...]
INVALID_HOST: Final = "invalid host name"
KEPT_S: Final = 30.0
"""Time in seconds for which the result of a DNS lookup is kept for the next connection attempt."""
Lookup = asyncio.Task[Sequence[AddressInfo]]
_lookups: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], Lookup]]] = WeakKeyDictionary()


async def connect_to(host: str, port: int, limit_s: float) -> socket.socket:
    """Resolve a host name and connect to the first address that answers.

    Tries all addresses in turn, as Kafka's clients do with ``client.dns.lookup=use_all_dns_ips`` (KIP-302). Time limits
    and errors are those of ``first_connected``.
    """
    try:
        addresses = await _addresses_of(host, port)
    except UnicodeError:  # the host name has an empty label, or a label of more than 63 characters
        raise OSError(0, INVALID_HOST) from None
    return await first_connected(addresses, limit_s)


async def _addresses_of(host: str, port: int) -> Sequence[AddressInfo]:
    """Resolve a host name. If a DNS lookup of this name is in flight, wait for its result instead."""
    loop = asyncio.get_running_loop()
    lookups = _lookups.setdefault(loop, {})
    key = host, port
    lookup = lookups.get(key)
    if lookup is None:
        lookup = lookups[key] = loop.create_task(_resolve(loop, host, port))
        lookup.add_done_callback(lambda done: loop.call_later(KEPT_S, _remove, lookups, key, done))
    try:
        return await asyncio.shield(lookup)
    finally:
        if lookup.done():
            _remove(lookups, key, lookup)


async def _resolve(loop: asyncio.AbstractEventLoop, host: str, port: int) -> Sequence[AddressInfo]:
    return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _remove(lookups: dict[tuple[str, int], Lookup], key: tuple[str, int], done: Lookup) -> None:
    if lookups.get(key) is done:
        del lookups[key]
    if not done.cancelled():
        done.exception()  # retrieve the error of the lookup: asyncio logs exceptions that are never retrieved


async def first_connected(addresses: Sequence[AddressInfo], limit_s: float) -> socket.socket:
    """Connect to the first address that answers.

    ``limit_s`` seconds are divided equally among the addresses. Only the attempt at the last address has no time limit
    of its own: the caller cancels the call after ``limit_s`` seconds. Raises the OSError of the last address.
    """
    share_s = limit_s / (len(addresses) + 1)
    last_error: OSError = OSError(0, "the host name has no address")
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        try:
            async with asyncio.timeout(share_s if number < len(addresses) else None):
                return await _connected(family, kind, protocol, address)
        except TimeoutError:
            last_error = OSError(0, f"{address[0]} does not answer")
        except OSError as error:
            last_error = error
    raise last_error


async def _connected(family: int, kind: int, protocol: int, address: tuple[Any, ...]) -> socket.socket:
    connected = socket.socket(family, kind, protocol)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, address)
    except BaseException:
        connected.close()
        raise
    return connected
